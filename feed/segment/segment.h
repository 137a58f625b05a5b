// File: feed/segment/segment.h
//
// Memory that a node shares with one feeder of its host (docs/feed_protocol.md, section 10): a
// memory file that the node makes and owns, and that the feeder opens by its place in /proc.
//
// Defines: SegmentName, RoomAccount, NodeSegment, ResultRoom, SessionSegment, FeederSegment.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto segment, NodeSegment::Create(bytes, account));
//   std::optional<Room> room = segment->Grant(session, want, least);   // tell the feeder
//   // ... in the other process
//   MILLRACE_ASSIGN_OR_RETURN(auto mapped, FeederSegment::Open(name));
//   std::memcpy(mapped->data(body), ...);                              // tell the node
//   // ... and back
//   MILLRACE_ASSIGN_OR_RETURN(SharedBytes bytes, segment->Use(session, body));
//
// Results go the other way: the node writes them into room of its own (TakeForResult) and lends it.
//
// Nothing in it is shared but the bytes: what is whose is in the node's tables alone. The file is
// sealed before its name is told, so no peer can make it shorter: a page that is mapped stays. The
// node has the system provide every page before it grants it, so no write fails for lack of memory,
// and the memory counts as the node's.

#ifndef FEED_SEGMENT_SEGMENT_H_
#define FEED_SEGMENT_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "feed/segment/room_table.h"

namespace millrace {

// Where a feeder finds a segment: descriptor `fd` of process `pid`.
struct SegmentName {
  int64_t pid = 0;
  int64_t fd = 0;
  int64_t bytes = 0;
  std::string id;  // 32 hexadecimal digits that the segment begins with

  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};

// What all segments of a node use together: rooms that are granted or hold a batch, at most
// `limit_bytes` of them; and memory, of which kIdleBytes more may be kept for the next batches.
// Thread-safe.
class RoomAccount {
 public:
  // As much as malloc keeps of a batch's memory (feed/wire/large_blocks.h).
  static constexpr int64_t kIdleBytes = int64_t{64} << 20;

  explicit RoomAccount(int64_t limit_bytes) : limit_(limit_bytes) {}

  // Books as much room of `bytes` as is left, and returns it; 0, and nothing is booked, if that is
  // less than `least`.
  [[nodiscard]] int64_t Book(int64_t bytes, int64_t least);
  void Release(int64_t bytes) { used_.fetch_sub(bytes); }
  [[nodiscard]] int64_t used_bytes() const { return used_.load(); }

  // Books memory, all of it or nothing.
  [[nodiscard]] bool BookMemory(int64_t bytes);
  void ReleaseMemory(int64_t bytes) { memory_.fetch_sub(bytes); }
  [[nodiscard]] int64_t memory_bytes() const { return memory_.load(); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> memory_{0};
};

// A mapping of the whole file, which ends with this object.
class SegmentMapping {
 public:
  SegmentMapping() = default;
  SegmentMapping(void* data, size_t size) : data_(static_cast<uint8_t*>(data)), size_(size) {}
  ~SegmentMapping();
  SegmentMapping(const SegmentMapping&) = delete;
  SegmentMapping& operator=(const SegmentMapping&) = delete;

  [[nodiscard]] uint8_t* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  uint8_t* const data_ = nullptr;
  const size_t size_ = 0;
};

// Bytes of a segment; their room is free again once `owner` is gone.
struct SharedBytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;
};

class NodeSegment;

// Room that the node writes a result into. It is free again with this object, unless it was lent.
// Thread safety: none.
class ResultRoom {
 public:
  ResultRoom(std::shared_ptr<NodeSegment> segment, Room room)
      : segment_(std::move(segment)), room_(room) {}
  ~ResultRoom();
  ResultRoom(const ResultRoom&) = delete;
  ResultRoom& operator=(const ResultRoom&) = delete;

  [[nodiscard]] Room room() const { return room_; }
  [[nodiscard]] uint8_t* data() const;

  // The feeder may read it: until it has taken so many bytes of `session`'s results, or until its
  // connection ends.
  void Lend(uint64_t session, int64_t until_taken_bytes);

 private:
  std::shared_ptr<NodeSegment> segment_;  // nullptr once it is lent
  const Room room_;
};

// The node's end. Ownership: shared with the bytes of it that are in use, which may outlive the
// connection that it was made for. Thread safety: thread-safe; its lock is taken last of all.
// Blocking: Grant(), for the system to provide pages that were never granted before.
class NodeSegment : public std::enable_shared_from_this<NodeSegment> {
 public:
  // A segment of `bytes`, rounded up to pages, of which memory is taken as it is granted. Returns
  // UNIMPLEMENTED or RESOURCE_EXHAUSTED, saying why, if the system gives none.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<NodeSegment>> Create(
      int64_t bytes, std::shared_ptr<RoomAccount> account);
  ~NodeSegment();
  NodeSegment(const NodeSegment&) = delete;
  NodeSegment& operator=(const NodeSegment&) = delete;

  [[nodiscard]] const SegmentName& name() const { return name_; }

  // Room for `session`, of `want` bytes or fewer, but at least `least`; nullopt if there is none.
  [[nodiscard]] std::optional<Room> Grant(uint64_t session, int64_t want, int64_t least);
  [[nodiscard]] int64_t unused_bytes(uint64_t session) const;
  // The body that `session` has put into room of its own. INVALID_ARGUMENT if that is not so.
  [[nodiscard]] absl::StatusOr<SharedBytes> Use(uint64_t session, Room body);
  // `session` writes no more: what it has not used is free. Idempotent.
  void Vacate(uint64_t session);

  // Room for a result of `bytes`; nullptr if there is none.
  [[nodiscard]] std::shared_ptr<ResultRoom> TakeForResult(int64_t bytes);
  // The feeder reads no more of `session`'s results than what comes after `taken_bytes` of them.
  void TakeBack(uint64_t session, int64_t taken_bytes);

  // Granted, or holding a batch or a result.
  [[nodiscard]] int64_t used_bytes() const;

 private:
  class Body;
  friend class ResultRoom;
  struct Lent {
    int64_t until_taken_bytes = 0;
    Room room;
  };

  NodeSegment(UniqueFd file, SegmentName name, void* data, std::shared_ptr<RoomAccount> account);
  [[nodiscard]] std::optional<Room> TakeLocked(int64_t want, int64_t least)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] bool Provide(Room room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReturnLocked(Room room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Return(Room room);
  // Gives memory back to the system, if nothing is in use and the node keeps enough of it.
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const UniqueFd file_;
  const SegmentName name_;
  const SegmentMapping mapping_;
  const std::shared_ptr<RoomAccount> account_;

  mutable Mutex mu_;
  RoomTable table_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, RoomQueue> granted_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, std::deque<Lent>> lent_ ABSL_GUARDED_BY(mu_);  // by session
  int64_t provided_ ABSL_GUARDED_BY(mu_) = 0;  // bytes before it have pages
};

// A segment as a session of its feeder has it.
struct SessionSegment {
  std::shared_ptr<NodeSegment> segment;  // nullptr: none
  bool mapped = false;                   // the feeder can use it
  bool results = false;                  // for results too
};

// The feeder's end. Thread safety: const.
class FeederSegment {
 public:
  // Returns INVALID_ARGUMENT if the name makes no sense, FAILED_PRECONDITION or PERMISSION_DENIED,
  // in one line, if what is found there cannot be opened, is another file, or could be cut short.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<FeederSegment>> Open(const SegmentName& name);

  // Whether a room that the node tells of lies in it.
  [[nodiscard]] bool Holds(Room room) const;
  // Requires Holds(room).
  [[nodiscard]] uint8_t* data(Room room) const { return mapping_.data() + room.offset; }

 private:
  FeederSegment(void* data, size_t size) : mapping_(data, size) {}

  const SegmentMapping mapping_;
};

}  // namespace millrace

#endif  // FEED_SEGMENT_SEGMENT_H_
