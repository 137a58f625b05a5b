// File: core/coordinator/server/request_control.h
//
// The control plane's part for what nodes ask of each other: the key-value store and barriers.
//
// Defines: RequestControl.

#ifndef CORE_COORDINATOR_SERVER_REQUEST_CONTROL_H_
#define CORE_COORDINATOR_SERVER_REQUEST_CONTROL_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "core/coordinator/server/control_state.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/state.pb.h"

namespace millrace {

// Thread safety: under the lock of the control plane. Blocking: never.
class RequestControl {
 public:
  explicit RequestControl(ControlState* state) : state_(state) {}  // not owned

  RequestControl(const RequestControl&) = delete;
  RequestControl& operator=(const RequestControl&) = delete;

  // The reply goes to the stream, at once or when a get or a barrier ends. executor_id -1: an
  // operator's, which is not repeated. With the state's lock held.
  void Kv(uint64_t stream_id, int executor_id, const v1::KvRequest& request);
  void Barrier(uint64_t stream_id, int executor_id, const v1::BarrierRequest& request);

 private:
  // What the agent may ask for again.
  void JournalAnswer(int executor_id, v1::AnswerRecord answer);

  ControlState* const state_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_REQUEST_CONTROL_H_
