// File: feed/segment/room_table.h
//
// Who has which bytes of a segment (docs/feed_protocol.md, section 10): plain tables, without the
// memory itself.
//
// Defines: Room, RoomTable, RoomQueue, kRoomAlignment.
//
//   RoomTable table({.offset = 4096, .length = 1 << 20});   // the node's: what is free
//   std::optional<Room> room = table.Take(64 << 10, 4 << 10);
//   RoomQueue queue;                                        // of a session, at both ends
//   queue.Add(*room);
//   std::optional<Room> body = queue.Place(1000);           // the feeder: where a body goes
//   MILLRACE_ASSIGN_OR_RETURN(std::vector<Room> skipped, queue.Use(*body));   // the node
//
// A session's rooms are used in the order in which they were granted, each from its beginning to
// its end. Thus both ends know without another message what is left and what was given up.

#ifndef FEED_SEGMENT_ROOM_TABLE_H_
#define FEED_SEGMENT_ROOM_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

// Offsets of rooms and of bodies within them: multiples of a cache line, which every column type
// may begin at.
inline constexpr int64_t kRoomAlignment = 64;

// Bytes [offset, offset + length) of a segment.
struct Room {
  int64_t offset = 0;
  int64_t length = 0;

  [[nodiscard]] int64_t end() const { return offset + length; }
  friend bool operator==(const Room&, const Room&) = default;
};

// Up to a multiple of kRoomAlignment. At most 2^62.
[[nodiscard]] constexpr int64_t AlignRoom(int64_t bytes) {
  return (bytes + kRoomAlignment - 1) & ~(kRoomAlignment - 1);
}

// What is free of a segment. Thread safety: none.
class RoomTable {
 public:
  // Offset and length are multiples of kRoomAlignment.
  explicit RoomTable(Room all);

  // The first room of `want` bytes, or the largest one of at least `least`: low bytes are used
  // again before high ones are touched. Lengths are rounded up to kRoomAlignment. Nothing is given
  // for `want` below 1.
  [[nodiscard]] std::optional<Room> Take(int64_t want, int64_t least);
  // Gives back what was taken, or an aligned part of it. To give back what is free is a bug.
  void Return(Room room);

  [[nodiscard]] int64_t free_bytes() const { return free_bytes_; }
  [[nodiscard]] bool all_free() const { return free_bytes_ == all_.length; }

 private:
  const Room all_;
  std::map<int64_t, int64_t> free_;  // lengths by offset; no two of them touch
  int64_t free_bytes_;
};

// The rooms that a session was granted and has not used. Thread safety: none.
class RoomQueue {
 public:
  void Add(Room room);

  // The feeder: takes `bytes` (at least 1) from the first room that has as many left, and gives up
  // those before it. nullopt, and nothing changes, if none has.
  [[nodiscard]] std::optional<Room> Place(int64_t bytes);

  // The node: the feeder has used `body`. Returns what it gave up with that. INVALID_ARGUMENT,
  // and nothing changes, if `body` does not lie aligned in what is left of one room.
  [[nodiscard]] absl::StatusOr<std::vector<Room>> Use(Room body);

  // Takes everything that is left.
  [[nodiscard]] std::vector<Room> Clear();

  [[nodiscard]] int64_t unused_bytes() const { return unused_bytes_; }

 private:
  std::deque<Room> rooms_;
  int64_t unused_bytes_ = 0;
};

}  // namespace millrace

#endif  // FEED_SEGMENT_ROOM_TABLE_H_
