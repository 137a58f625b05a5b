#include "resolver/kubernetes/pod_watch.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/random.h"

namespace millrace {

class PodWatch::Loop {
 public:
  Loop(KubernetesClient* client, PodSelection selection, PodWatchOptions options,
       PodWatchSink* sink)
      : client_(client), selection_(std::move(selection)), options_(options), sink_(sink) {}

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!listed_) {
        List(stop);
      } else {
        Watch(stop);
      }
      Pause(stop);
    }
  }

 private:
  void List(const std::stop_token& stop) {
    absl::StatusOr<PodList> list = client_->ListPods(selection_, options_.list_timeout, stop);
    if (stop.stop_requested()) return;
    if (!list.ok()) {
      Fail(list.status());
      return;
    }
    listed_ = true;
    version_ = std::move(list->resource_version);
    sink_->OnList(std::move(list->pods));
    // After a watch that failed, only one that is accepted shows that changes come again.
    if (!watch_failed_) sink_->OnState(absl::OkStatus());
    pause_ = absl::ZeroDuration();
  }

  void Watch(const std::stop_token& stop) {
    const absl::Duration begin = options_.clock->SteadyNow();
    const absl::Status end = client_->WatchPods(
        selection_, version_,
        [this, &stop](PodEvent event) {
          // What comes after the request to stop is for nobody.
          if (stop.stop_requested()) return absl::CancelledError("the watch has been stopped");
          OnEvent(std::move(event));
          return absl::OkStatus();
        },
        stop);
    if (stop.stop_requested()) return;
    if (options_.clock->SteadyNow() - begin >= options_.good_stream) failures_ = 0;
    if (end.ok() || end.code() == absl::StatusCode::kOutOfRange) {
      // Streams end now and then, and versions grow old: that is no loss as long as the next
      // request is answered. The first one is made at once.
      sink_->OnResuming();
      if (!end.ok()) listed_ = false;
      pause_ = NextPause();
      return;
    }
    watch_failed_ = true;
    // A stream that was cut lacks nothing that the next one from the same version does not bring.
    listed_ = end.code() == absl::StatusCode::kUnavailable ||
              end.code() == absl::StatusCode::kDeadlineExceeded;
    Fail(end);
  }

  void OnEvent(PodEvent event) {
    if (!event.resource_version.empty()) version_ = std::move(event.resource_version);
    switch (event.type) {
      case PodEvent::Type::kAdded:
      case PodEvent::Type::kModified:
        sink_->OnPod(std::move(event.pod));
        break;
      case PodEvent::Type::kDeleted:
        sink_->OnDeleted(std::move(event.pod));
        break;
      case PodEvent::Type::kBookmark:
        break;
    }
    watch_failed_ = false;
    sink_->OnState(absl::OkStatus());
  }

  void Fail(const absl::Status& status) {
    sink_->OnState(status);
    pause_ = NextPause();
  }

  // None, then first_backoff, and twice as long each time, less up to a half at random.
  absl::Duration NextPause() {
    const int failures = failures_++;
    if (failures == 0) return absl::ZeroDuration();
    absl::Duration pause = options_.first_backoff;
    for (int i = 1; i < failures && pause < options_.max_backoff; ++i) pause *= 2;
    pause = std::min(pause, options_.max_backoff);
    return pause * (0.5 + 0.5 * static_cast<double>(RandomU64() >> 11) / (uint64_t{1} << 53));
  }

  void Pause(const std::stop_token& stop) {
    if (pause_ <= absl::ZeroDuration()) return;
    const absl::Duration until = options_.clock->SteadyNow() + pause_;
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(&mu_);
      stopped_.SignalAll();
    });
    MutexLock lock(&mu_);
    while (!stop.stop_requested()) {
      const absl::Duration left = until - options_.clock->SteadyNow();
      if (left <= absl::ZeroDuration()) return;
      // Waits are timed by the wall clock, which may jump: look at the steady one once a second.
      stopped_.WaitWithTimeout(&mu_, std::min(left, absl::Seconds(1)));
    }
  }

  KubernetesClient* const client_;  // not owned
  const PodSelection selection_;
  const PodWatchOptions options_;
  PodWatchSink* const sink_;  // not owned

  bool listed_ = false;
  std::string version_;        // of the list, then of the last event
  bool watch_failed_ = false;  // and no watch has been accepted since
  int failures_ = 0;           // since the last good stream
  absl::Duration pause_ = absl::ZeroDuration();

  Mutex mu_;
  CondVar stopped_;
};

PodWatch::PodWatch(KubernetesClient* client, PodSelection selection, PodWatchOptions options,
                   PodWatchSink* sink)
    : loop_(std::make_unique<Loop>(client, std::move(selection), options, sink)),
      thread_("k8s-watch", [loop = loop_.get(), stop = stop_.get_token()] { loop->Run(stop); }) {}

PodWatch::~PodWatch() {
  stop_.request_stop();
  thread_.Join();
}

}  // namespace millrace
