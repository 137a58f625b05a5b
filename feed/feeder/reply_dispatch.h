// File: feed/feeder/reply_dispatch.h
//
// What a frame of a node means to the session that it belongs to. Internal to feed/feeder/feeder.h.
//
// Defines: DispatchReply().

#ifndef FEED_FEEDER_REPLY_DISPATCH_H_
#define FEED_FEEDER_REPLY_DISPATCH_H_

#include <vector>

#include "absl/status/status.h"
#include "feed/feeder/feeder_session.h"
#include "feed/wire/frame.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// Decodes the frame, whose header is checked and whose type is known, and tells the session; takes
// the body from `parts`. SEGMENT and ROOM, which are about the connection too, are not for it.
// Returns an error if the node broke the protocol. Thread safety: the feeder's socket thread.
[[nodiscard]] absl::Status DispatchReply(FeedSession& session, const FrameHeader& header,
                                         std::vector<ZmqMessage>& parts);

}  // namespace millrace

#endif  // FEED_FEEDER_REPLY_DISPATCH_H_
