// File: dashboard/model/log_ring.h
//
// The last lines of all nodes, merged in the order in which they came, and the ones of them that a
// reader asks for.
//
// Defines: LogLevel, LogLine, LogRing, LogQuery, LogFilter.
//
//   LogFilter filter;
//   filter.SetQuery({.text = "loss", .min_level = LogLevel::kInfo});
//   filter.Update(ring, /*max_lines=*/100000);             // each frame: a slice of the work
//   for (uint64_t number : filter.matches()) Draw(ring.line(number));
//
// Thread safety: not thread-safe; const methods may run concurrently.

#ifndef DASHBOARD_MODEL_LOG_RING_H_
#define DASHBOARD_MODEL_LOG_RING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// "D", "I", "W", "E".
[[nodiscard]] absl::string_view LogLevelLetter(LogLevel level);
// What a line says of itself ("E0102 ...", "[warning]", "ERROR:", "Traceback"); stderr without a
// word is kInfo as stdout: many programs log there.
[[nodiscard]] LogLevel GuessLogLevel(absl::string_view line);

enum class LogSource : uint8_t { kStdout, kStderr, kAgent };

struct LogLine {
  absl::Time time;
  int executor_id = 0;
  uint32_t attempt = 0;
  LogSource source = LogSource::kStdout;
  LogLevel level = LogLevel::kInfo;
  absl::string_view text;  // valid until the ring changes
};

class LogRing {
 public:
  // The oldest lines go when there are more than `max_lines` or `max_bytes` of text.
  explicit LogRing(size_t max_lines = 1'000'000, size_t max_bytes = size_t{256} << 20);

  void Add(const LogLine& line);
  void AddDropped(uint64_t lines) { dropped_ += lines; }
  void Clear();

  // Lines are numbered from 0 in the order in which they came; [first(), end()) are kept.
  [[nodiscard]] uint64_t first() const { return first_; }
  [[nodiscard]] uint64_t end() const { return end_; }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(end_ - first_); }
  // first() <= number < end().
  [[nodiscard]] LogLine line(uint64_t number) const;
  // The first line at or after `time`; end() if there is none.
  [[nodiscard]] uint64_t LowerBound(absl::Time time) const;
  // That were lost on their way here.
  [[nodiscard]] uint64_t dropped() const { return dropped_; }
  [[nodiscard]] size_t memory_bytes() const;

 private:
  static constexpr size_t kBlockLines = 4096;
  struct Entry {
    int64_t time_us = 0;
    uint32_t offset = 0;
    uint32_t length = 0;
    int32_t executor_id = 0;
    uint32_t attempt = 0;
    LogSource source = LogSource::kStdout;
    LogLevel level = LogLevel::kInfo;
  };
  struct Block {
    std::vector<Entry> entries;
    std::string text;
  };

  const size_t max_lines_;
  const size_t max_bytes_;
  std::deque<Block> blocks_;  // all but the last are full
  uint64_t first_block_ = 0;  // number of the first line of blocks_.front()
  uint64_t first_ = 0;
  uint64_t end_ = 0;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
};

struct LogQuery {
  std::string text;  // contained, ASCII case ignored; empty: all
  LogLevel min_level = LogLevel::kDebug;
  int executor_id = -1;  // -1: all nodes
  bool agents = true;    // lines of the agents too
  friend bool operator==(const LogQuery&, const LogQuery&) = default;
};

// The numbers of the lines that match, kept up to date as lines come and go.
class LogFilter {
 public:
  // Begins anew if the query is another one.
  void SetQuery(const LogQuery& query);
  [[nodiscard]] const LogQuery& query() const { return query_; }
  // Forgets what it has found: another ring comes, or the same one was cleared.
  void Reset();
  // Looks at no more than `max_lines` lines. Returns whether all have been looked at.
  bool Update(const LogRing& ring, size_t max_lines);
  // Ascending.
  [[nodiscard]] const std::deque<uint64_t>& matches() const { return matches_; }
  // The place in matches() of the first one that is `number` or later.
  [[nodiscard]] size_t LowerBound(uint64_t number) const;

 private:
  LogQuery query_;
  uint64_t next_ = 0;
  std::deque<uint64_t> matches_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_LOG_RING_H_
