#include "core/coordinator/gateway_conversion.h"

#include "absl/status/status.h"
#include "core/coordinator/wire_conversion.h"

namespace millrace {

static_assert(static_cast<int>(PartitionState::kPending) + 1 == v1::PARTITION_STATE_PENDING);
static_assert(static_cast<int>(PartitionState::kFailed) + 1 == v1::PARTITION_STATE_FAILED);

v1::LookupReply::State ToLookupState(FeedRoute::State state) {
  switch (state) {
    case FeedRoute::State::kStarting:
      return v1::LookupReply::STATE_STARTING;
    case FeedRoute::State::kRunning:
      return v1::LookupReply::STATE_RUNNING;
    case FeedRoute::State::kRestarting:
      return v1::LookupReply::STATE_RESTARTING;
    case FeedRoute::State::kFinished:
      return v1::LookupReply::STATE_FINISHED;
    case FeedRoute::State::kFailed:
      return v1::LookupReply::STATE_FAILED;
  }
  return v1::LookupReply::STATE_UNSPECIFIED;
}

FeedRoute::State FromLookupState(v1::LookupReply::State state) {
  switch (state) {
    case v1::LookupReply::STATE_RUNNING:
      return FeedRoute::State::kRunning;
    case v1::LookupReply::STATE_RESTARTING:
      return FeedRoute::State::kRestarting;
    case v1::LookupReply::STATE_FINISHED:
      return FeedRoute::State::kFinished;
    case v1::LookupReply::STATE_FAILED:
      return FeedRoute::State::kFailed;
    default:
      return FeedRoute::State::kStarting;
  }
}

v1::PartitionState ToPartitionStateProto(PartitionState state) {
  return static_cast<v1::PartitionState>(static_cast<int>(state) + 1);
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
          .refed_reason = request.refed_reason(),
          .error = request.has_error() ? FromErrorProto(request.error()) : absl::OkStatus()};
}

}  // namespace millrace
