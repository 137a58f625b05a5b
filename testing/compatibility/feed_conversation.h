// File: testing/compatibility/feed_conversation.h
//
// One partition that a feeder feeds to a node, as messages of both.
//
// Defines: FeederMessages(), NodeMessages(), FeedRecordedNode(), WhatItSaid().

#ifndef TESTING_COMPATIBILITY_FEED_CONVERSATION_H_
#define TESTING_COMPATIBILITY_FEED_CONVERSATION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "feed/wire/frame.h"
#include "testing/compatibility/conversation.h"

namespace millrace::compatibility {

// What today's feeder says, from OPEN to END_PARTITION; each message is its parts, each behind its
// length as a u32.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> FeederMessages(FeedMode mode);

// What today's node answers to such messages: a conversation, the feeder as its client. Returns
// INTERNAL if its program did not get the rows.
[[nodiscard]] absl::StatusOr<RecordedCall> NodeMessages(FeedMode mode,
                                                        const std::vector<std::string>& feeder);

// Today's feeder with the node of a conversation: the status of its call.
[[nodiscard]] absl::Status FeedRecordedNode(FeedMode mode, const RecordedCall& call);

// What a node said, without what depends on when: "received 3, acked 3, done 3 in 3 out", and the
// results in hex.
[[nodiscard]] std::string WhatItSaid(const RecordedCall& call);

}  // namespace millrace::compatibility

#endif  // TESTING_COMPATIBILITY_FEED_CONVERSATION_H_
