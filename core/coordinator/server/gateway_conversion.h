// File: core/coordinator/server/gateway_conversion.h
//
// Between the feed directory's own values and core/proto's feed_gateway.proto.
//
// Defines: ToLookupState(), ToPartitionStateProto(), ToPartitionReport(),
// ToFeederLoad().
//
// Thread safety: pure functions.

#ifndef CORE_COORDINATOR_SERVER_GATEWAY_CONVERSION_H_
#define CORE_COORDINATOR_SERVER_GATEWAY_CONVERSION_H_

#include "core/balance/feed_balance.h"
#include "core/balance/feed_target.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/proto/feed_gateway.pb.h"

namespace millrace {

[[nodiscard]] v1::LookupReply::State ToLookupState(FeedTarget::State state);
[[nodiscard]] v1::PartitionState ToPartitionStateProto(PartitionState state);

// request.state must be one of PartitionState's.
[[nodiscard]] PartitionReport ToPartitionReport(const v1::ReportRequest& request);

// Rows above 2^48 are 2^48, so that sums of them are numbers.
[[nodiscard]] FeederLoad ToFeederLoad(const v1::FedNode& node);

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_GATEWAY_CONVERSION_H_
