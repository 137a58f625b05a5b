// File: core/coordinator/server/driver_control.h
//
// The control plane's part for the driver: waits, why the cluster failed, stops.
//
// Defines: DriverControl.

#ifndef CORE_COORDINATOR_SERVER_DRIVER_CONTROL_H_
#define CORE_COORDINATOR_SERVER_DRIVER_CONTROL_H_

#include <atomic>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/coordinator/server/agent_control.h"
#include "core/coordinator/server/control_state.h"
#include "core/coordinator/state/coordinator_options.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// What the functions do is said in coordinator.h. Thread safety: thread-safe. Blocking: the Wait
// functions.
class DriverControl {
 public:
  // Pointers are not owned.
  DriverControl(ControlState* state, const AgentControl* agents) : state_(state), agents_(agents) {}

  DriverControl(const DriverControl&) = delete;
  DriverControl& operator=(const DriverControl&) = delete;

  absl::Status WaitRunning(absl::Duration timeout);
  absl::Status WaitFedEndpoints(absl::Duration timeout, const std::atomic<bool>* given_up);
  void Wake();
  absl::Status WaitEnded(NodeFilter filter, absl::Duration timeout);
  absl::Status WaitOutput(absl::Duration timeout);
  absl::Status WaitFailure(absl::Duration timeout);
  void Cancel(absl::string_view reason);
  [[nodiscard]] absl::Status fenced() const;
  void Leave(const absl::Status& why);

  ClusterSpec spec() const;
  absl::Status first_cause() const;
  absl::Status stop_request() const;
  absl::Status Cause(int executor_id) const;
  absl::StatusOr<std::map<std::string, std::string>> PublishedEndpoints(int executor_id) const;

  // How often a whole spec was serialised and compressed: once for each epoch that somebody was
  // sent.
  [[nodiscard]] uint64_t SpecsEncoded() const {
    MutexLock lock(&state_->mu);
    return state_->specs_encoded;
  }

  void Stop(NodeFilter filter, absl::string_view reason, bool now) {
    state_->StopNodes(filter, reason, now);
  }

 private:
  ControlState* const state_;
  const AgentControl* const agents_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_DRIVER_CONTROL_H_
