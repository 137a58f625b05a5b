#include "core/agent/link/output_sender.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kMaxChunkBytes = size_t{32} << 10;

}  // namespace

OutputSender::OutputSender(int64_t window_bytes, uint32_t attempt, Hooks hooks)
    : window_(static_cast<uint64_t>(window_bytes)), attempt_(attempt), hooks_(std::move(hooks)) {}

void OutputSender::Push(Chunk chunk) {
  chunk.offset = added_;
  added_ += SizeOf(chunk);
  chunks_.push_back(std::move(chunk));
}

void OutputSender::Add(v1::LogLines::Source source, absl::string_view bytes) {
  if (ended_) return;
  while (!bytes.empty()) {
    const absl::string_view part = bytes.substr(0, kMaxChunkBytes);
    // Little lines that wait go together.
    if (sent_ < chunks_.size() && chunks_.back().source == source &&
        chunks_.back().bytes.size() + part.size() <= kMaxChunkBytes) {
      chunks_.back().bytes.append(part.data(), part.size());
      added_ += part.size();
    } else {
      Push({.source = source, .bytes = std::string(part)});
    }
    bytes.remove_prefix(part.size());
  }
  Pump();
  UpdateHold();
}

void OutputSender::End() {
  if (std::exchange(ended_, true)) return;
  Push({.end = true});
  Pump();
}

void OutputSender::OnCredit(uint64_t offset) {
  if (offset > added_ || offset <= taken_) return;  // of nothing that was sent, or known already
  taken_ = offset;
  while (!chunks_.empty() && chunks_.front().offset + SizeOf(chunks_.front()) <= taken_) {
    chunks_.pop_front();
    sent_ -= std::min<size_t>(sent_, 1);
  }
  Pump();
  UpdateHold();
  if (ended_ && chunks_.empty() && !std::exchange(done_, true)) hooks_.on_done();
}

void OutputSender::OnRegistered() {
  sent_ = 0;
  Pump();
}

void OutputSender::Pump() {
  while (sent_ < chunks_.size()) {
    const Chunk& chunk = chunks_[sent_];
    // One chunk may always go, whatever the window.
    if (sent_ > 0 && chunk.offset + SizeOf(chunk) > taken_ + window_) return;
    v1::AgentMessage message;
    v1::OutputData& data = *message.mutable_output();
    data.set_attempt(attempt_);
    data.set_source(chunk.source);
    data.set_offset(chunk.offset);
    data.set_data(chunk.bytes);
    data.set_end(chunk.end);
    if (!hooks_.send(std::move(message))) return;
    ++sent_;
  }
}

void OutputSender::UpdateHold() {
  const bool hold = !ended_ && added_ - taken_ >= 2 * window_;
  if (std::exchange(held_, hold) != hold) hooks_.hold(hold);
}

}  // namespace millrace
