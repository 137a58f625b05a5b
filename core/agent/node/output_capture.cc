#include "core/agent/node/output_capture.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr absl::Duration kMaxPause = absl::Seconds(1);
// The most reads that Finish() does from each pipe, which is more than a pipe holds. There is a
// limit because a process that left the node's group may go on writing.
constexpr int kMaxFinalReads = 64;

}  // namespace

OutputCapture::OutputCapture(EventLoop* loop, const std::string& log_path, Callbacks callbacks,
                             std::shared_ptr<LogCounts> counts)
    : loop_(loop),
      callbacks_(std::move(callbacks)),
      streams_{{.source = Source::kStdout}, {.source = Source::kStderr}},
      buffer_(kReadBytes),
      counts_(counts),
      file_(log_path, loop->mailbox(),
            {.on_drained =
                 [this, alive = std::weak_ptr<bool>(alive_)] {
                   if (!alive.expired()) OnDrained();
                 },
             .on_warning =
                 [this, alive = std::weak_ptr<bool>(alive_)](const std::string& text) {
                   if (!alive.expired()) callbacks_.on_warning(text);
                 }},
            std::move(counts)) {}

OutputCapture::~OutputCapture() {
  loop_->Cancel(&pause_timer_);
  for (Stream& stream : streams_) CloseStream(&stream);
}

absl::Status OutputCapture::Start(UniqueFd out, UniqueFd err) {
  streams_[0].fd = std::move(out);
  streams_[1].fd = std::move(err);
  for (Stream& stream : streams_) {
    MILLRACE_RETURN_IF_ERROR(
        loop_->Watch(stream.fd.get(), EPOLLIN, [this, &stream](uint32_t) { ReadSome(&stream); }));
  }
  return absl::OkStatus();
}

void OutputCapture::AddLine(absl::string_view line) {
  std::string text = ReplaceInvalidUtf8(line.substr(0, kMaxLineBytes));
  WriteFile(absl::StrCat(text, "\n"));
  if (callbacks_.on_bytes) callbacks_.on_bytes(Source::kStderr, absl::StrCat(text, "\n"));
  LineCutter(kMaxLineBytes, LineCutter::Return::kOverwrites)
      .Append(absl::StrCat(text, "\n"),
              [this](std::string cut) { EmitLine(Source::kStderr, std::move(cut)); });
}

void OutputCapture::Finish() {
  loop_->Cancel(&pause_timer_);
  for (Stream& stream : streams_) {
    for (int i = 0; i < kMaxFinalReads && stream.fd.valid() && ReadSome(&stream); ++i) {
    }
    CloseStream(&stream);
    stream.lines.Finish([&](std::string line) { EmitLine(stream.source, std::move(line)); });
  }
}

std::vector<std::string> OutputCapture::StderrTail() const { return {tail_.begin(), tail_.end()}; }

bool OutputCapture::ReadSome(Stream* stream) {
  const ssize_t got = read(stream->fd.get(), buffer_.data(), buffer_.size());
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) {
    CloseStream(stream);
    return false;
  }
  const absl::string_view bytes(buffer_.data(), static_cast<size_t>(got));
  WriteFile(bytes);
  if (callbacks_.on_bytes) callbacks_.on_bytes(stream->source, bytes);
  stream->lines.Append(bytes, [&](std::string line) { EmitLine(stream->source, std::move(line)); });
  return true;
}

void OutputCapture::CloseStream(Stream* stream) {
  if (!stream->fd.valid()) return;
  loop_->Unwatch(stream->fd.get());
  stream->fd.reset();
}

void OutputCapture::EmitLine(Source source, std::string line) {
  if (source == Source::kStderr) {
    tail_.push_back(line);
    if (tail_.size() > kTailLines) tail_.pop_front();
  }
  callbacks_.on_line(source, std::move(line));
}

void OutputCapture::WriteFile(absl::string_view bytes) {
  if (dropping_) {
    dropped_bytes_ += bytes.size();
    if (counts_ != nullptr) counts_->lost_bytes.fetch_add(bytes.size());
    return;
  }
  if (file_.Append(bytes) > kMaxQueuedBytes && !paused_) SetPaused(true);
}

void OutputCapture::SetHeld(bool held) {
  held_ = held && !released_;
  UpdateReading();
}

void OutputCapture::Release() {
  released_ = true;
  SetHeld(false);
}

void OutputCapture::UpdateReading() {
  for (Stream& stream : streams_) {
    if (stream.fd.valid()) {
      loop_->SetEvents(stream.fd.get(), paused_ || held_ ? 0u : uint32_t{EPOLLIN});
    }
  }
}

void OutputCapture::SetPaused(bool paused) {
  paused_ = paused;
  UpdateReading();
  loop_->Cancel(&pause_timer_);
  if (!paused) return;
  pause_timer_ = loop_->After(kMaxPause, [this] {
    dropping_ = true;
    SetPaused(false);
  });
}

void OutputCapture::OnDrained() {
  if (paused_) SetPaused(false);
  if (!std::exchange(dropping_, false)) return;
  file_.Append(absl::StrCat("\n[millrace: the disk was too slow; ",
                            std::exchange(dropped_bytes_, 0), " bytes are missing here]\n"));
}

}  // namespace millrace
