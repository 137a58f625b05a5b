#include "feed/source/tfrecord/record_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "feed/source/tfrecord/masked_crc32c.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr size_t kFooterBytes = sizeof(uint32_t);  // the checksum of the data

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ByteInput> input, ByteInput::Open(path));
  return std::unique_ptr<RecordReader>(new RecordReader(std::move(input)));
}

// Room for `bytes` in all, and what is not given out yet at its beginning.
void RecordReader::Grow(size_t bytes) {
  if (bytes <= capacity_) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  } else {
    std::unique_ptr<char[]> larger(new char[bytes]);
    if (end_ > begin_) std::memcpy(larger.get(), buffer_.get() + begin_, end_ - begin_);
    buffer_ = std::move(larger);
    capacity_ = bytes;
  }
  end_ -= begin_;
  begin_ = 0;
}

// Reads until there are `wanted` bytes from begin_ on; returns how many there are, fewer only at
// the end. Memory is taken for what is known to be there, or doubled as it comes.
absl::StatusOr<size_t> RecordReader::Fill(size_t wanted) {
  while (end_ - begin_ < wanted) {
    const size_t have = end_ - begin_;
    if (end_ == capacity_ || (begin_ > 0 && begin_ + wanted > capacity_)) {
      const std::optional<uint64_t> left = input_->BytesLeft();
      if (left.has_value() && *left < wanted - have) return have + static_cast<size_t>(*left);
      const size_t least = left.has_value() ? wanted : std::min(wanted, 2 * have);
      const uint64_t most = left.has_value() ? have + *left : kReadBytes;
      Grow(std::max(least, static_cast<size_t>(std::min<uint64_t>(most, kReadBytes))));
    }
    MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                              input_->Read(buffer_.get() + end_, capacity_ - end_));
    if (got == 0) break;
    end_ += got;
  }
  return end_ - begin_;
}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::Next() {
  offset_ = next_offset_;
  ++record_;
  MILLRACE_ASSIGN_OR_RETURN(size_t have, Fill(kRecordHeaderBytes));
  if (have == 0) {
    --record_;
    return std::optional<absl::string_view>();
  }
  if (have < kRecordHeaderBytes) {
    if (offset_ == 0) return NoRecords();
    return CutShort(kRecordHeaderBytes, have);
  }
  const char* const header = buffer_.get() + begin_;
  if (!IsRecordHeader(absl::string_view(header, kRecordHeaderBytes))) {
    return offset_ == 0 ? NoRecords() : Damaged("the checksum of its length is wrong");
  }
  uint64_t length = 0;
  std::memcpy(&length, header, sizeof(length));
  if (length > kMaxRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat(Place(), ": it has ", length, " bytes; at most ",
                                                   kMaxRecordBytes, " are read"));
  }
  const size_t whole = kRecordHeaderBytes + static_cast<size_t>(length) + kFooterBytes;
  MILLRACE_ASSIGN_OR_RETURN(have, Fill(whole));
  if (have < whole) return CutShort(whole, have);
  const absl::string_view data(buffer_.get() + begin_ + kRecordHeaderBytes,
                               static_cast<size_t>(length));
  uint32_t masked = 0;
  std::memcpy(&masked, data.data() + data.size(), sizeof(masked));
  if (MaskedCrc32c(data) != masked) return Damaged("the checksum of its data is wrong");
  begin_ += whole;
  next_offset_ += whole;
  return std::optional<absl::string_view>(data);
}

std::string RecordReader::Place() const {
  const bool compressed = input_->compression() != TfRecordCompression::kNone;
  return absl::StrCat(input_->path(), ", record ", std::max<int64_t>(record_, 0), " (byte ",
                      offset_, compressed ? " of the decompressed data)" : ")");
}

absl::Status RecordReader::Damaged(absl::string_view why) const {
  return absl::DataLossError(absl::StrCat(
      Place(), ": ", why, ": the file is damaged; copy or write it again, or leave it out"));
}

// What is not compressed has been looked at when it was opened.
absl::Status RecordReader::NoRecords() const {
  return absl::InvalidArgumentError(absl::StrCat(
      input_->path(),
      " is no TFRecord file: what is compressed in it does not begin with the header of a record"));
}

absl::Status RecordReader::CutShort(uint64_t wanted, uint64_t there) const {
  return absl::DataLossError(absl::StrCat(Place(), ": the file is cut short: of ", wanted,
                                          " bytes, header and checksums included, ", there,
                                          " are there; copy or write it again, or leave it out"));
}

}  // namespace millrace
