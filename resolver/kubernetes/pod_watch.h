// File: resolver/kubernetes/pod_watch.h
//
// Follows the pods of one selection for ever: lists them, then watches from there, and finds its
// way back after whatever happens in between.
//
// Defines: PodWatch, PodWatchSink, PodWatchOptions.

#ifndef RESOLVER_KUBERNETES_POD_WATCH_H_
#define RESOLVER_KUBERNETES_POD_WATCH_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "millrace/kubernetes_client.h"

namespace millrace {

// Told from the watch's thread, one call at a time.
class PodWatchSink {
 public:
  virtual ~PodWatchSink() = default;

  // These are the pods now; those told before are to be forgotten.
  virtual void OnList(std::vector<Pod> pods) = 0;
  // This pod is new or has changed.
  virtual void OnPod(Pod pod) = 0;
  // This pod is gone, or no longer selected.
  virtual void OnDeleted(Pod pod) = 0;

  // OK: what has been told is what the server has, and changes will come at once. Otherwise it may
  // be old, and this is why.
  virtual void OnState(const absl::Status& state) = 0;
  // The stream has ended as streams do, and is begun again at once: OnState() follows. Should that
  // take long, what has been told may be old.
  virtual void OnResuming() = 0;
};

struct PodWatchOptions {
  absl::Duration list_timeout = absl::Seconds(30);
  // Pauses after failures begin with the first, double, and are jittered.
  absl::Duration first_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(30);
  // A stream that lived so long was a good one: the next failure is the first again.
  absl::Duration good_stream = absl::Seconds(10);
  Clock* clock = RealClock();  // not owned
};

// What it does about an end of the stream: OK and UNAVAILABLE (cut), DEADLINE_EXCEEDED: watch again
// from the last version seen; OUT_OF_RANGE (too old a version): list again at once; anything else:
// list again after a pause. Thread: "k8s-watch".
class PodWatch {
 public:
  // `client` and `sink` outlive the watch. `sink` is called from now on.
  PodWatch(KubernetesClient* client, PodSelection selection, PodWatchOptions options,
           PodWatchSink* sink);
  // Returns when the sink is not called and never will be again.
  ~PodWatch();
  PodWatch(const PodWatch&) = delete;
  PodWatch& operator=(const PodWatch&) = delete;

  // Begins to stop and does not wait. Thread safety: from any thread.
  void RequestStop() { stop_.request_stop(); }

 private:
  class Loop;

  const std::unique_ptr<Loop> loop_;
  std::stop_source stop_;
  Thread thread_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_POD_WATCH_H_
