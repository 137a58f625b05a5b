// File: feed/receiver/receiver_segments.h
//
// The memory that a node shares with feeders of its host: one segment for each connection whose
// sessions ask for it (docs/feed_protocol.md, section 10).
//
// Defines: ReceiverSegments.

#ifndef FEED_RECEIVER_RECEIVER_SEGMENTS_H_
#define FEED_RECEIVER_RECEIVER_SEGMENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/segment/room_table.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"

namespace millrace {

// Thread safety: none. Blocking: no.
class ReceiverSegments {
 public:
  // `bytes`: the rooms of all segments together, and the size of each. 0: there are none.
  explicit ReceiverSegments(int64_t bytes)
      : bytes_(bytes), rooms_(std::make_shared<RoomAccount>(bytes)) {}

  [[nodiscard]] bool enabled() const { return bytes_ > 0; }

  // The segment of a connection, made when it is first asked for. Requires enabled(). Returns
  // RESOURCE_EXHAUSTED if too many feeders have a segment, or what the system says if it gives
  // none.
  [[nodiscard]] absl::StatusOr<SessionSegment> Get(uint64_t connection,
                                                   absl::string_view principal);
  // What the feeder has answered to SEGMENT: no session of the connection is told of it again.
  // Returns whether the connection has a segment.
  bool OnMapped(uint64_t connection, const MappedFrame& mapped);

  // PLACED. INVALID_ARGUMENT if the body does not lie in unused room of the session.
  [[nodiscard]] absl::StatusOr<SharedBytes> Use(uint64_t connection, uint64_t session, Room body);
  // The session writes no more. Returns whether the connection has a segment.
  bool Vacate(uint64_t connection, uint64_t session);
  // Nor does it read results. Returns the same.
  bool Leave(uint64_t connection, uint64_t session);

  // Batches that lie in a segment keep it alive.
  void Drop(uint64_t connection) { segments_.erase(connection); }
  void DropAllOf(absl::string_view principal);
  void Clear() { segments_.clear(); }

 private:
  struct Entry {
    std::string principal;
    std::shared_ptr<NodeSegment> segment;
    std::optional<bool> mapped;  // once the feeder has said so
    bool results = false;
  };

  const int64_t bytes_;
  const std::shared_ptr<RoomAccount> rooms_;
  absl::flat_hash_map<uint64_t, Entry> segments_;  // by connection
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_SEGMENTS_H_
