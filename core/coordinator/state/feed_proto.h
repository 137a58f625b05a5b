// File: core/coordinator/state/feed_proto.h
//
// The ledger's counts as messages: whoever shows or sends them names them as these do.
//
// Defines: ToFeederStagesProto(), ToFeedInfoProto().

#ifndef CORE_COORDINATOR_STATE_FEED_PROTO_H_
#define CORE_COORDINATOR_STATE_FEED_PROTO_H_

#include "core/coordinator/state/feed_ledger.h"
#include "core/proto/sample.pb.h"
#include "core/proto/watch.pb.h"

namespace millrace {

[[nodiscard]] v1::FeederStages ToFeederStagesProto(const FeederStages& stages);
// All but `opened`, which the ledger does not know.
[[nodiscard]] v1::FeedInfo ToFeedInfoProto(const FeedSummary& feed);

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_FEED_PROTO_H_
