#include "feed/segment/room_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"

namespace millrace {

RoomTable::RoomTable(Room all) : all_(all), free_bytes_(all.length) {
  MILLRACE_CHECK(all.offset % kRoomAlignment == 0 && all.length % kRoomAlignment == 0 &&
                 all.offset >= 0 && all.length > 0);
  free_.emplace(all.offset, all.length);
}

std::optional<Room> RoomTable::Take(int64_t want, int64_t least) {
  if (want < 1) return std::nullopt;
  want = AlignRoom(std::min(want, all_.length));
  least = AlignRoom(std::max<int64_t>(least, 1));
  auto found = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= want) {
      found = it;
      break;
    }
    if (it->second >= least && (found == free_.end() || it->second > found->second)) found = it;
  }
  if (found == free_.end()) return std::nullopt;
  const Room room{found->first, std::min(want, found->second)};
  const Room rest{room.end(), found->second - room.length};
  free_.erase(found);
  if (rest.length > 0) free_.emplace(rest.offset, rest.length);
  free_bytes_ -= room.length;
  return room;
}

void RoomTable::Return(Room room) {
  if (room.length == 0) return;
  MILLRACE_CHECK(room.offset % kRoomAlignment == 0 && room.length % kRoomAlignment == 0 &&
                 room.offset >= all_.offset && room.end() <= all_.end());
  free_bytes_ += room.length;
  auto next = free_.lower_bound(room.offset);
  MILLRACE_CHECK(next == free_.end() || room.end() <= next->first);
  if (next != free_.end() && next->first == room.end()) {
    room.length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    MILLRACE_CHECK(before->first + before->second <= room.offset);
    if (before->first + before->second == room.offset) {
      before->second += room.length;
      return;
    }
  }
  free_.emplace(room.offset, room.length);
}

void RoomQueue::Add(Room room) {
  rooms_.push_back(room);
  unused_bytes_ += room.length;
}

std::optional<Room> RoomQueue::Place(int64_t bytes) {
  const auto fits = std::find_if(rooms_.begin(), rooms_.end(),
                                 [bytes](const Room& room) { return room.length >= bytes; });
  if (fits == rooms_.end()) return std::nullopt;
  const Room body{fits->offset, bytes};
  const bool used = Use(body).ok();
  MILLRACE_CHECK(used);
  return body;
}

absl::StatusOr<std::vector<Room>> RoomQueue::Use(Room body) {
  const auto in = std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& room) {
    return body.offset >= room.offset && body.offset < room.end();
  });
  if (in == rooms_.end() || body.offset % kRoomAlignment != 0 || body.length < 1 ||
      body.length > in->end() - body.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("a body of ", body.length, " bytes at ", body.offset,
                     " of the segment, which is in no room that was granted and is unused"));
  }
  std::vector<Room> skipped(rooms_.begin(), in);
  if (body.offset > in->offset) skipped.push_back({in->offset, body.offset - in->offset});
  const int64_t used = body.offset + AlignRoom(body.length);  // at most in->end(): that is aligned
  const Room rest{used, in->end() - used};
  rooms_.erase(rooms_.begin(), in + 1);
  if (rest.length > 0) rooms_.push_front(rest);
  unused_bytes_ -= AlignRoom(body.length);
  for (const Room& room : skipped) unused_bytes_ -= room.length;
  return skipped;
}

std::vector<Room> RoomQueue::Clear() {
  unused_bytes_ = 0;
  const std::deque<Room> rooms = std::exchange(rooms_, {});
  return {rooms.begin(), rooms.end()};
}

}  // namespace millrace
