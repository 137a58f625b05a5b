// File: millrace/stop_request.h
//
// How another thread (one that waits for signals, say) ends a cluster, also one that is still
// starting or already shutting down; or only a call of Train or Inference (TrainOptions).
//
// Defines: StopRequest.
//
//   StopRequest stop;
//   std::thread watcher([&] { WaitForCtrlC(); stop.Request("interrupted"); });
//   auto cluster = Cluster::Run(launcher, program, {.num_executors = 4, .stop_request = &stop});
#ifndef MILLRACE_STOP_REQUEST_H_
#define MILLRACE_STOP_REQUEST_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Serves one cluster, or one call. Lifetime: must outlive the cluster or call that it was given to.
// Thread safety: all methods.
class StopRequest {
 public:
  using Handler = std::function<void(const std::string& reason, bool now)>;
  using LeaveHandler = std::function<void(const std::string& reason)>;

  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Asks every node to end as Shutdown asks ps (`now`: kills them). Calls of the cluster under way
  // end with CANCELLED and the first reason; Shutdown returns that too, unless a node had failed. A
  // later call has an effect only if it adds `now`. Does not wait for the end; may be called from
  // on_slot and its like.
  void Request(absl::string_view reason, bool now = false);

  // Leaves a cluster that can be resumed (ClusterOptions::resume) to the next driver, as if this
  // one had been killed, but in order: its nodes go on, and calls of it, Shutdown among them,
  // return CANCELLED with the reason. What cannot be left is asked to end, as by Request(). Has an
  // effect only if nothing was requested before; afterwards Request() has none on a cluster that
  // was left.
  void Leave(absl::string_view reason);

  // Either.
  [[nodiscard]] bool requested() const;
  // CANCELLED with the first reason; OK if nothing was requested.
  [[nodiscard]] absl::Status status() const;

  // ---- for what can be stopped so: Cluster, a call of it, and a driver's own work ----

  // From here on `handler` is called, at once for what was requested before. `leave`: for Leave(),
  // in place of `handler`; null: it cannot be left.
  void Attach(Handler handler, LeaveHandler leave = nullptr);
  // Afterwards no call is under way and none follows.
  void Detach();

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_STOP_REQUEST_H_
