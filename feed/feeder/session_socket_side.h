// File: feed/feeder/session_socket_side.h
//
// What the thread that serves a feeder's sockets tells a session: the frames of its node, and what
// becomes of its connection, over which the session sends. Internal to feed/feeder/feeder.h.
//
// Defines: SessionLink, SessionSocketSide.

#ifndef FEED_FEEDER_SESSION_SOCKET_SIDE_H_
#define FEED_FEEDER_SESSION_SOCKET_SIDE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/ipc/ipc.h"
#include "feed/segment/room_table.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"

namespace millrace {

enum class SessionEnd;

// A connection to a node, as sessions use it.
// Thread safety: implementations are thread-safe. Blocking: never, beyond a lock.
class SessionLink {
 public:
  virtual ~SessionLink() = default;

  // Queues a frame; sets header.metadata_length. False if there is no connection any more: what was
  // under way is lost. An error if the frame cannot be sent.
  [[nodiscard]] virtual absl::StatusOr<bool> Send(FrameHeader header, const std::string& metadata,
                                                  std::vector<BodyPart> body) = 0;
};

// A Status that is not OK means that the node broke the protocol. After the session's end these do
// nothing. Thread safety: one thread at a time, the one whose turn it is at the sockets.
class SessionSocketSide {
 public:
  [[nodiscard]] virtual absl::Status OnCredit(const CreditFrame& frame) = 0;
  // Whether it has asked for a segment and not been answered yet.
  [[nodiscard]] virtual bool AwaitsSegment() const = 0;
  // SEGMENT; `opened` says whether this side can use it. Requires AwaitsSegment().
  virtual void OnSegment(const absl::Status& opened) = 0;
  // ROOM in the segment of its connection; nullptr if that has none.
  [[nodiscard]] virtual absl::Status OnRoom(Room room,
                                            const std::shared_ptr<FeederSegment>& segment) = 0;
  [[nodiscard]] virtual absl::Status OnReceived(int64_t row) = 0;
  [[nodiscard]] virtual absl::Status OnAck(int64_t row) = 0;
  [[nodiscard]] virtual absl::Status OnRevoked(int64_t row) = 0;
  [[nodiscard]] virtual absl::Status OnWait(const WaitFrame& frame) = 0;
  [[nodiscard]] virtual absl::Status OnSchema(absl::string_view metadata) = 0;
  // `message` is the metadata behind the prefix.
  [[nodiscard]] virtual absl::Status OnResult(const BatchPrefix& prefix, std::string message,
                                              std::vector<BodyPart> parts) = 0;
  // The result that OnResult() is told of next has lain in the segment.
  virtual void OnPlacedResult() = 0;
  // Ends the session as kDone or kRevoked, or as kBadPeer if rows are missing.
  virtual void OnDone(const DoneFrame& frame) = 0;
  // Ends it as kTerminated.
  [[nodiscard]] virtual absl::Status OnTerminated(const TerminatedFrame& frame) = 0;
  // Ends it otherwise. Returns false if it has ended already.
  virtual bool OnEnd(SessionEnd end, const absl::Status& status) = 0;
  // Sends OPEN, and from here on everything else, over `link`. Called again with another link if
  // this one led nowhere.
  virtual void OnLink(std::shared_ptr<SessionLink> link, const ReplyEndpoint& reply) = 0;
  // Another way to the node is tried: the time for its first answer begins again, as it does in
  // OnLink().
  virtual void OnConnecting() = 0;
  // The process that listens at `place` has accepted this feeder's login but not yet proven that it
  // is the node.
  virtual void OnUnproven(const std::string& place) = 0;
  // Now it has.
  virtual void OnProof() = 0;
  // Nothing more is sent.
  virtual void OnUnlink() = 0;
  // Sends ABORT for what this side ends without the node's fault.
  virtual void SendAbort(const absl::Status& status) = 0;

 protected:
  ~SessionSocketSide() = default;
};

}  // namespace millrace

#endif  // FEED_FEEDER_SESSION_SOCKET_SIDE_H_
