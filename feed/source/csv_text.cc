#include "feed/source/csv_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kReadBytes = 256 * 1024;
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

absl::StatusOr<CsvText> CsvText::OpenFile(const std::string& path) {
  CsvText text;
  text.name_ = path;
  text.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!text.fd_.valid() || ::fstat(text.fd_.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  text.fingerprint_ = {info.st_size,
                       int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
  return text;
}

CsvText CsvText::FromMemory(std::string name, std::shared_ptr<const std::string> text) {
  CsvText result;
  result.name_ = std::move(name);
  result.text_ = std::move(text);
  return result;
}

absl::StatusOr<size_t> CsvText::Read(int64_t offset, char* to, size_t size) const {
  if (text_ != nullptr) {
    if (offset >= static_cast<int64_t>(text_->size())) return 0;
    return text_->copy(to, size, static_cast<size_t>(offset));
  }
  while (true) {
    const ssize_t got = ::pread(fd_.get(), to, size, offset);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return absl::ErrnoToStatus(errno, absl::StrCat("reading ", name_));
  }
}

absl::Status CsvRecordReader::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(text_.name(), ":", line_, ": ", message));
}

// Reads more behind end_; false if there is nothing more.
absl::StatusOr<bool> CsvRecordReader::Fill() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  // A long record doubles the buffer; short ones fill it again and again.
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(std::max(2 * end_, end_ + kReadBytes));
  MILLRACE_ASSIGN_OR_RETURN(const size_t got,
                            text_.Read(offset_ + static_cast<int64_t>(end_), buffer_.data() + end_,
                                       buffer_.size() - end_));
  end_ += got;
  at_end_ = got == 0;
  return got > 0;
}

// Moves begin_ behind empty lines and the byte order mark; false at the end of the text.
absl::StatusOr<bool> CsvRecordReader::SkipToRecord() {
  while (true) {
    while (end_ - begin_ < 3 && !at_end_) {
      MILLRACE_RETURN_IF_ERROR(Fill());
    }
    const absl::string_view rest(buffer_.data() + begin_, end_ - begin_);
    if (rest.empty()) return false;
    size_t skip = 0;
    if (offset_ == 0 && absl::StartsWith(rest, kByteOrderMark)) {
      skip = kByteOrderMark.size();
    } else if (rest[0] == '\n') {
      skip = 1;
    } else if (absl::StartsWith(rest, "\r\n")) {
      skip = 2;
    } else if (rest == "\r") {
      skip = 1;
    } else {
      return true;
    }
    if (rest[skip - 1] == '\n') ++line_;
    begin_ += skip;
    offset_ += static_cast<int64_t>(skip);
  }
}

void CsvRecordReader::EndField(size_t end) {
  field_.end = end;
  fields_.push_back(field_);
}

// Takes what is there of a quoted field, up to the next quote, at once.
void CsvRecordReader::SkipQuoted() {
  const size_t most = kMaxCsvRecordBytes + 1 - scanned_;
  const char* const begin = buffer_.data() + begin_ + scanned_;
  const char* const limit = begin + std::min(end_ - begin_ - scanned_, most);
  const auto find = [limit](const char* from, char what) {
    const void* const found = std::memchr(from, what, static_cast<size_t>(limit - from));
    return found == nullptr ? limit : static_cast<const char*>(found);
  };
  const char* const quote = find(begin, '"');
  for (const char* line = find(begin, '\n'); line < quote; line = find(line + 1, '\n')) ++lines_;
  scanned_ += static_cast<size_t>(quote - begin);
}

// Takes the byte at scanned_; false if it may not be there.
bool CsvRecordReader::Step(char c) {
  switch (state_) {
    case State::kFieldStart:
      field_ = {scanned_, scanned_, false};
      if (c == '"') {
        field_.begin = scanned_ + 1;
        state_ = State::kQuoted;
        return true;
      }
      state_ = State::kPlain;
      [[fallthrough]];
    case State::kPlain:
      if (c == delimiter_) {
        EndField(scanned_);
        state_ = State::kFieldStart;
      } else if (c == '\n') {
        const bool cr = scanned_ > field_.begin && buffer_[begin_ + scanned_ - 1] == '\r';
        EndField(scanned_ - (cr ? 1 : 0));
        state_ = State::kDone;
      }
      return true;
    case State::kQuoted:
      if (c == '"') {
        field_.end = scanned_;
        state_ = State::kQuoteInQuoted;
      }
      return true;
    case State::kQuoteInQuoted:
      if (c == '"') {
        if (field_.end + 1 != scanned_) break;
        field_.escapes = true;
        state_ = State::kQuoted;
      } else if (c == delimiter_) {
        EndField(field_.end);
        state_ = State::kFieldStart;
      } else if (c == '\n') {
        EndField(field_.end);
        state_ = State::kDone;
      } else if (c != '\r') {
        break;
      }
      return true;
    case State::kDone:
      return true;
  }
  return false;
}

// The text ended without a line end.
void CsvRecordReader::EndOfText() {
  if (state_ == State::kFieldStart) field_ = {scanned_, scanned_, false};
  if (state_ == State::kQuoteInQuoted) {
    EndField(field_.end);
  } else {
    const bool cr = scanned_ > field_.begin && buffer_[begin_ + scanned_ - 1] == '\r';
    EndField(scanned_ - (cr ? 1 : 0));
  }
  state_ = State::kDone;
}

absl::Status CsvRecordReader::Scan() {
  state_ = State::kFieldStart;
  scanned_ = 0;
  lines_ = 0;
  fields_.clear();
  while (state_ != State::kDone) {
    if (begin_ + scanned_ == end_) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) {
        if (state_ == State::kQuoted) return Error("a quote without an end");
        EndOfText();
        break;
      }
    }
    const char c = buffer_[begin_ + scanned_];
    if (state_ == State::kQuoted && c != '"') {
      SkipQuoted();
    } else {
      if (c == '\n') ++lines_;
      if (!Step(c)) return Error("text behind a quoted field; quotes within one are doubled");
      ++scanned_;
    }
    if (scanned_ > kMaxCsvRecordBytes) {
      return Error(absl::StrCat("a record of more than ", kMaxCsvRecordBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

// Makes doubled quotes single, in place.
void CsvRecordReader::Unescape(Extent* extent) {
  char* const first = buffer_.data() + begin_;
  size_t to = extent->begin;
  for (size_t from = extent->begin; from < extent->end; ++from) {
    first[to++] = first[from];
    if (first[from] == '"') ++from;
  }
  extent->end = to;
}

absl::StatusOr<bool> CsvRecordReader::Next(CsvRecord* record) {
  MILLRACE_ASSIGN_OR_RETURN(const bool more, SkipToRecord());
  if (!more) return false;
  MILLRACE_RETURN_IF_ERROR(Scan());
  record->offset = offset_;
  record->line = line_;
  record->bytes = static_cast<int64_t>(scanned_);
  record->fields.clear();
  for (Extent& extent : fields_) {
    if (extent.escapes) Unescape(&extent);
    record->fields.emplace_back(buffer_.data() + begin_ + extent.begin, extent.end - extent.begin);
  }
  begin_ += scanned_;
  offset_ += static_cast<int64_t>(scanned_);
  line_ += lines_;
  return true;
}

}  // namespace millrace
