// File: core/coordinator/view/wire_conversion.h
//
// Between the coordinator's own values and core/proto's messages. What came from an agent is
// checked and cut to its bounds here, so that nothing behind it has to.
//
// Defines: ParseAgentMessage(), SerializeMessage(), CheckRegister(), ToNodeReport(), ToNodeSpec(),
// ToSlotProto(), ToStatusProto(), FromErrorProto(), ToErrorProto().
//
// Thread safety: pure functions.

#ifndef CORE_COORDINATOR_VIEW_WIRE_CONVERSION_H_
#define CORE_COORDINATOR_VIEW_WIRE_CONVERSION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/proto/coordinator.pb.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "millrace/cluster_status.h"

namespace millrace {

// Returns INVALID_ARGUMENT if the bytes are no AgentMessage.
[[nodiscard]] absl::StatusOr<v1::AgentMessage> ParseAgentMessage(const grpc::ByteBuffer& bytes);

// Copies of the result share their bytes: one serialisation serves many streams.
[[nodiscard]] grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message);

// Returns FAILED_PRECONDITION for another protocol version; INVALID_ARGUMENT, naming the field, if
// something is missing, too long or no address.
[[nodiscard]] absl::Status CheckRegister(const v1::Register& message);

// stderr lines are cut to 2 KiB. Returns INVALID_ARGUMENT for an unknown state, an EXITED without
// exit, an exit code or signal that is none.
[[nodiscard]] absl::StatusOr<NodeReport> ToNodeReport(const v1::NodeUpdate& update);

// `sha256` empty: the program is not shipped.
[[nodiscard]] v1::NodeSpec ToNodeSpec(const CoordinatorOptions& options, int num_workers,
                                      const std::string& sha256, int64_t program_size);

// `*out` is empty before.
void ToSlotProto(const SlotStatus& slot, v1::SlotStatus* out);
[[nodiscard]] v1::ClusterStatus ToStatusProto(const ClusterStatus& status);

// Code 0 from outside is UNKNOWN: an Error is never OK.
[[nodiscard]] absl::Status FromErrorProto(const v1::Error& error);
[[nodiscard]] v1::Error ToErrorProto(const absl::Status& status);

}  // namespace millrace

#endif  // CORE_COORDINATOR_VIEW_WIRE_CONVERSION_H_
