#include "millrace/etcd_resolver.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "millrace/status_macros.h"
#include "resolver/etcd/etcd_client.h"
#include "resolver/member_completeness.h"

namespace millrace {
namespace {

constexpr absl::Duration kStreamLifetime = absl::Minutes(1);

std::string Quote(absl::string_view text) { return Ellipsize(EscapeControls(text), 200); }

// Adds the task of a key below `prefix`.
absl::Status AddTask(const std::string& prefix, const std::string& key, const std::string& value,
                     std::map<std::string, ClusterSpec::TaskMap>* jobs) {
  const absl::string_view rest = absl::string_view(key).substr(prefix.size());
  const size_t slash = rest.find('/');
  int index = 0;
  if (slash == absl::string_view::npos || slash == 0 ||
      !absl::SimpleAtoi(rest.substr(slash + 1), &index) || index < 0 ||
      rest.substr(slash + 1) != absl::StrCat(index)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "etcd: the key ", Quote(key), " is no task: it should be ", Quote(prefix), "JOB/INDEX"));
  }
  const absl::string_view address = absl::StripAsciiWhitespace(value);
  if (address.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("etcd: the value of ", Quote(key), " is empty: it should be an address"));
  }
  (*jobs)[std::string(rest.substr(0, slash))][index] = std::string(address);
  return absl::OkStatus();
}

absl::StatusOr<ClusterSpec> SpecOf(const EtcdResolverOptions& options,
                                   const std::map<std::string, std::string>& values) {
  std::map<std::string, ClusterSpec::TaskMap> jobs;
  for (const auto& [key, value] : values) {
    MILLRACE_RETURN_IF_ERROR(AddTask(options.prefix, key, value, &jobs));
  }
  std::vector<std::string> missing;
  for (const auto& [job, expected] : options.expected_tasks) {
    const size_t there = jobs[job].size();
    if (there != static_cast<size_t>(expected)) {
      missing.push_back(absl::StrCat(Quote(job), ": have ", there, " of ", expected));
    }
  }
  if (options.expected_tasks.empty() && values.empty()) missing.emplace_back("have 0 of 1");
  if (!missing.empty() && options.completeness != MemberCompleteness::kAvailable) {
    return absl::FailedPreconditionError(absl::StrCat("etcd: tasks below ", Quote(options.prefix),
                                                      ": ", absl::StrJoin(missing, ", ")));
  }
  ClusterSpec spec;
  for (auto& [job, tasks] : jobs) {
    MILLRACE_RETURN_IF_ERROR(spec.AddSparseJob(job, std::move(tasks)));
  }
  return spec;
}

// Lists, then listens, in a thread of its own.
class EtcdWatch final : public MembershipWatch {
 public:
  static absl::StatusOr<std::unique_ptr<MembershipWatch>> Start(EtcdClient* client,
                                                                EtcdResolverOptions options,
                                                                MembershipCallback callback,
                                                                absl::Duration pause) {
    std::unique_ptr<EtcdWatch> watch(
        new EtcdWatch(client, std::move(options), std::move(callback), pause));
    MILLRACE_ASSIGN_OR_RETURN(watch->thread_,
                              Thread::Start("etcd-watch", [raw = watch.get()] { raw->Run(); }));
    return watch;
  }

  ~EtcdWatch() override {
    stop_.request_stop();
    MutexLock lock(&mu_);
    stopped_.SignalAll();
  }

 private:
  EtcdWatch(EtcdClient* client, EtcdResolverOptions options, MembershipCallback callback,
            absl::Duration pause)
      : client_(client),
        options_(std::move(options)),
        tracker_(std::move(callback)),
        pause_(pause) {}

  void Run() {
    while (!stop_.stop_requested()) {
      const absl::Status end = ListAndListen();
      if (stop_.stop_requested()) return;
      // What etcd has forgotten is listed anew at once.
      if (end.ok() || absl::IsOutOfRange(end)) continue;
      tracker_.Observe(end, RealClock()->Now());
      Pause();
    }
  }

  absl::Status ListAndListen() {
    MILLRACE_ASSIGN_OR_RETURN(EtcdKeys keys, client_->Range(options_.prefix, stop_.get_token()));
    if (stop_.stop_requested()) return absl::OkStatus();
    tracker_.Observe(SpecOf(options_, keys.values), RealClock()->Now());
    return client_->Watch(
        options_.prefix, keys.revision + 1, kStreamLifetime,
        [&](std::vector<EtcdEvent> events) {
          if (events.empty() || stop_.stop_requested()) return;
          for (EtcdEvent& event : events) {
            if (event.value.has_value()) {
              keys.values[event.key] = *std::move(event.value);
            } else {
              keys.values.erase(event.key);
            }
          }
          tracker_.Observe(SpecOf(options_, keys.values), RealClock()->Now());
        },
        stop_.get_token());
  }

  void Pause() {
    MutexLock lock(&mu_);
    const Deadline deadline(pause_);
    while (!stop_.stop_requested() && !stopped_.WaitWithTimeout(&mu_, deadline.Left())) {
    }
  }

  EtcdClient* const client_;
  const EtcdResolverOptions options_;
  MembershipTracker tracker_;
  const absl::Duration pause_;
  std::stop_source stop_;
  Mutex mu_;
  CondVar stopped_;
  Thread thread_;  // last: joined before what it uses
};

}  // namespace

class [[gnu::visibility("hidden")]] EtcdResolver::Impl {
 public:
  Impl(EtcdResolverOptions options, std::unique_ptr<EtcdClient> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  [[nodiscard]] const EtcdResolverOptions& options() const { return options_; }
  [[nodiscard]] EtcdClient* client() { return client_.get(); }

  absl::StatusOr<ClusterSpec> Ask() {
    MILLRACE_ASSIGN_OR_RETURN(const EtcdKeys keys,
                              client_->Range(options_.prefix, std::stop_token()));
    return SpecOf(options_, keys.values);
  }

 private:
  const EtcdResolverOptions options_;
  const std::unique_ptr<EtcdClient> client_;
};

EtcdResolver::EtcdResolver(BaseOptions base, std::unique_ptr<Impl> impl)
    : ResolverBase(std::move(base)), impl_(std::move(impl)) {}

EtcdResolver::~EtcdResolver() = default;

absl::StatusOr<std::unique_ptr<EtcdResolver>> EtcdResolver::Create(EtcdResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  while (absl::EndsWith(options.prefix, "/")) options.prefix.pop_back();
  if (options.prefix.empty()) {
    return absl::InvalidArgumentError("prefix must be that of the keys, such as /clusters/train");
  }
  options.prefix += '/';
  for (const auto& [job, expected] : options.expected_tasks) {
    if (expected < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected_tasks of ", Quote(job), " must be from 0 on, found ", expected));
    }
  }
  if (options.wait_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("wait_timeout must be above 0");
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<EtcdClient> client, EtcdClient::Create(options));
  BaseOptions base{.properties = options.properties,
                   .count_accelerators = options.count_accelerators};
  return std::unique_ptr<EtcdResolver>(new EtcdResolver(
      std::move(base), std::make_unique<Impl>(std::move(options), std::move(client))));
}

absl::StatusOr<ClusterSpec> EtcdResolver::cluster_spec() {
  const auto ask = [this] { return impl_->Ask(); };
  const EtcdResolverOptions& options = impl_->options();
  if (options.completeness != MemberCompleteness::kWait) return ask();
  return AskUntilComplete(ask, options.wait_timeout);
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> EtcdResolver::Watch(MembershipCallback callback,
                                                                     const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return EtcdWatch::Start(impl_->client(), impl_->options(), std::move(callback),
                          options.poll_interval);
}

}  // namespace millrace
