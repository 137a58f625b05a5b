#include "feed/segment/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/random.h"

namespace millrace {
namespace {

// What a segment begins with: the id that its name tells. Rooms begin behind it, at a page.
constexpr char kFileName[] = "millrace-feed";
constexpr int64_t kHeaderBytes = 4096;
constexpr size_t kIdBytes = 32;
constexpr int64_t kPage = 4096;
constexpr int64_t kMaxSegmentBytes = int64_t{1} << 40;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// Memory is asked for in steps of this size.
constexpr int64_t kProvideStep = int64_t{1} << 20;

absl::Status ErrnoError(absl::string_view what) {
  return absl::ErrnoToStatus(errno, std::string(what));
}

// Of errno, when a feeder looks for a segment.
absl::Status WhyNotOpened(const std::string& path) {
  if (errno == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat(path, " is not there: the node runs in another PID namespace, or has ended"));
  }
  if (errno == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " may not be opened: the node runs as another user"));
  }
  return ErrnoError(path);
}

}  // namespace

int64_t RoomAccount::Book(int64_t bytes, int64_t least) {
  int64_t used = used_.load();
  while (true) {
    const int64_t booked = std::min(bytes, limit_ - used) & ~(kRoomAlignment - 1);
    if (booked < std::max<int64_t>(least, 1)) return 0;
    if (used_.compare_exchange_weak(used, used + booked)) return booked;
  }
}

bool RoomAccount::BookMemory(int64_t bytes) {
  int64_t memory = memory_.load();
  do {
    if (bytes > limit_ - memory + kIdleBytes) return false;
  } while (!memory_.compare_exchange_weak(memory, memory + bytes));
  return true;
}

SegmentMapping::~SegmentMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

// ------------------------------------------------------------------------------------- The node

// A body in use.
class NodeSegment::Body {
 public:
  Body(std::shared_ptr<NodeSegment> segment, Room room)
      : segment_(std::move(segment)), room_(room) {}
  ~Body() { segment_->Return(room_); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

 private:
  const std::shared_ptr<NodeSegment> segment_;
  const Room room_;
};

absl::StatusOr<std::shared_ptr<NodeSegment>> NodeSegment::Create(
    int64_t bytes, std::shared_ptr<RoomAccount> account) {
  if (bytes < 1 || bytes > kMaxSegmentBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a segment of ", bytes, " bytes"));
  }
  const int64_t size = kHeaderBytes + ((bytes + kPage - 1) & ~(kPage - 1));
  // A process that goes beyond it gets SIGXFSZ, also for a file in memory.
  rlimit most = {};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && static_cast<rlim_t>(size) > most.rlim_cur) {
    return absl::ResourceExhaustedError(absl::StrCat("a memory file of ", size,
                                                     " bytes, where the node may make files of ",
                                                     most.rlim_cur, " (ulimit -f)"));
  }
  UniqueFd file(::memfd_create(kFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return ErrnoError("memfd_create");
  if (::fchmod(file.get(), 0600) != 0) return ErrnoError("fchmod of a memory file");
  if (::ftruncate(file.get(), size) != 0) return ErrnoError("ftruncate of a memory file");
  if (::fallocate(file.get(), 0, 0, kHeaderBytes) != 0) {
    return ErrnoError("memory for a memory file");
  }
  void* data =
      ::mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoError("mmap of a memory file");
  SegmentName name{.pid = ::getpid(), .fd = file.get(), .bytes = size, .id = RandomHex(16)};
  std::memcpy(data, name.id.data(), kIdBytes);
  std::shared_ptr<NodeSegment> segment(
      new NodeSegment(std::move(file), std::move(name), data, std::move(account)));
  if (::fcntl(segment->file_.get(), F_ADD_SEALS, kSeals) != 0) {
    return ErrnoError("sealing a memory file");
  }
  return segment;
}

NodeSegment::NodeSegment(UniqueFd file, SegmentName name, void* data,
                         std::shared_ptr<RoomAccount> account)
    : file_(std::move(file)),
      name_(std::move(name)),
      mapping_(data, static_cast<size_t>(name_.bytes)),
      account_(std::move(account)),
      table_({.offset = kHeaderBytes, .length = name_.bytes - kHeaderBytes}),
      provided_(kHeaderBytes) {}

NodeSegment::~NodeSegment() {
  account_->Release(used_bytes());
  MutexLock lock(&mu_);
  account_->ReleaseMemory(provided_ - kHeaderBytes);
}

std::optional<Room> NodeSegment::TakeLocked(int64_t want, int64_t least) {
  const int64_t booked = account_->Book(AlignRoom(std::min(want, name_.bytes)),
                                        AlignRoom(std::max<int64_t>(least, 1)));
  if (booked == 0) return std::nullopt;
  std::optional<Room> room = table_.Take(booked, least);
  if (room.has_value() && !Provide(*room)) {
    table_.Return(*room);
    room.reset();
  }
  account_->Release(booked - (room.has_value() ? room->length : 0));
  return room;
}

std::optional<Room> NodeSegment::Grant(uint64_t session, int64_t want, int64_t least) {
  MutexLock lock(&mu_);
  const std::optional<Room> room = TakeLocked(want, least);
  if (room.has_value()) granted_[session].Add(*room);
  return room;
}

// The kernel clears each page here once, instead of where it is first written to; and says here
// that it has none.
bool NodeSegment::Provide(Room room) {
  if (room.end() <= provided_) return true;
  const int64_t end = std::min(name_.bytes, (room.end() + kProvideStep - 1) & ~(kProvideStep - 1));
  if (!account_->BookMemory(end - provided_)) return false;
  while (::fallocate(file_.get(), 0, provided_, end - provided_) != 0) {
    if (errno == EINTR) continue;
    account_->ReleaseMemory(end - provided_);
    static std::atomic<bool> said{false};  // it would be said for each batch
    if (!said.exchange(true)) {
      MILLRACE_LOG(WARNING) << "no memory for a feeder's segment: " << std::strerror(errno)
                            << "; its rows come through the socket";
    }
    return false;
  }
  provided_ = end;
  return true;
}

int64_t NodeSegment::unused_bytes(uint64_t session) const {
  MutexLock lock(&mu_);
  const auto it = granted_.find(session);
  return it == granted_.end() ? 0 : it->second.unused_bytes();
}

absl::StatusOr<SharedBytes> NodeSegment::Use(uint64_t session, Room body) {
  {
    MutexLock lock(&mu_);
    const auto it = granted_.find(session);
    if (it == granted_.end()) {
      return absl::InvalidArgumentError("a body in the segment, where no room was granted");
    }
    absl::StatusOr<std::vector<Room>> skipped = it->second.Use(body);
    if (!skipped.ok()) return skipped.status();
    for (const Room& room : *skipped) ReturnLocked(room);
  }
  const Room room{body.offset, AlignRoom(body.length)};
  return SharedBytes{.data = mapping_.data() + body.offset,
                     .size = static_cast<size_t>(body.length),
                     .owner = std::make_shared<const Body>(shared_from_this(), room)};
}

void NodeSegment::Vacate(uint64_t session) {
  MutexLock lock(&mu_);
  const auto it = granted_.find(session);
  if (it == granted_.end()) return;
  for (const Room& room : it->second.Clear()) ReturnLocked(room);
  granted_.erase(it);
  Trim();
}

std::shared_ptr<ResultRoom> NodeSegment::TakeForResult(int64_t bytes) {
  MutexLock lock(&mu_);
  const std::optional<Room> room = TakeLocked(bytes, bytes);
  return room.has_value() ? std::make_shared<ResultRoom>(shared_from_this(), *room) : nullptr;
}

void NodeSegment::TakeBack(uint64_t session, int64_t taken_bytes) {
  MutexLock lock(&mu_);
  const auto it = lent_.find(session);
  if (it == lent_.end()) return;
  std::deque<Lent>& lent = it->second;
  while (!lent.empty() && lent.front().until_taken_bytes <= taken_bytes) {
    ReturnLocked(lent.front().room);
    lent.pop_front();
  }
  if (lent.empty()) lent_.erase(it);
  Trim();
}

ResultRoom::~ResultRoom() {
  if (segment_ != nullptr) segment_->Return(room_);
}

uint8_t* ResultRoom::data() const { return segment_->mapping_.data() + room_.offset; }

void ResultRoom::Lend(uint64_t session, int64_t until_taken_bytes) {
  const std::shared_ptr<NodeSegment> segment = std::move(segment_);
  MutexLock lock(&segment->mu_);
  segment->lent_[session].push_back({until_taken_bytes, room_});
}

void NodeSegment::ReturnLocked(Room room) {
  table_.Return(room);
  account_->Release(room.length);
}

void NodeSegment::Return(Room room) {
  MutexLock lock(&mu_);
  ReturnLocked(room);
  Trim();
}

// Where everything is free nobody has room, so nobody writes.
void NodeSegment::Trim() {
  if (!table_.all_free()) return;
  const int64_t bytes =
      std::min(provided_ - kHeaderBytes, account_->memory_bytes() - RoomAccount::kIdleBytes);
  if (bytes <= 0) return;
  if (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, provided_ - bytes,
                  bytes) == 0) {
    provided_ -= bytes;
    account_->ReleaseMemory(bytes);
  }
}

int64_t NodeSegment::used_bytes() const {
  MutexLock lock(&mu_);
  return name_.bytes - kHeaderBytes - table_.free_bytes();
}

// ----------------------------------------------------------------------------------- The feeder

absl::StatusOr<std::shared_ptr<FeederSegment>> FeederSegment::Open(const SegmentName& name) {
  if (name.pid < 1 || name.fd < 0 || name.bytes <= kHeaderBytes || name.bytes > kMaxSegmentBytes ||
      name.bytes % kPage != 0 || name.id.size() != kIdBytes) {
    return absl::InvalidArgumentError("a segment's name that makes no sense");
  }
  const std::string path = absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
  // Before it is opened, which may do something where it is a device.
  char link[64] = {};
  if (::readlink(path.c_str(), link, sizeof(link) - 1) < 0) return WhyNotOpened(path);
  if (!absl::StartsWith(link, absl::StrCat("/memfd:", kFileName))) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no node's segment: the node runs in another PID namespace"));
  }
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return WhyNotOpened(path);
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not sealed: it could be made shorter under this process"));
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return ErrnoError(path);
  if (info.st_size != name.bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has ", info.st_size, " bytes, the node's segment ", name.bytes));
  }
  const auto size = static_cast<size_t>(name.bytes);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoError(absl::StrCat("mmap of ", path));
  std::shared_ptr<FeederSegment> segment(new FeederSegment(data, size));
  if (std::memcmp(data, name.id.data(), kIdBytes) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is another node's segment: the node runs in another PID namespace"));
  }
  return segment;
}

bool FeederSegment::Holds(Room room) const {
  const auto size = static_cast<int64_t>(mapping_.size());
  return room.offset >= kHeaderBytes && room.offset % kRoomAlignment == 0 && room.length > 0 &&
         room.length % kRoomAlignment == 0 && room.offset <= size &&
         room.length <= size - room.offset;
}

}  // namespace millrace
