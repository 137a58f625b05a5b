#include "feed/source/tfrecord/byte_input.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "feed/source/source_file.h"
#include "feed/source/tfrecord/masked_crc32c.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kCompressedBytes = size_t{128} << 10;
// Of zlib: the largest window, and the bit that says gzip.
constexpr int kZlibWindow = 15, kGzipWindow = 15 + 16;

// Of a file that begins so; nullopt if it is none of records.
std::optional<TfRecordCompression> CompressionOf(absl::string_view first) {
  if (first.empty() || (first.size() == kRecordHeaderBytes && IsRecordHeader(first))) {
    return TfRecordCompression::kNone;
  }
  if (first.size() < 2) return std::nullopt;
  const auto a = static_cast<uint8_t>(first[0]), b = static_cast<uint8_t>(first[1]);
  if (a == 0x1f && b == 0x8b) return TfRecordCompression::kGzip;
  // RFC 1950: deflate, a window of at most 32 KiB, and a checksum of these two bytes.
  if ((a & 0x0f) == 8 && (a >> 4) <= 7 && (a * 256 + b) % 31 == 0) {
    return TfRecordCompression::kZlib;
  }
  return std::nullopt;
}

}  // namespace

bool IsRecordHeader(absl::string_view header) {
  constexpr size_t kLengthBytes = sizeof(uint64_t);
  uint32_t masked = 0;
  std::memcpy(&masked, header.data() + kLengthBytes, sizeof(masked));
  return MaskedCrc32c(header.substr(0, kLengthBytes)) == masked;
}

// Read from its beginning on.
class ByteInput::File {
 public:
  explicit File(SourceFile file) : file_(std::move(file)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* to, size_t size) const {
    return file_.ReadAt(offset, to, size);
  }
  absl::StatusOr<size_t> Read(char* to, size_t size) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, ReadAt(offset_, to, size));
    offset_ += got;
    return got;
  }

  [[nodiscard]] uint64_t offset() const { return offset_; }
  [[nodiscard]] uint64_t BytesLeft() const {
    return offset_ < file_.size() ? file_.size() - offset_ : 0;
  }

 private:
  const SourceFile file_;
  uint64_t offset_ = 0;
};

class ByteInput::Inflater {
 public:
  static absl::StatusOr<std::unique_ptr<Inflater>> Create(File* file, const std::string* path,
                                                          bool gzip) {
    std::unique_ptr<Inflater> inflater(new Inflater(file, path, gzip));
    const int made = inflateInit2(&inflater->stream_, gzip ? kGzipWindow : kZlibWindow);
    if (made == Z_OK) return inflater;
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot decompress ", *path, ": ", zError(made)));
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  absl::StatusOr<size_t> Read(char* to, size_t size) {
    const auto room = static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = room;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        MILLRACE_RETURN_IF_ERROR(Fill());
        if (stream_.avail_in == 0) {
          if (in_stream_) return Damaged("it is cut short");
          return 0;
        }
      }
      if (!in_stream_) {
        MILLRACE_RETURN_IF_ERROR(BeginStream());
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        in_stream_ = false;
      } else if (result != Z_OK) {
        return Damaged(stream_.msg != nullptr ? stream_.msg : zError(result));
      }
    }
    return size_t{room - stream_.avail_out};
  }

 private:
  Inflater(File* file, const std::string* path, bool gzip)
      : file_(file), path_(path), gzip_(gzip), input_(new Bytef[kCompressedBytes]) {}

  absl::Status Fill() {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                              file_->Read(reinterpret_cast<char*>(input_.get()), kCompressedBytes));
    stream_.next_in = input_.get();
    stream_.avail_in = static_cast<uInt>(got);
    return absl::OkStatus();
  }

  // A gzip file may have several streams, one behind the other.
  absl::Status BeginStream() {
    if (began_ && !gzip_) return Damaged("there is more behind its end");
    if (began_) (void)inflateReset(&stream_);
    began_ = in_stream_ = true;
    return absl::OkStatus();
  }

  absl::Status Damaged(absl::string_view why) const {
    return absl::DataLossError(absl::StrCat(*path_, ", byte ", file_->offset() - stream_.avail_in,
                                            ": the ", gzip_ ? "GZIP" : "ZLIB", " data is damaged (",
                                            why, "); copy or write the file again"));
  }

  File* const file_;               // not owned
  const std::string* const path_;  // not owned
  const bool gzip_;
  const std::unique_ptr<Bytef[]> input_;
  z_stream stream_{};
  bool began_ = false;
  bool in_stream_ = false;  // its end has not been seen
};

ByteInput::ByteInput(std::string path) : path_(std::move(path)) {}

ByteInput::~ByteInput() = default;

absl::StatusOr<std::unique_ptr<ByteInput>> ByteInput::Open(const std::string& path) {
  std::unique_ptr<ByteInput> input(new ByteInput(path));
  MILLRACE_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Open(path));
  input->file_ = std::make_unique<File>(std::move(file));
  std::array<char, kRecordHeaderBytes> first;
  size_t have = 0;
  while (have < first.size()) {
    MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                              input->file_->ReadAt(have, first.data() + have, first.size() - have));
    if (got == 0) break;
    have += got;
  }
  const std::optional<TfRecordCompression> compression =
      CompressionOf(absl::string_view(first.data(), have));
  if (!compression.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is no TFRecord file, or its first bytes are damaged: it begins neither with the "
        "header of a record nor as GZIP or ZLIB data"));
  }
  input->compression_ = *compression;
  if (input->compression_ != TfRecordCompression::kNone) {
    MILLRACE_ASSIGN_OR_RETURN(input->inflater_,
                              Inflater::Create(input->file_.get(), &input->path_,
                                               input->compression_ == TfRecordCompression::kGzip));
  }
  return input;
}

absl::StatusOr<size_t> ByteInput::Read(char* to, size_t size) {
  return inflater_ != nullptr ? inflater_->Read(to, size) : file_->Read(to, size);
}

std::optional<uint64_t> ByteInput::BytesLeft() const {
  if (inflater_ != nullptr) return std::nullopt;
  return file_->BytesLeft();
}

}  // namespace millrace
