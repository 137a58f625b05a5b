// File: core/coordinator/server/control_plane.h
//
// All that a running coordinator decides, in parts for those who ask: agents, the driver, operators
// and feeders. The parts share one lock (control_state.h).
//
// Defines: ControlPlane.

#ifndef CORE_COORDINATOR_SERVER_CONTROL_PLANE_H_
#define CORE_COORDINATOR_SERVER_CONTROL_PLANE_H_

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/coordinator/server/agent_control.h"
#include "core/coordinator/server/control_state.h"
#include "core/coordinator/server/driver_control.h"
#include "core/coordinator/server/feed_control.h"
#include "core/coordinator/server/operator_control.h"
#include "core/coordinator/server/request_control.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/view_store.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_status.h"

namespace millrace {

// Threads, from Start() on: "coord-timer" for everything that is due by time; "coord-observer".
// Thread safety: thread-safe, its parts too. Blocking: the Wait functions of driver(), Shutdown().
class ControlPlane {
 public:
  // `options` are valid; pointers are not owned. With a `journal` what was restored in it is where
  // this one goes on, and another one may go on from here.
  ControlPlane(const CoordinatorOptions& options, v1::NodeSpec node_spec, NodeKeySigner signer,
               ViewStore* view, ClusterRecorder* recorder, StateJournal* journal = nullptr);
  ~ControlPlane() { Shutdown(); }

  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // Once. Without threads, as in testing/simulation, their work is done by the three below.
  void Start();
  // What the timer does, and how long it then sleeps.
  void Tick();
  absl::Duration TimeToTick() const;
  // Calls the observer with all that waits for it.
  void Deliver() { state_.observer.Deliver(); }

  AgentControl& agents() { return agents_; }
  DriverControl& driver() { return driver_; }
  FeedControl& feeds() { return feeds_; }
  OperatorControl& operators() { return operators_; }
  // For everyone who reads.
  ClusterStatus Snapshot() const;

  // Ends every stream and wait with CANCELLED; joins the threads. Idempotent.
  void Shutdown();

 private:
  void RunTimer();

  ControlState state_;
  RequestControl requests_;
  FeedControl feeds_;
  AgentControl agents_;
  DriverControl driver_;
  OperatorControl operators_;
  Mutex join_mu_;
  Thread timer_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_CONTROL_PLANE_H_
