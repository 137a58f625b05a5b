#include "dashboard/source/recording.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/safe_open.h"
#include "core/base/unique_fd.h"
#include "core/client/cluster_view.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "dashboard/source/playback_source.h"
#include "dashboard/source/recording.pb.h"
#include "millrace/status_macros.h"

namespace millrace::dashboard {
namespace {

constexpr absl::string_view kMagic = "MRECORD";
constexpr char kVersion = '1';
constexpr size_t kFileHeaderBytes = 8;
constexpr size_t kFrameHeaderBytes = 4 + 4 + 1 + 8 + 4;
constexpr absl::Duration kSeekPointEvery = absl::Minutes(1);
constexpr uint32_t kMaxFrameBytes = 512u << 20;
// The largest accepted ratio of the bytes before and after zlib, which itself reaches 1,032. For a
// block that claims more, memory is not even allocated.
constexpr uint64_t kMaxRatio = 1040;
constexpr size_t kWriteBytes = 256 << 10;

// ---- little-endian, as the file is ----

void Put(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t Get(const char* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return value;
}

struct FrameHeader {
  uint32_t bytes = 0;           // of the payload in the file
  uint32_t original_bytes = 0;  // of it uncompressed
  PlaybackFrames::Kind kind = PlaybackFrames::Kind::kUpdate;
  absl::Time arrived;
  uint32_t checksum = 0;
};

FrameHeader ParseHeader(const char* at) {
  FrameHeader header;
  header.bytes = static_cast<uint32_t>(Get(at, 4));
  header.original_bytes = static_cast<uint32_t>(Get(at + 4, 4));
  header.kind = static_cast<PlaybackFrames::Kind>(Get(at + 8, 1));
  header.arrived = absl::FromUnixMicros(static_cast<int64_t>(Get(at + 9, 8)));
  header.checksum = static_cast<uint32_t>(Get(at + 17, 4));
  return header;
}

uint32_t Checksum(absl::string_view bytes) {
  return static_cast<uint32_t>(crc32(crc32(0, nullptr, 0),
                                     reinterpret_cast<const Bytef*>(bytes.data()),
                                     static_cast<uInt>(bytes.size())));
}

absl::Status Errno(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

// ---- the link, as a message ----

v1::RecordedLink LinkToProto(const LinkState& link) {
  v1::RecordedLink proto;
  proto.set_kind(static_cast<v1::RecordedLink::Kind>(static_cast<int>(link.kind) + 1));
  *proto.mutable_since() = TimeToProto(link.since);
  proto.set_reason(link.reason);
  proto.set_reconnects(static_cast<uint32_t>(link.reconnects));
  return proto;
}

LinkState LinkFromProto(const v1::RecordedLink& proto) {
  LinkState link;
  if (proto.kind() >= v1::RecordedLink::KIND_CONNECTING &&
      proto.kind() <= v1::RecordedLink::KIND_REFUSED) {
    link.kind = static_cast<LinkState::Kind>(proto.kind() - 1);
  }
  link.since = TimeFromProto(proto.since());
  link.reason = proto.reason();
  link.reconnects = static_cast<int>(proto.reconnects());
  return link;
}

// ---- writing ----

class FileWriter final : public RecordingWriter {
 public:
  FileWriter(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {
    buffer_ = absl::StrCat(kMagic, absl::string_view(&kVersion, 1));
  }
  ~FileWriter() override { Flush().IgnoreError(); }

  absl::Status Add(const SourceUpdate& update) override {
    MILLRACE_RETURN_IF_ERROR(status_);
    v1::RecordedUpdate recorded;
    if (update.watch != nullptr) *recorded.mutable_watch() = *update.watch;
    recorded.set_more(update.more);
    *recorded.mutable_link() = LinkToProto(update.link);
    recorded.set_wire_bytes(update.bytes);
    recorded.set_dropped(update.dropped);
    const bool start = frames_ == 0 || (update.watch != nullptr && update.watch->snapshot());
    MILLRACE_RETURN_IF_ERROR(
        Write(recorded, start ? PlaybackFrames::Kind::kStart : PlaybackFrames::Kind::kUpdate,
              update.arrived));
    if (start) last_start_ = update.arrived;
    if (update.watch == nullptr) return absl::OkStatus();
    // What the view cannot take (of another coordinator, say) comes again in the next snapshot.
    view_ok_ = view_.Apply(*update.watch).ok() && (view_ok_ || update.watch->snapshot());
    if (view_ok_ && !update.more && update.arrived - last_start_ >= kSeekPointEvery) {
      last_start_ = update.arrived;
      MILLRACE_RETURN_IF_ERROR(
          Write(SeekPoint(update.link), PlaybackFrames::Kind::kSeekPoint, update.arrived));
    }
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    size_t done = 0;
    while (status_.ok() && done < buffer_.size()) {
      const ssize_t count = write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        status_ = Errno("cannot write the recording", path_);
        break;
      }
      done += static_cast<size_t>(count);
    }
    written_ += done;
    buffer_.clear();
    return status_;
  }

  uint64_t bytes_written() const override { return written_ + buffer_.size(); }

 private:
  v1::RecordedUpdate SeekPoint(const LinkState& link) const {
    v1::RecordedUpdate recorded;
    *recorded.mutable_link() = LinkToProto(link);
    v1::WatchUpdate* watch = recorded.mutable_watch();
    watch->set_seq(view_.seq());
    watch->set_snapshot(true);
    watch->set_incarnation(view_.incarnation());
    *watch->mutable_time() = TimeToProto(view_.time());
    *watch->mutable_cluster() = view_.cluster();
    for (const v1::SlotStatus& slot : view_.slots()) *watch->add_slots() = slot;
    for (const v1::WatchUpdate::Node& node : view_.nodes()) *watch->add_nodes() = node;
    if (view_.spec_epoch() > 0) {
      *watch->add_membership() = MakeSpecUpdate(view_.spec(), view_.spec_epoch());
    }
    for (const auto& [id, feed] : view_.feeds()) *watch->add_feeds() = feed;
    for (const v1::Event& event : view_.events()) *watch->add_events() = event;
    return recorded;
  }

  absl::Status Write(const v1::RecordedUpdate& recorded, PlaybackFrames::Kind kind,
                     absl::Time arrived) {
    const std::string bytes = recorded.SerializeAsString();
    uLongf size = compressBound(static_cast<uLong>(bytes.size()));
    std::string packed(size, '\0');
    // Level 1: the window's thread does it.
    if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                  reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                  1) != Z_OK) {
      return status_ = absl::InternalError("zlib cannot compress an update");
    }
    packed.resize(size);
    Put(packed.size(), 4, &buffer_);
    Put(bytes.size(), 4, &buffer_);
    Put(static_cast<uint64_t>(kind), 1, &buffer_);
    Put(static_cast<uint64_t>(absl::ToUnixMicros(arrived)), 8, &buffer_);
    Put(Checksum(packed), 4, &buffer_);
    buffer_ += packed;
    ++frames_;
    return buffer_.size() >= kWriteBytes ? Flush() : absl::OkStatus();
  }

  const std::string path_;
  const UniqueFd fd_;
  std::string buffer_;
  absl::Status status_;
  uint64_t written_ = 0;
  uint64_t frames_ = 0;
  absl::Time last_start_ = absl::InfinitePast();
  ClusterView view_;
  bool view_ok_ = false;
};

// ---- reading ----

// Fills `size` bytes from `offset`, or fewer at the end of the file.
absl::StatusOr<std::string> ReadAt(int fd, uint64_t offset, size_t size, const std::string& path) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t count =
        pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Errno("cannot read the recording", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

class FileFrames final : public PlaybackFrames {
 public:
  FileFrames(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Index() {
    struct stat info = {};
    if (fstat(fd_.get(), &info) != 0) return Errno("cannot read the recording", path_);
    const uint64_t end = static_cast<uint64_t>(info.st_size);
    MILLRACE_ASSIGN_OR_RETURN(const std::string head,
                              ReadAt(fd_.get(), 0, kFileHeaderBytes, path_));
    if (head.size() < kFileHeaderBytes || head.substr(0, kMagic.size()) != kMagic) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, " is no recording of the dashboard (--record FILE makes one)"));
    }
    if (head.back() != kVersion) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, " is a recording of format ", head.substr(kMagic.size()),
                       "; this program reads format ", absl::string_view(&kVersion, 1),
                       ": play it with the version that made it"));
    }
    uint64_t offset = kFileHeaderBytes;
    while (offset < end) {
      MILLRACE_ASSIGN_OR_RETURN(const std::string bytes,
                                ReadAt(fd_.get(), offset, kFrameHeaderBytes, path_));
      if (bytes.size() < kFrameHeaderBytes) break;
      const FrameHeader header = ParseHeader(bytes.data());
      if (header.bytes > kMaxFrameBytes || header.original_bytes > kMaxFrameBytes ||
          header.original_bytes > kMaxRatio * header.bytes || header.kind > Kind::kSeekPoint ||
          (!frames_.empty() && header.arrived < frames_.back().header.arrived)) {
        damage_ = absl::StrCat(path_, " is damaged at byte ", offset, "; it plays up to there");
        break;
      }
      if (end - offset - kFrameHeaderBytes < header.bytes) break;
      frames_.push_back({header, offset + kFrameHeaderBytes});
      offset += kFrameHeaderBytes + header.bytes;
    }
    if (damage_.empty() && offset < end) {
      damage_ = absl::StrCat(path_, " is cut short: its last ", end - offset,
                             " bytes are no whole update");
    }
    if (frames_.empty()) {
      return absl::DataLossError(damage_.empty() ? absl::StrCat(path_, " holds no update")
                                                 : damage_);
    }
    return Read(0).status();
  }

  size_t size() const override { return frames_.size(); }
  absl::Time arrived(size_t frame) const override { return frames_[frame].header.arrived; }
  Kind kind(size_t frame) const override { return frames_[frame].header.kind; }
  std::string cut_short() const override { return damage_; }

  absl::StatusOr<SourceUpdate> Read(size_t frame) override {
    const Entry& entry = frames_[frame];
    MILLRACE_ASSIGN_OR_RETURN(const std::string packed,
                              ReadAt(fd_.get(), entry.offset, entry.header.bytes, path_));
    std::string bytes(entry.header.original_bytes, '\0');
    uLongf size = bytes.size();
    v1::RecordedUpdate recorded;
    if (packed.size() != entry.header.bytes || Checksum(packed) != entry.header.checksum ||
        uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                   reinterpret_cast<const Bytef*>(packed.data()),
                   static_cast<uLong>(packed.size())) != Z_OK ||
        size != bytes.size() || !recorded.ParseFromString(bytes)) {
      return absl::DataLossError(
          absl::StrCat(path_, " is damaged at byte ", entry.offset, "; it plays up to there"));
    }
    SourceUpdate update;
    update.arrived = entry.header.arrived;
    if (recorded.has_watch()) {
      update.watch = std::make_shared<const v1::WatchUpdate>(std::move(*recorded.mutable_watch()));
    }
    update.more = recorded.more();
    update.link = LinkFromProto(recorded.link());
    update.bytes = recorded.wire_bytes();
    update.dropped = recorded.dropped();
    return update;
  }

 private:
  struct Entry {
    FrameHeader header;
    uint64_t offset = 0;  // of the payload
  };
  const std::string path_;
  const UniqueFd fd_;
  std::vector<Entry> frames_;
  std::string damage_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingWriter>> RecordingWriter::Create(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd fd, OpenForAppend(path, 0600));
  if (ftruncate(fd.get(), 0) != 0) return Errno("cannot empty the recording", path);
  auto writer = std::make_unique<FileWriter>(path, std::move(fd));
  MILLRACE_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::StatusOr<std::unique_ptr<UpdateSource>> OpenRecording(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd fd, OpenForRead(path));
  auto frames = std::make_unique<FileFrames>(path, std::move(fd));
  MILLRACE_RETURN_IF_ERROR(frames->Index());
  PlaybackOptions options;
  options.title = path.substr(path.rfind('/') + 1);
  return MakePlaybackSource(std::move(frames), options);
}

}  // namespace millrace::dashboard
