#include "feed/source/tfrecord/record_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/random.h"
#include "feed/source/tfrecord/masked_crc32c.h"
#include "feed/source/tfrecord/record_reader.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kPendingBytes = size_t{256} << 10;
constexpr mode_t kMode = 0666;  // less the umask
constexpr int kTries = 16;      // to find a name that nobody has

absl::Status Errno(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

// With its slash; empty for the working folder.
absl::string_view FolderOf(absl::string_view path) {
  return path.substr(0, path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

class RecordWriter::Deflater {
 public:
  static absl::StatusOr<std::unique_ptr<Deflater>> Create(bool gzip) {
    std::unique_ptr<Deflater> deflater(new Deflater());
    constexpr int kMemLevel = 8, kWindow = 15, kGzip = 16;
    const int made = deflateInit2(&deflater->stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                  gzip ? kWindow + kGzip : kWindow, kMemLevel, Z_DEFAULT_STRATEGY);
    if (made == Z_OK) return deflater;
    return absl::ResourceExhaustedError(absl::StrCat("cannot compress: ", zError(made)));
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  // Calls out(bytes) for what comes of `bytes`, which are the last ones if `end`.
  template <typename F>
  absl::Status Deflate(absl::string_view bytes, bool end, F out) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());  // Put() gives it pieces
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(output_.get());
      stream_.avail_out = kPendingBytes;
      const int result = deflate(&stream_, end ? Z_FINISH : Z_NO_FLUSH);
      if (result == Z_STREAM_ERROR) return absl::InternalError("zlib cannot compress");
      MILLRACE_RETURN_IF_ERROR(
          out(absl::string_view(output_.get(), kPendingBytes - stream_.avail_out)));
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

 private:
  Deflater() : output_(new char[kPendingBytes]) {}

  z_stream stream_{};
  const std::unique_ptr<char[]> output_;
};

RecordWriter::RecordWriter(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

RecordWriter::~RecordWriter() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(
    std::string path, TfRecordCompression compression) {
  const absl::string_view folder = FolderOf(path);
  const absl::string_view name = absl::string_view(path).substr(folder.size());
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" does not name a file"));
  }
  std::string temporary;
  UniqueFd fd;
  for (int i = 0; i < kTries && !fd.valid(); ++i) {
    temporary = absl::StrCat(folder, ".", name, ".tmp.", RandomHex(3));
    fd = UniqueFd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    if (!fd.valid() && errno != EEXIST) break;
  }
  if (!fd.valid()) return Errno("create a temporary file for", path);
  std::unique_ptr<RecordWriter> writer(
      new RecordWriter(std::move(path), std::move(temporary), std::move(fd)));
  if (compression != TfRecordCompression::kNone) {
    MILLRACE_ASSIGN_OR_RETURN(writer->deflater_,
                              Deflater::Create(compression == TfRecordCompression::kGzip));
  }
  return writer;
}

absl::Status RecordWriter::Append(absl::string_view record) {
  if (record.size() > kMaxRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": a record of ", record.size(),
                                                   " bytes; at most ", kMaxRecordBytes,
                                                   " are written"));
  }
  std::array<char, kRecordHeaderBytes> header;
  const uint64_t length = record.size();
  std::memcpy(header.data(), &length, sizeof(length));
  const uint32_t of_length = MaskedCrc32c({header.data(), sizeof(length)});
  std::memcpy(header.data() + sizeof(length), &of_length, sizeof(of_length));
  const uint32_t of_data = MaskedCrc32c(record);
  MILLRACE_RETURN_IF_ERROR(Put({header.data(), header.size()}));
  MILLRACE_RETURN_IF_ERROR(Put(record));
  return Put({reinterpret_cast<const char*>(&of_data), sizeof(of_data)});
}

absl::Status RecordWriter::Put(absl::string_view bytes) {
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, kPendingBytes - pending_.size());
    pending_.append(piece.data(), piece.size());
    bytes.remove_prefix(piece.size());
    if (pending_.size() == kPendingBytes) {
      MILLRACE_RETURN_IF_ERROR(Flush());
    }
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::Flush() {
  if (deflater_ == nullptr) {
    MILLRACE_RETURN_IF_ERROR(WriteOut(pending_));
  } else {
    MILLRACE_RETURN_IF_ERROR(deflater_->Deflate(
        pending_, /*end=*/false, [this](absl::string_view bytes) { return WriteOut(bytes); }));
  }
  pending_.clear();
  return absl::OkStatus();
}

absl::Status RecordWriter::WriteOut(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Errno("write", path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::Finish() {
  MILLRACE_RETURN_IF_ERROR(Flush());
  if (deflater_ != nullptr) {
    MILLRACE_RETURN_IF_ERROR(deflater_->Deflate(
        "", /*end=*/true, [this](absl::string_view bytes) { return WriteOut(bytes); }));
  }
  if (fsync(fd_.get()) != 0) return Errno("sync", path_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return Errno("replace", path_);
  temporary_.clear();
  // The name is durable once the folder is. One that cannot be synced (some network file systems)
  // is no reason to report a file as failed that every reader already sees.
  const std::string folder = absl::StrCat(FolderOf(path_), ".");
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.valid()) (void)fsync(opened.get());
  return absl::OkStatus();
}

}  // namespace millrace
