#include "core/coordinator/view/wire_conversion.h"

#include <algorithm>  // for std::max
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "core/proto/time_proto.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace millrace {
namespace {

constexpr uint32_t kProtocol = 2;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxErrorBytes = 16 << 10;
constexpr size_t kMaxLineBytes = 2 << 10;
constexpr int kMaxStderrLines = 50;

absl::Status CheckName(absl::string_view field, absl::string_view value, bool may_be_empty) {
  if (value.size() <= kMaxNameBytes && (may_be_empty || !value.empty())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Register.", field, " has ", value.size(),
                                                 " bytes: must have ", may_be_empty ? 0 : 1, " to ",
                                                 kMaxNameBytes));
}

absl::StatusOr<ExitStatus> ToExitStatus(const v1::ExitStatus& exit) {
  ExitStatus status;
  if (exit.kind_case() == v1::ExitStatus::kCode && exit.code() >= 0 && exit.code() <= 255) {
    status.kind = ExitStatus::Kind::kExited;
    status.code = exit.code();
    return status;
  }
  if (exit.kind_case() == v1::ExitStatus::kSignal && exit.signal() >= 1 && exit.signal() <= 127) {
    status.kind = ExitStatus::Kind::kSignaled;
    status.signal = exit.signal();
    return status;
  }
  return absl::InvalidArgumentError("NodeUpdate.exit holds neither an exit code nor a signal");
}

v1::SlotState ToSlotStateProto(SlotState state) {
  return static_cast<v1::SlotState>(static_cast<int>(state) + 1);
}

}  // namespace

static_assert(static_cast<int>(SlotState::kRequested) + 1 == v1::SLOT_STATE_REQUESTED);
static_assert(static_cast<int>(SlotState::kLost) + 1 == v1::SLOT_STATE_LOST);

absl::StatusOr<v1::AgentMessage> ParseAgentMessage(const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer copy(bytes);  // shares the slices; the reader wants it mutable
  grpc::ProtoBufferReader reader(&copy);
  v1::AgentMessage message;
  if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader)) {
    return absl::InvalidArgumentError("not an AgentMessage");
  }
  return message;
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status CheckRegister(const v1::Register& message) {
  if (message.protocol() != kProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent speaks protocol ", message.protocol(), ", this coordinator ",
                     kProtocol, "; use an agent of the same release"));
  }
  for (absl::Status status :
       {CheckName("agent_id", message.agent_id(), false), CheckName("host", message.host(), true),
        CheckName("version", message.version(), true),
        CheckName("address", message.address(), false)}) {
    if (!status.ok()) return status;
  }
  absl::StatusOr<HostPort> address = ParseHostPort(message.address());
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Register.address: ", address.status().message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeReport> ToNodeReport(const v1::NodeUpdate& update) {
  NodeReport report;
  report.attempt = update.attempt();
  report.pid = update.pid();
  report.as_asked = update.stopped_as_asked();
  if (!update.next_address().empty()) {
    if (absl::Status name = CheckName("next_address", update.next_address(), false); !name.ok()) {
      return name;
    }
    absl::StatusOr<HostPort> address = ParseHostPort(update.next_address());
    if (!address.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("NodeUpdate.next_address: ", address.status().message()));
    }
    report.next_address = update.next_address();
  }
  if (update.has_error()) report.error = FromErrorProto(update.error());
  const int first = std::max(0, update.stderr_tail_size() - kMaxStderrLines);
  for (int i = first; i < update.stderr_tail_size(); ++i) {
    report.stderr_tail.push_back(Ellipsize(update.stderr_tail(i), kMaxLineBytes));
  }
  switch (update.state()) {
    case v1::NODE_STATE_READY:
      report.kind = NodeReport::Kind::kReady;
      return report;
    case v1::NODE_STATE_RUNNING:
      report.kind = NodeReport::Kind::kRunning;
      return report;
    case v1::NODE_STATE_STOPPED:
      report.kind = NodeReport::Kind::kStopped;
      return report;
    case v1::NODE_STATE_DRAINING:
      report.kind = NodeReport::Kind::kDraining;
      return report;
    case v1::NODE_STATE_LAUNCH_FAILED:
      report.kind = NodeReport::Kind::kLaunchFailed;
      return report;
    case v1::NODE_STATE_EXITED: {
      report.kind = NodeReport::Kind::kExited;
      absl::StatusOr<ExitStatus> exit = ToExitStatus(update.exit());
      if (!exit.ok()) return exit.status();
      report.exit = *exit;
      return report;
    }
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("NodeUpdate.state ", static_cast<int>(update.state()), " is unknown"));
  }
}

v1::NodeSpec ToNodeSpec(const CoordinatorOptions& options, int num_workers,
                        const std::string& sha256, int64_t program_size) {
  v1::NodeSpec spec;
  spec.set_program(options.program.path);
  spec.set_sha256(sha256);
  spec.set_program_size(program_size);
  for (const std::string& arg : options.program.args) spec.add_args(arg);
  for (const auto& [name, value] : options.program.env) (*spec.mutable_env())[name] = value;
  spec.set_input_mode(options.input_mode == InputMode::kFeed ? v1::INPUT_MODE_FEED
                                                             : v1::INPUT_MODE_DIRECT);
  for (const std::string& queue : options.feed.queues) spec.add_queues(queue);
  spec.set_num_workers(num_workers);
  spec.set_default_fs(options.node.default_fs);
  spec.set_log_dir(options.log_dir);
  spec.set_release_port(options.node.release_port);
  spec.set_feed_budget_bytes(options.feed.budget_bytes);
  *spec.mutable_stop_grace() = DurationToProto(options.failure.stop_grace);
  *spec.mutable_stop_timeout() = DurationToProto(options.failure.stop_timeout);
  spec.set_log_bytes_per_second(options.node.log_bytes_per_second);
  spec.set_output_window_bytes(options.output_window_bytes);
  spec.set_feed_port_range(options.feed.port_range);
  spec.set_feed_shared_memory(options.feed.shared_memory);
  spec.set_gpus_per_node(options.node.gpus_per_node);
  for (const auto& [job, count] : options.node.gpus_by_job)
    (*spec.mutable_gpus_by_job())[job] = count;
  return spec;
}

void ToSlotProto(const SlotStatus& slot, v1::SlotStatus* out) {
  out->set_executor_id(slot.executor_id);
  out->set_job_name(slot.role.job_name);
  out->set_task_index(slot.role.task_index);
  out->set_state(ToSlotStateProto(slot.state));
  out->set_attempt(slot.attempt);
  out->set_host(slot.host);
  out->set_address(slot.address);
  out->set_pid(slot.node_pid);
  for (int i = 0; i < kNumSlotStates; ++i) {
    if (slot.reached[i] == absl::InfinitePast()) continue;
    v1::StateTime* reached = out->add_reached();
    reached->set_state(ToSlotStateProto(static_cast<SlotState>(i)));
    *reached->mutable_time() = TimeToProto(slot.reached[i]);
  }
  if (!slot.error.ok()) *out->mutable_error() = ToErrorProto(slot.error);
  out->set_stopped(slot.stopped);
  out->set_attached(slot.attached);
  if (slot.restart_at.has_value()) *out->mutable_restart_at() = TimeToProto(*slot.restart_at);
}

v1::ClusterStatus ToStatusProto(const ClusterStatus& status) {
  v1::ClusterStatus proto;
  proto.set_cluster_id(status.cluster_id);
  proto.set_epoch(status.epoch);
  for (const SlotStatus& slot : status.slots) ToSlotProto(slot, proto.add_slots());
  if (status.first_cause.has_value()) {
    *proto.mutable_first_cause() =
        ToErrorProto(FailureStatus(*status.first_cause, status.folded_failures));
  }
  return proto;
}

absl::Status FromErrorProto(const v1::Error& error) {
  absl::StatusCode code = static_cast<absl::StatusCode>(error.code());
  if (error.code() < 1 || error.code() > 16) code = absl::StatusCode::kUnknown;
  return absl::Status(code, Ellipsize(error.message(), kMaxErrorBytes));
}

v1::Error ToErrorProto(const absl::Status& status) {
  v1::Error error;
  error.set_code(status.ok() ? static_cast<int>(absl::StatusCode::kUnknown)
                             : static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  return error;
}

}  // namespace millrace
