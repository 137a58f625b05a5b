#include "core/coordinator/server/gateway_conversion.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "core/coordinator/view/wire_conversion.h"

namespace millrace {

static_assert(static_cast<int>(PartitionState::kPending) + 1 == v1::PARTITION_STATE_PENDING);
static_assert(static_cast<int>(PartitionState::kFailed) + 1 == v1::PARTITION_STATE_FAILED);

v1::LookupReply::State ToLookupState(FeedTarget::State state) {
  switch (state) {
    case FeedTarget::State::kStarting:
      return v1::LookupReply::STATE_STARTING;
    case FeedTarget::State::kRunning:
      return v1::LookupReply::STATE_RUNNING;
    case FeedTarget::State::kRestarting:
      return v1::LookupReply::STATE_RESTARTING;
    case FeedTarget::State::kFinished:
      return v1::LookupReply::STATE_FINISHED;
    case FeedTarget::State::kFailed:
      return v1::LookupReply::STATE_FAILED;
  }
  return v1::LookupReply::STATE_UNSPECIFIED;
}

v1::PartitionState ToPartitionStateProto(PartitionState state) {
  return static_cast<v1::PartitionState>(static_cast<int>(state) + 1);
}

namespace {

// What is unknown cannot be moved.
Movable ToMovable(v1::Movable movable) {
  switch (movable) {
    case v1::MOVABLE_WHOLE:
      return Movable::kWhole;
    case v1::MOVABLE_ANY_ROW:
      return Movable::kAnyRow;
    default:
      return Movable::kNo;
  }
}

int64_t Bounded(uint64_t rows) { return static_cast<int64_t>(std::min(rows, uint64_t{1} << 48)); }

}  // namespace

FeederLoad ToFeederLoad(const v1::FedNode& node) {
  return {.executor_id = node.executor_id(),
          .attempt = node.node_attempt(),
          .rows_acked = Bounded(node.rows_acked()),
          .rows_unread = Bounded(node.rows_unread()),
          .partitions = node.partitions()};
}

PartitionReport ToPartitionReport(const v1::ReportRequest& request) {
  return {.partition = request.partition(),
          .state = static_cast<PartitionState>(static_cast<int>(request.state()) - 1),
          .executor_id = request.executor_id(),
          .node_attempt = request.node_attempt(),
          .feeder_attempt = request.feeder_attempt(),
          .first_row = request.first_row(),
          .rows_received = request.rows_received(),
          .rows_acked = request.rows_acked(),
          .rows_returned = request.rows_returned(),
          .stages = {.source_us = request.stages().source_us(),
                     .encode_us = request.stages().encode_us(),
                     .credit_us = request.stages().credit_us(),
                     .wire_us = request.stages().wire_us()},
          .movable = ToMovable(request.movable()),
          .refed_reason = request.refed_reason(),
          .rows_before = request.rows_before(),
          .error = request.has_error() ? FromErrorProto(request.error()) : absl::OkStatus()};
}

}  // namespace millrace
