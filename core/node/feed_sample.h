// File: core/node/feed_sample.h
//
// The state of a node's feed, as it goes to the agent (docs/control_protocol.md, `sample`).
//
// Defines: FeedSampleJson().

#ifndef CORE_NODE_FEED_SAMPLE_H_
#define CORE_NODE_FEED_SAMPLE_H_

#include "core/base/json.h"
#include "feed/receiver/receiver_core.h"

namespace millrace {

// The params of `sample`. Queues that nothing has happened to are left out.
[[nodiscard]] Json FeedSampleJson(const FeedReceiverStats& stats);

}  // namespace millrace

#endif  // CORE_NODE_FEED_SAMPLE_H_
