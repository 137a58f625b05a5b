#include "dashboard/model/log_ring.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace millrace::dashboard {
namespace {

bool ContainsIgnoreCase(absl::string_view text, absl::string_view lower_case) {
  if (lower_case.empty()) return true;
  const auto found = std::search(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                                 [](char a, char b) { return absl::ascii_tolower(a) == b; });
  return found != text.end();
}

// A letter and a digit, as glog begins its lines: "E0102 10:41:07".
bool GlogLevel(absl::string_view line, LogLevel* level) {
  if (line.size() < 5) return false;
  for (int i = 1; i < 5; ++i) {
    if (!absl::ascii_isdigit(line[i])) return false;
  }
  switch (line[0]) {
    case 'I':
      *level = LogLevel::kInfo;
      return true;
    case 'W':
      *level = LogLevel::kWarning;
      return true;
    case 'E':
    case 'F':
      *level = LogLevel::kError;
      return true;
    default:
      return false;
  }
}

bool IsWordAt(absl::string_view text, size_t at, absl::string_view word) {
  const bool begins = at == 0 || !absl::ascii_isalnum(text[at - 1]);
  const size_t end = at + word.size();
  return begins && (end == text.size() || !absl::ascii_isalnum(text[end]));
}

bool HasWord(absl::string_view text, absl::string_view word) {
  for (size_t at = 0; at + word.size() <= text.size(); ++at) {
    if (absl::EqualsIgnoreCase(text.substr(at, word.size()), word) && IsWordAt(text, at, word)) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::string_view LogLevelLetter(LogLevel level) {
  constexpr absl::string_view kLetters[] = {"D", "I", "W", "E"};
  return kLetters[static_cast<int>(level)];
}

LogLevel GuessLogLevel(absl::string_view line) {
  LogLevel level = LogLevel::kInfo;
  if (GlogLevel(line, &level)) return level;
  // What a line says of itself stands near its beginning, after time and place.
  const absl::string_view head = line.substr(0, 64);
  for (const absl::string_view word : {"error", "fatal", "critical", "traceback", "panic"}) {
    if (HasWord(head, word)) return LogLevel::kError;
  }
  if (HasWord(head, "warning") || HasWord(head, "warn")) return LogLevel::kWarning;
  if (HasWord(head, "debug") || HasWord(head, "trace")) return LogLevel::kDebug;
  return level;
}

LogRing::LogRing(size_t max_lines, size_t max_bytes)
    : max_lines_(std::max<size_t>(max_lines, 1)), max_bytes_(max_bytes) {}

void LogRing::Add(const LogLine& line) {
  if (blocks_.empty() || blocks_.back().entries.size() == kBlockLines) blocks_.emplace_back();
  Block& block = blocks_.back();
  Entry& entry = block.entries.emplace_back();
  entry.time_us = absl::ToUnixMicros(line.time);
  entry.offset = static_cast<uint32_t>(block.text.size());
  entry.length = static_cast<uint32_t>(std::min<size_t>(line.text.size(), 64 << 10));
  entry.executor_id = line.executor_id;
  entry.attempt = line.attempt;
  entry.source = line.source;
  entry.level = line.level;
  block.text.append(line.text.data(), entry.length);
  bytes_ += entry.length;
  ++end_;
  while (end_ - first_ > max_lines_) {
    ++first_;
    if (first_ - first_block_ == kBlockLines) {
      bytes_ -= blocks_.front().text.size();
      blocks_.pop_front();
      first_block_ = first_;
    }
  }
  while (bytes_ > max_bytes_ && blocks_.size() > 1) {
    bytes_ -= blocks_.front().text.size();
    first_block_ += blocks_.front().entries.size();
    first_ = first_block_;
    blocks_.pop_front();
  }
}

void LogRing::Clear() {
  blocks_.clear();
  first_ = first_block_ = end_;
  bytes_ = 0;
  dropped_ = 0;
}

LogLine LogRing::line(uint64_t number) const {
  const uint64_t at = number - first_block_;
  const Block& block = blocks_[at / kBlockLines];
  const Entry& entry = block.entries[at % kBlockLines];
  LogLine line;
  line.time = absl::FromUnixMicros(entry.time_us);
  line.executor_id = entry.executor_id;
  line.attempt = entry.attempt;
  line.source = entry.source;
  line.level = entry.level;
  line.text = absl::string_view(block.text).substr(entry.offset, entry.length);
  return line;
}

uint64_t LogRing::LowerBound(absl::Time time) const {
  uint64_t low = first_;
  uint64_t high = end_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (line(middle).time < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

size_t LogRing::memory_bytes() const {
  size_t bytes = 0;
  for (const Block& block : blocks_) {
    bytes += block.text.capacity() + block.entries.size() * sizeof(Entry);
  }
  return bytes;
}

void LogFilter::SetQuery(const LogQuery& query) {
  if (query == query_) return;
  query_ = query;
  Reset();
}

void LogFilter::Reset() {
  next_ = 0;
  matches_.clear();
}

bool LogFilter::Update(const LogRing& ring, size_t max_lines) {
  if (next_ > ring.end()) Reset();
  while (!matches_.empty() && matches_.front() < ring.first()) matches_.pop_front();
  next_ = std::max(next_, ring.first());
  const std::string text = absl::AsciiStrToLower(query_.text);
  const uint64_t end = std::min<uint64_t>(ring.end(), next_ + max_lines);
  for (; next_ < end; ++next_) {
    const LogLine line = ring.line(next_);
    if (line.level < query_.min_level) continue;
    if (query_.executor_id >= 0 && line.executor_id != query_.executor_id) continue;
    if (!query_.agents && line.source == LogSource::kAgent) continue;
    if (ContainsIgnoreCase(line.text, text)) matches_.push_back(next_);
  }
  return next_ == ring.end();
}

size_t LogFilter::LowerBound(uint64_t number) const {
  return static_cast<size_t>(std::lower_bound(matches_.begin(), matches_.end(), number) -
                             matches_.begin());
}

}  // namespace millrace::dashboard
