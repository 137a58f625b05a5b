#include "dashboard/source/live_source.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "dashboard/source/part_keeper.h"
#include "dashboard/source/split_update.h"
#include "millrace/status_macros.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kMaxActions = 64;

LinkState::Kind KindOf(const WatchState& state) {
  switch (state.kind) {
    case WatchState::Kind::kConnecting:
      return LinkState::Kind::kConnecting;
    case WatchState::Kind::kLive:
      return LinkState::Kind::kLive;
    case WatchState::Kind::kStale:
      return LinkState::Kind::kStale;
    case WatchState::Kind::kGone:
      return state.reason.ok() ? LinkState::Kind::kEnded : LinkState::Kind::kLost;
    case WatchState::Kind::kRefused:
      return LinkState::Kind::kRefused;
  }
  return LinkState::Kind::kConnecting;
}

LinkState LinkOf(const WatchState& state) {
  LinkState link;
  link.kind = KindOf(state);
  link.since = state.since;
  link.reason = std::string(state.reason.message());
  link.reconnects = state.reconnects;
  return link;
}

// An operator's requests, one at a time on a thread that begins with the first.
class Actions final : public OperatorActions {
 public:
  Actions(RawClusterClient* client, bool allowed, std::function<void()> wake)
      : client_(client), allowed_(allowed), wake_(std::move(wake)) {}
  ~Actions() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      changed_.Signal();
    }
    client_->Cancel();
    thread_.Join();
  }

  bool allowed() const override { return allowed_; }

  void RestartNode(int executor_id, absl::string_view name) override {
    Ask(absl::StrCat("restart ", name), [this, executor_id] {
      return client_->RestartNode(executor_id, "asked for in the dashboard").status();
    });
  }

  void StopCluster(bool now) override {
    Ask(now ? "kill the cluster" : "stop the cluster",
        [this, now] { return client_->StopCluster("asked for in the dashboard", now); });
  }

  std::vector<ActionResult> TakeResults() override {
    MutexLock lock(&mu_);
    return std::exchange(results_, {});
  }

 private:
  struct Request {
    std::string what;
    std::function<absl::Status()> call;
  };

  void Ask(std::string what, std::function<absl::Status()> call) {
    MutexLock lock(&mu_);
    if (requests_.size() >= kMaxActions) {
      results_.push_back(
          {std::move(what), absl::ResourceExhaustedError("too many requests are waiting already")});
      return;
    }
    requests_.push_back({std::move(what), std::move(call)});
    changed_.Signal();
    if (!thread_.joinable()) thread_ = Thread("dash-action", [this] { Run(); });
  }

  void Run() {
    for (;;) {
      Request request;
      {
        MutexLock lock(&mu_);
        while (requests_.empty() && !stopping_) changed_.Wait(&mu_);
        if (stopping_) return;
        request = std::move(requests_.front());
        requests_.pop_front();
      }
      absl::Status status = request.call();
      {
        MutexLock lock(&mu_);
        results_.push_back({std::move(request.what), std::move(status)});
      }
      if (wake_ != nullptr) wake_();
    }
  }

  RawClusterClient* const client_;  // outlives this
  const bool allowed_;
  const std::function<void()> wake_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<ActionResult> results_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

class LiveSource final : public UpdateSource {
 public:
  LiveSource(LiveOptions options, std::unique_ptr<RawClusterClient> client)
      : options_(std::move(options)),
        client_(std::move(client)),
        actions_(client_.get(), !options_.client.operator_token.empty(), options_.wake) {}

  ~LiveSource() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      taken_.SignalAll();
    }
    if (watch_ != nullptr) watch_->Stop();
  }

  absl::Status Start() {
    RawWatchOptions watch;
    watch.interval = options_.interval;
    watch.log_lines = options_.log_lines;
    RawWatchCallbacks callbacks;
    callbacks.take_update = [this](std::shared_ptr<v1::WatchUpdate> update) {
      TakeUpdate(std::move(update));
    };
    callbacks.on_state = [this](const WatchState& state) { TakeState(state); };
    MILLRACE_ASSIGN_OR_RETURN(watch_, client_->Watch(watch, std::move(callbacks)));
    return absl::OkStatus();
  }

  std::string title() const override {
    return options_.title.empty() ? options_.client.address : options_.title;
  }

  OperatorActions* actions() override { return &actions_; }

  void Poll(absl::Time, size_t max_updates, std::vector<SourceUpdate>* updates) override {
    MutexLock lock(&mu_);
    const size_t count = std::min(max_updates, queue_.size());
    for (size_t i = 0; i < count; ++i) {
      updates->push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    if (count > 0) taken_.SignalAll();
  }

 private:
  // Both on "client-watch".
  void TakeUpdate(std::shared_ptr<v1::WatchUpdate> update) {
    uint64_t bytes = update->ByteSizeLong();
    keeper_.Sweep();
    keeper_.Keep(update);
    auto parts = SplitUpdate(std::move(update));
    {
      MutexLock lock(&mu_);
      if (link_.kind != LinkState::Kind::kLive) {
        link_.kind = LinkState::Kind::kLive;
        link_.since = absl::Now();
        link_.reason.clear();
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      SourceUpdate part;
      part.watch = std::move(parts[i]);
      part.more = i + 1 < parts.size();
      part.bytes = std::exchange(bytes, 0);
      if (!Push(std::move(part))) return;
    }
  }

  void TakeState(const WatchState& state) {
    {
      MutexLock lock(&mu_);
      link_ = LinkOf(state);
    }
    Push(SourceUpdate());
  }

  // Waits while the window takes nothing. Returns false at the end.
  bool Push(SourceUpdate update) {
    {
      MutexLock lock(&mu_);
      while (queue_.size() >= options_.max_queued && !stopping_) taken_.Wait(&mu_);
      if (stopping_) return false;
      update.arrived = std::max(absl::Now(), last_arrived_);
      last_arrived_ = update.arrived;
      update.link = link_;
      queue_.push_back(std::move(update));
    }
    // Before the next one waits for a window that sleeps.
    if (options_.wake != nullptr) options_.wake();
    return true;
  }

  const LiveOptions options_;
  const std::unique_ptr<RawClusterClient> client_;
  PartKeeper keeper_;  // of "client-watch"
  Mutex mu_;
  CondVar taken_;
  std::deque<SourceUpdate> queue_ ABSL_GUARDED_BY(mu_);
  LinkState link_ ABSL_GUARDED_BY(mu_);
  absl::Time last_arrived_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Actions actions_;
  std::unique_ptr<ClusterWatch> watch_;
};

}  // namespace

LiveOptions LiveOptionsFrom(const ClusterFile& cluster) {
  LiveOptions options;
  options.client = ClusterClientOptionsFrom(cluster);
  options.title = absl::StrCat(cluster.name, cluster.name.empty() ? "" : " ", cluster.cluster_id,
                               " at ", cluster.address);
  return options;
}

absl::StatusOr<std::unique_ptr<UpdateSource>> MakeLiveSource(LiveOptions options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RawClusterClient> client,
                            RawClusterClient::Connect(options.client));
  options.max_queued = std::max<size_t>(options.max_queued, 1);
  auto source = std::make_unique<LiveSource>(std::move(options), std::move(client));
  MILLRACE_RETURN_IF_ERROR(source->Start());
  return source;
}

}  // namespace millrace::dashboard
