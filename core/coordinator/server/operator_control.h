// File: core/coordinator/server/operator_control.h
//
// The control plane's part for operators: as core/proto/operator.proto says.
//
// Defines: OperatorControl.

#ifndef CORE_COORDINATOR_SERVER_OPERATOR_CONTROL_H_
#define CORE_COORDINATOR_SERVER_OPERATOR_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/coordinator/server/control_state.h"
#include "core/coordinator/server/request_control.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/operator.pb.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: never.
class OperatorControl {
 public:
  // Pointers are not owned.
  OperatorControl(ControlState* state, RequestControl* requests)
      : state_(state), requests_(requests) {}

  OperatorControl(const OperatorControl&) = delete;
  OperatorControl& operator=(const OperatorControl&) = delete;

  void StopCluster(absl::string_view reason, bool now);
  absl::StatusOr<uint32_t> RestartNode(int executor_id, absl::string_view reason);
  // The answer is written to `answer` as a CoordinatorMessage. Returns the id for EndKv(), which
  // forgets a get that waits; 0 after Shutdown().
  uint64_t Kv(const v1::KvRequest& request, const std::shared_ptr<AttachStream>& answer);
  void EndKv(uint64_t id);
  void ListKeys(absl::string_view prefix, size_t limit, v1::ListKeysReply* reply) const;
  [[nodiscard]] size_t KvWaits() const;  // of operators and nodes together

 private:
  ControlState* const state_;
  RequestControl* const requests_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_OPERATOR_CONTROL_H_
