#include "core/client/cluster_watch.h"

#include <algorithm>
#include <chrono>  // grpc::CompletionQueue takes a time_point
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/client/client_channel.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.grpc.pb.h"
#include "google/protobuf/arena.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A coordinator says something at least every 5 s.
constexpr absl::Duration kLongestSilence = absl::Seconds(15);
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);

// An update about ten thousand nodes has a million pieces, too many to allocate one by one.
std::shared_ptr<v1::WatchUpdate> MakeUpdate() {
  google::protobuf::ArenaOptions options;
  options.start_block_size = size_t{4} << 10;
  options.max_block_size = size_t{64} << 10;
  auto arena = std::make_shared<google::protobuf::Arena>(options);
  auto* const update = google::protobuf::Arena::CreateMessage<v1::WatchUpdate>(arena.get());
  return {std::move(arena), update};
}

bool IsFinal(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:  // the certificate
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

class GrpcClusterWatch final : public ClusterWatch {
 public:
  GrpcClusterWatch(const ClusterClientOptions& client, const RawWatchOptions& options,
                   RawWatchCallbacks callbacks)
      : client_(client), callbacks_(std::move(callbacks)) {
    request_.set_level(options.level);
    request_.set_log_lines(static_cast<uint32_t>(options.log_lines));
    *request_.mutable_interval() = DurationToProto(options.interval);
    silence_ = std::max(kLongestSilence, 3 * options.interval);
    state_.since = absl::Now();
    thread_ = Thread("client-watch", [this] { Run(); });
  }
  ~GrpcClusterWatch() override { Stop(); }

  WatchState state() const override {
    MutexLock lock(&mu_);
    return state_;
  }

  void Stop() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
      wake_.Signal();
    }
    MutexLock lock(&join_mu_);
    thread_.Join();
  }

 private:
  void Run() {
    absl::Duration backoff = kFirstBackoff;
    for (;;) {
      bool heard = false;
      const absl::Status status = WatchOnce(&heard);
      if (heard) backoff = kFirstBackoff;
      if (stopping()) return;
      if (status.ok() || (client_.owner_gone != nullptr && client_.owner_gone())) {
        SetState(WatchState::Kind::kGone,
                 status.ok() ? status
                             : absl::UnavailableError("the cluster is gone: its driver has ended"));
        return;
      }
      if (IsFinal(status.code())) {
        SetState(WatchState::Kind::kRefused, status);
        return;
      }
      SetState(seq_ == 0 ? WatchState::Kind::kConnecting : WatchState::Kind::kStale, status);
      // A coordinator that was just lost is often back at once. If it is not, it needs time.
      if (!heard && !Sleep(backoff)) return;
      if (!heard) backoff = std::min(2 * backoff, kMaxBackoff);
    }
  }

  // One call, until it ends. OK: the cluster ended it. `*heard`: at least one update came.
  absl::Status WatchOnce(bool* heard) {
    const auto stub = v1::ClusterView::NewStub(
        MakeClientChannel(client_.address, client_.ca_pem, client_.identity_pem));
    grpc::ClientContext context;
    PrepareCall(client_.viewer_token.empty() ? client_.operator_token : client_.viewer_token,
                absl::InfiniteDuration(), &context);
    {
      MutexLock lock(&mu_);
      if (stopping_) return absl::CancelledError("stopped");
      context_ = &context;
    }
    request_.set_resume_after(seq_);
    request_.set_incarnation(incarnation_);
    grpc::CompletionQueue queue;
    const auto reader = stub->PrepareAsyncWatch(&context, request_, &queue);
    std::optional<absl::Status> mine;  // why this side ended the call
    reader->StartCall(nullptr);
    bool ok = Next(queue, context, &mine);
    while (ok) {
      std::shared_ptr<v1::WatchUpdate> update = MakeUpdate();
      reader->Read(update.get(), nullptr);
      ok = Next(queue, context, &mine);
      if (!ok) break;
      if (const absl::Status follows = Follow(*update); !follows.ok()) {
        seq_ = 0;  // a snapshot comes next
        mine = absl::InternalError(absl::StrCat("an update did not fit: ", follows.message()));
        context.TryCancel();
        continue;
      }
      *heard = true;
      MarkLive();
      if (callbacks_.on_update) callbacks_.on_update(*update, view_);
      if (callbacks_.take_update) callbacks_.take_update(std::move(update));
    }
    {
      MutexLock lock(&mu_);
      context_ = nullptr;
    }
    grpc::Status status;
    reader->Finish(&status, nullptr);
    void* tag = nullptr;
    bool finished = false;
    queue.Next(&tag, &finished);
    queue.Shutdown();
    while (queue.Next(&tag, &finished)) {
    }
    if (mine.has_value()) return *mine;
    return FromCallStatus(status, client_.address);
  }

  // Moves on to `update`, and folds it into the view if somebody reads that.
  absl::Status Follow(const v1::WatchUpdate& update) {
    MILLRACE_RETURN_IF_ERROR(CheckFollows(update, seq_, incarnation_));
    if (callbacks_.on_update) MILLRACE_RETURN_IF_ERROR(view_.Apply(update));
    seq_ = update.snapshot() ? update.seq() : std::max(seq_, update.seq());
    incarnation_ = update.incarnation();
    return absl::OkStatus();
  }

  // Waits for the one operation that is under way. A silence ends the call.
  bool Next(grpc::CompletionQueue& queue, grpc::ClientContext& context,
            std::optional<absl::Status>* mine) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(silence_);
    const grpc::CompletionQueue::NextStatus next = queue.AsyncNext(&tag, &ok, deadline);
    if (next == grpc::CompletionQueue::GOT_EVENT) return ok;
    *mine = absl::UnavailableError(absl::StrCat("the coordinator at ", client_.address,
                                                " has been silent for ",
                                                absl::FormatDuration(silence_)));
    context.TryCancel();
    queue.Next(&tag, &ok);
    return false;
  }

  bool stopping() const {
    MutexLock lock(&mu_);
    return stopping_;
  }

  // False: the watch stops.
  bool Sleep(absl::Duration duration) {
    const Deadline until(duration);
    MutexLock lock(&mu_);
    while (!stopping_) {
      if (wake_.WaitWithTimeout(&mu_, until.Left())) return !stopping_;
    }
    return false;
  }

  void MarkLive() {
    last_update_ = absl::Now();
    {
      MutexLock lock(&mu_);
      if (state_.kind == WatchState::Kind::kLive) return;
    }
    SetState(WatchState::Kind::kLive, absl::OkStatus());
  }

  void SetState(WatchState::Kind kind, const absl::Status& reason) {
    WatchState now;
    {
      MutexLock lock(&mu_);
      const bool changed = state_.kind != kind;
      if (!changed && state_.reason == reason) return;
      if (kind == WatchState::Kind::kLive && state_.kind == WatchState::Kind::kStale) {
        ++state_.reconnects;
      }
      if (changed) {
        state_.since = kind == WatchState::Kind::kStale ? last_update_ : absl::Now();
      }
      state_.kind = kind;
      state_.reason = reason;
      now = state_;
    }
    if (callbacks_.on_state) callbacks_.on_state(now);
  }

  const ClusterClientOptions client_;
  const RawWatchCallbacks callbacks_;
  absl::Duration silence_;

  // The thread's own.
  v1::WatchRequest request_;
  uint64_t seq_ = 0;  // of the last update; 0: a snapshot is due
  std::string incarnation_;
  ClusterView view_;  // for on_update
  absl::Time last_update_;

  mutable Mutex mu_;
  CondVar wake_;
  WatchState state_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the call under way
  Mutex join_mu_;
  Thread thread_;
};

}  // namespace

std::unique_ptr<ClusterWatch> StartClusterWatch(const ClusterClientOptions& client,
                                                const RawWatchOptions& options,
                                                RawWatchCallbacks callbacks) {
  return std::make_unique<GrpcClusterWatch>(client, options, std::move(callbacks));
}

}  // namespace millrace
