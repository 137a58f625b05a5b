#include "core/agent/node/log_relay.h"

#include <algorithm>
#include <utility>

namespace millrace {

LogRelay::LogRelay(EventLoop* loop, Options options, Sink sink)
    : loop_(loop),
      options_(options),
      sink_(std::move(sink)),
      tokens_(static_cast<double>(options.burst_bytes)),
      refilled_(options.clock->SteadyNow()) {}

LogRelay::~LogRelay() { loop_->Cancel(&timer_); }

void LogRelay::set_rate(int64_t bytes_per_second) {
  options_.bytes_per_second = bytes_per_second;
  options_.burst_bytes = 4 * bytes_per_second;
  tokens_ = static_cast<double>(options_.burst_bytes);
}

bool LogRelay::TakeTokens(int64_t bytes) {
  const absl::Duration now = options_.clock->SteadyNow();
  tokens_ = std::min(static_cast<double>(options_.burst_bytes),
                     tokens_ + absl::ToDoubleSeconds(now - refilled_) *
                                   static_cast<double>(options_.bytes_per_second));
  refilled_ = now;
  if (tokens_ < static_cast<double>(bytes)) return false;
  tokens_ -= static_cast<double>(bytes);
  return true;
}

void LogRelay::Add(v1::LogLines::Source source, std::string line) {
  // The agent's own few lines are never left out: what a node floods its log with must not hide
  // that the log's disk is full. One byte more, so that empty lines are not free.
  if (source != v1::LogLines::SOURCE_AGENT && !TakeTokens(static_cast<int64_t>(line.size()) + 1)) {
    ++dropped_;
  } else {
    if (batch_.lines_size() > 0 && batch_.source() != source) Flush();
    batch_.set_source(source);
    batch_.add_lines(std::move(line));
    // The first line of stderr after a pause may be the first sign of the node's end. It is sent at
    // once, so that the coordinator sees which of several nodes began to fail first.
    const bool at_once = source == v1::LogLines::SOURCE_STDERR &&
                         options_.clock->SteadyNow() - stderr_flushed_ >= options_.delay;
    if (at_once || batch_.lines_size() >= options_.max_lines) {
      Flush();
      return;
    }
  }
  if (timer_ == EventLoop::kNoTimer) {
    timer_ = loop_->After(options_.delay, [this] {
      timer_ = EventLoop::kNoTimer;
      Flush();
    });
  }
}

void LogRelay::Flush() {
  loop_->Cancel(&timer_);
  if (batch_.source() == v1::LogLines::SOURCE_STDERR) stderr_flushed_ = options_.clock->SteadyNow();
  if (batch_.lines_size() == 0 && dropped_ == 0) return;
  if (batch_.source() == v1::LogLines::SOURCE_UNSPECIFIED) {
    batch_.set_source(v1::LogLines::SOURCE_AGENT);  // only a count of dropped lines
  }
  batch_.set_attempt(attempt_);
  batch_.set_dropped(dropped_);
  if (sink_(batch_)) {
    dropped_ = 0;
  } else {
    dropped_ += static_cast<uint64_t>(batch_.lines_size());
  }
  batch_.Clear();
}

}  // namespace millrace
