#include "feed/segment/segment.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "feed/segment/room_table.h"
#include "feed/segment/segment_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

std::shared_ptr<RoomAccount> Unlimited() { return std::make_shared<RoomAccount>(INT64_MAX / 2); }

template <typename T>
T Must(absl::StatusOr<T> result) {
  EXPECT_THAT(result, IsOk());
  return *std::move(result);  // ends the test where there is none
}

std::string PathOf(const SegmentName& name) {
  return absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
}

TEST(SegmentTest, WhatTheFeederWritesTheNodeReadsWhereItLies) {
  const auto node = Must(NodeSegment::Create(kMiB, Unlimited()));
  const auto feeder = Must(FeederSegment::Open(node->name()));
  const std::optional<Room> room = node->Grant(7, 1000, 1000);
  ASSERT_TRUE(room.has_value() && feeder->Holds(*room));
  RoomQueue queue;
  queue.Add(*room);
  const std::optional<Room> body = queue.Place(5);
  std::memcpy(feeder->data(*body), "hello", 5);
  SharedBytes bytes = Must(node->Use(7, *body));
  EXPECT_EQ(std::string(bytes.data, bytes.data + bytes.size), "hello");
}

TEST(SegmentTest, RoomIsFreeAgainWithTheLastThatUsesIt) {
  auto account = Unlimited();
  const auto node = Must(NodeSegment::Create(kMiB, account));
  const std::optional<Room> room = node->Grant(7, 1024, 1024);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(node->unused_bytes(7), 1024);
  EXPECT_EQ(account->used_bytes(), 1024);
  SharedBytes first = Must(node->Use(7, {room->offset, 100}));
  SharedBytes third = Must(node->Use(7, {room->offset + 512, 64}));
  EXPECT_EQ(node->unused_bytes(7), 1024 - 512 - 64);
  EXPECT_EQ(node->used_bytes(), 128 + 64 + node->unused_bytes(7)) << "the gap was given up";
  const std::shared_ptr<const void> copy = first.owner;
  first.owner.reset();
  EXPECT_EQ(node->used_bytes(), 128 + 64 + node->unused_bytes(7));
  node->Vacate(7);
  node->Vacate(7);
  EXPECT_EQ(node->used_bytes(), 128 + 64);
  third.owner.reset();
  EXPECT_EQ(node->used_bytes(), 128);
}

TEST(SegmentTest, RoomOfAResultIsTheNodesUntilItIsLent) {
  auto account = std::make_shared<RoomAccount>(kMiB);
  const auto node = Must(NodeSegment::Create(kMiB, account));
  const auto feeder = Must(FeederSegment::Open(node->name()));
  std::shared_ptr<ResultRoom> first = node->TakeForResult(100);
  std::shared_ptr<ResultRoom> second = node->TakeForResult(64);
  std::shared_ptr<ResultRoom> unsent = node->TakeForResult(kMiB / 2);
  ASSERT_TRUE(first != nullptr && second != nullptr && unsent != nullptr);
  EXPECT_EQ(node->TakeForResult(kMiB / 2), nullptr) << "there is less";
  EXPECT_EQ(first->room().length, 128);
  std::memcpy(first->data(), "hello", 5);
  EXPECT_EQ(std::memcmp(feeder->data(first->room()), "hello", 5), 0);
  first->Lend(7, 100);
  second->Lend(7, 164);
  first.reset();
  second.reset();
  unsent.reset();
  EXPECT_EQ(node->used_bytes(), 128 + 64);
  node->Vacate(7);  // the feeder writes no more, and reads
  node->TakeBack(8, 1000);
  node->TakeBack(7, 99);
  EXPECT_EQ(node->used_bytes(), 128 + 64);
  node->TakeBack(7, 100);
  EXPECT_EQ(node->used_bytes(), 64);
  node->TakeBack(7, INT64_MAX);
  node->TakeBack(7, INT64_MAX);
  EXPECT_EQ(account->used_bytes(), 0);
}

TEST(SegmentTest, WhatIsKeptOutlivesTheSegmentAndIsReadable) {
  auto account = Unlimited();
  const int before = OpenDescriptors();
  SharedBytes kept;
  {
    const auto node = Must(NodeSegment::Create(kMiB, account));
    const auto feeder = Must(FeederSegment::Open(node->name()));
    const std::optional<Room> room = node->Grant(1, 64, 64);
    std::memset(feeder->data(*room), 'x', 64);
    kept = Must(node->Use(1, *room));
    ASSERT_TRUE(node->Grant(2, 64, 64).has_value());
  }
  EXPECT_EQ(kept.data[63], 'x');
  kept.owner.reset();
  EXPECT_EQ(account->used_bytes(), 0);
  EXPECT_EQ(OpenDescriptors(), before);
}

// Otherwise the signal SIGXFSZ ends the node.
TEST(SegmentTest, ALimitOnTheSizeOfFilesIsKept) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = kMiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto restore = absl::MakeCleanup([&] { setrlimit(RLIMIT_FSIZE, &before); });
  EXPECT_THAT(NodeSegment::Create(kMiB, Unlimited()).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ulimit -f")));
  EXPECT_THAT(NodeSegment::Create(kMiB / 2, Unlimited()), IsOk());
}

TEST(SegmentTest, TheAccountBoundsAllSegmentsTogether) {
  auto account = std::make_shared<RoomAccount>(1024);
  const auto first = Must(NodeSegment::Create(kMiB, account));
  const auto second = Must(NodeSegment::Create(kMiB, account));
  ASSERT_TRUE(first->Grant(1, 640, 640).has_value());
  EXPECT_EQ(second->Grant(2, 640, 640), std::nullopt);
  EXPECT_EQ(account->used_bytes(), 640) << "what was not granted is not booked";
  const std::optional<Room> rest = second->Grant(2, 640, 64);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->length, 384);
  EXPECT_EQ(second->Grant(2, 64, 64), std::nullopt);
  first->Vacate(1);
  EXPECT_EQ(account->used_bytes(), 384);
  EXPECT_TRUE(second->Grant(2, 640, 640).has_value());
}

TEST(SegmentTest, AFullSegmentGrantsNothing) {
  auto account = Unlimited();
  const auto node = Must(NodeSegment::Create(4096, account));
  ASSERT_TRUE(node->Grant(1, 1 << 20, 1).has_value());
  EXPECT_EQ(node->Grant(1, 64, 1), std::nullopt);
  EXPECT_EQ(account->used_bytes(), 4096);
}

TEST(SegmentTest, ASessionUsesRoomOfItsOwnOnly) {
  const auto node = Must(NodeSegment::Create(kMiB, Unlimited()));
  const std::optional<Room> room = node->Grant(1, 640, 640);
  ASSERT_TRUE(node->Grant(2, 640, 640).has_value());
  EXPECT_THAT(node->Use(2, *room), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(node->Use(3, *room), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(node->Use(1, {0, 64}), StatusIs(absl::StatusCode::kInvalidArgument));
  node->Vacate(1);
  EXPECT_THAT(node->Use(1, *room), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SegmentTest, NoPeerCanCutItShortOrUnsealIt) {
  const auto node = Must(NodeSegment::Create(kMiB, Unlimited()));
  const UniqueFd file(open(PathOf(node->name()).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  EXPECT_EQ(ftruncate(file.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(file.get(), 1 << 30), -1);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  struct stat info = {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(SegmentTest, AFeederOpensNothingButTheSegmentThatWasMeant) {
  const auto node = Must(NodeSegment::Create(kMiB, Unlimited()));
  const auto other = Must(NodeSegment::Create(kMiB, Unlimited()));
  SegmentName name = node->name();
  name.id = other->name().id;
  EXPECT_THAT(FeederSegment::Open(name),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another node's segment")));
  name = node->name();
  name.bytes += 4096;
  EXPECT_THAT(FeederSegment::Open(name), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                  HasSubstr("bytes, the node's segment")));
  for (const SegmentName& nonsense :
       std::vector<SegmentName>{{},
                                {.pid = 1, .fd = -1, .bytes = 8192, .id = name.id},
                                {.pid = 1, .fd = 1, .bytes = INT64_MAX, .id = name.id},
                                {.pid = 1, .fd = 1, .bytes = 8192, .id = "short"}}) {
    EXPECT_THAT(FeederSegment::Open(nonsense), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  name = node->name();
  name.fd = 1'000'000;
  EXPECT_THAT(FeederSegment::Open(name), StatusIs(absl::StatusCode::kNotFound));
}

// A memory file that can still be cut short would end this process by SIGBUS.
TEST(SegmentTest, AFeederMapsNothingThatCouldBecomeShorter) {
  for (const int seals : {0, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_GROW}) {
    const UniqueFd file(memfd_create("millrace-feed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_TRUE(file.valid());
    ASSERT_EQ(ftruncate(file.get(), 8192), 0);
    ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
    EXPECT_THAT(FeederSegment::Open(
                    {.pid = getpid(), .fd = file.get(), .bytes = 8192, .id = std::string(32, '0')}),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not sealed")))
        << seals;
  }
  // Nor what is no memory file: a pipe, which must not be waited for.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_THAT(FeederSegment::Open(
                  {.pid = getpid(), .fd = ends[0], .bytes = 8192, .id = std::string(32, '0')}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no node's segment")));
}

TEST(SegmentTest, AFeederTakesNoRoomOutsideOfTheSegment) {
  const auto node = Must(NodeSegment::Create(kMiB, Unlimited()));
  const auto feeder = Must(FeederSegment::Open(node->name()));
  EXPECT_TRUE(feeder->Holds({4096, kMiB}));
  for (const Room& room : std::vector<Room>{{0, 64},
                                            {4096, 0},
                                            {4096, -64},
                                            {4097, 64},
                                            {4096, 65},
                                            {4096, kMiB + 64},
                                            {kMiB + 4096, 64},
                                            {INT64_MAX - 63, 64},
                                            {4096, INT64_MAX - 63}}) {
    EXPECT_FALSE(feeder->Holds(room)) << room.offset << " " << room.length;
  }
}

TEST(SegmentTest, TheMemoryOfABurstGoesBack) {
  const auto node = Must(NodeSegment::Create(200 * kMiB, Unlimited()));
  const auto blocks = [&] {
    struct stat info = {};
    EXPECT_EQ(stat(PathOf(node->name()).c_str(), &info), 0);
    return int64_t{info.st_blocks} * 512;
  };
  EXPECT_LT(blocks(), kMiB) << "memory is taken as it is granted";
  const std::optional<Room> room = node->Grant(1, 150 * kMiB, 150 * kMiB);
  ASSERT_TRUE(room.has_value());
  EXPECT_GE(blocks(), 150 * kMiB) << "and all of it before it is granted";
  SharedBytes bytes = Must(node->Use(1, *room));
  node->Vacate(1);
  bytes.owner.reset();
  EXPECT_LE(blocks(), 65 * kMiB);
}

// What is kept for the next batches is a sum over all feeders, and so is all memory together.
TEST(SegmentTest, TheAccountBoundsTheMemoryOfAllSegments) {
  auto account = std::make_shared<RoomAccount>(100 * kMiB);
  std::vector<std::shared_ptr<NodeSegment>> segments;
  for (uint64_t i = 0; i < 5; ++i) {
    segments.push_back(Must(NodeSegment::Create(100 * kMiB, account)));
    // Where 64 MiB are kept by those before, they are none of this one's.
    const std::optional<Room> room = segments.back()->Grant(i, 50 * kMiB, 50 * kMiB);
    ASSERT_TRUE(room.has_value());
    SharedBytes bytes = Must(segments.back()->Use(i, *room));
    EXPECT_LE(account->memory_bytes(), 100 * kMiB + RoomAccount::kIdleBytes);
    bytes.owner.reset();
    EXPECT_LE(account->memory_bytes(), RoomAccount::kIdleBytes);
  }
  // In every segment something is in use behind what is free: nothing can be given back.
  segments.clear();
  EXPECT_EQ(account->memory_bytes(), 0);
  std::vector<SharedBytes> kept;
  for (uint64_t i = 0; i < 3; ++i) {
    segments.push_back(Must(NodeSegment::Create(100 * kMiB, account)));
    const std::optional<Room> room = segments.back()->Grant(i, 80 * kMiB, 80 * kMiB);
    EXPECT_EQ(room.has_value(), i < 2) << "there is no memory for the third";
    if (!room.has_value()) continue;
    kept.push_back(Must(segments.back()->Use(i, {room->offset + 79 * kMiB, kMiB})));
    segments.back()->Vacate(i);
  }
  EXPECT_EQ(account->used_bytes(), 2 * kMiB);
  EXPECT_LE(account->memory_bytes(), 100 * kMiB + RoomAccount::kIdleBytes);
}

// ---------------------------------------------------------------------------- Processes that die

struct Told {
  int64_t pid, fd, bytes, offset, length;
  char id[32];
};

SegmentName NameOf(const Told& told) {
  return {.pid = told.pid, .fd = told.fd, .bytes = told.bytes, .id = std::string(told.id, 32)};
}

Told Tell(const SegmentName& name, Room room) {
  Told told{name.pid, name.fd, name.bytes, room.offset, room.length, {}};
  std::memcpy(told.id, name.id.data(), sizeof(told.id));
  return told;
}

struct Pair {
  UniqueFd parent;
  UniqueFd child;
};

Pair MakePair() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Ends the process `pid`, and returns how it ended.
int Kill(pid_t pid) {
  kill(pid, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

// The child writes into its room for ever, and dies in the middle of it. What it had said to be
// there is there, the next feeder gets the room, and nothing of the dead one is left.
TEST(SegmentTest, AKilledFeederLeavesNothingBehind) {
  auto account = Unlimited();
  const int before = OpenDescriptors();
  for (int round = 0; round < 100; ++round) {
    const auto node = Must(NodeSegment::Create(kMiB, account));
    const std::optional<Room> room = node->Grant(1, kMiB, kMiB);
    ASSERT_TRUE(room.has_value());
    Pair pair = MakePair();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto feeder = FeederSegment::Open(node->name());
      if (!feeder.ok()) _exit(1);
      RoomQueue queue;
      queue.Add(*room);
      const std::optional<Room> said = queue.Place(1000);
      std::memset((*feeder)->data(*said), 'a', 1000);
      if (write(pair.child.get(), "x", 1) != 1) _exit(2);
      const std::optional<Room> next = queue.Place(kMiB / 2);
      while (true) std::memset((*feeder)->data(*next), 'b', kMiB / 2);
    }
    pair.child.reset();
    char byte = 0;
    ASSERT_EQ(read(pair.parent.get(), &byte, 1), 1);
    EXPECT_TRUE(WIFSIGNALED(Kill(child)));
    SharedBytes bytes = Must(node->Use(1, {room->offset, 1000}));
    EXPECT_EQ(std::string(bytes.data, bytes.data + bytes.size), std::string(1000, 'a'));
    node->Vacate(1);
    EXPECT_EQ(node->used_bytes(), 1024);
  }
  EXPECT_EQ(account->used_bytes(), 0);
  EXPECT_EQ(OpenDescriptors(), before);
}

// The child is the node, and dies while this process writes: no SIGBUS, and no name is left.
TEST(SegmentTest, AKilledNodeLeavesNothingBehindAndItsFeederGoesOn) {
  const int before = OpenDescriptors();
  for (int round = 0; round < 100; ++round) {
    Pair pair = MakePair();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto node = NodeSegment::Create(kMiB, std::make_shared<RoomAccount>(kMiB));
      if (!node.ok()) _exit(1);
      const std::optional<Room> room = (*node)->Grant(1, kMiB, kMiB);
      if (!room.has_value()) _exit(2);
      const Told told = Tell((*node)->name(), *room);
      if (write(pair.child.get(), &told, sizeof(told)) != sizeof(told)) _exit(3);
      while (true) pause();
    }
    pair.child.reset();
    Told told;
    ASSERT_EQ(read(pair.parent.get(), &told, sizeof(told)), ssize_t{sizeof(told)});
    const auto feeder = Must(FeederSegment::Open(NameOf(told)));
    const Room room{told.offset, told.length};
    ASSERT_TRUE(feeder->Holds(room));
    std::memset(feeder->data(room), 'a', static_cast<size_t>(room.length / 2));
    EXPECT_TRUE(WIFSIGNALED(Kill(child)));
    std::memset(feeder->data(room), 'b', static_cast<size_t>(room.length));
    EXPECT_EQ(feeder->data(room)[room.length - 1], 'b');
    EXPECT_FALSE(FeederSegment::Open(NameOf(told)).ok());
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace millrace
