#include "core/agent/node/control_channel.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kHeaderBytes = 4;
constexpr size_t kReadBytes = size_t{64} << 10;

uint32_t DecodeLength(const char* bytes) {
  const auto* b = reinterpret_cast<const unsigned char*>(bytes);
  return uint32_t{b[0]} | uint32_t{b[1]} << 8 | uint32_t{b[2]} << 16 | uint32_t{b[3]} << 24;
}

}  // namespace

std::string EncodeFrame(const Json& frame) {
  const std::string body = DumpJson(frame);
  const auto size = static_cast<uint32_t>(body.size());
  std::string bytes;
  bytes.reserve(kHeaderBytes + body.size());
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(size >> shift));
  bytes.append(body);
  return bytes;
}

absl::StatusOr<std::unique_ptr<ControlChannel>> ControlChannel::Create(EventLoop* loop,
                                                                       Callbacks callbacks) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create the control channel");
  }
  auto channel = std::unique_ptr<ControlChannel>(
      new ControlChannel(loop, UniqueFd(fds[0]), UniqueFd(fds[1]), std::move(callbacks)));
  MILLRACE_RETURN_IF_ERROR(loop->Watch(
      fds[0], EPOLLIN, [self = channel.get()](uint32_t events) { self->OnReady(events); }));
  return channel;
}

ControlChannel::ControlChannel(EventLoop* loop, UniqueFd fd, UniqueFd node_end, Callbacks callbacks)
    : loop_(loop),
      fd_(std::move(fd)),
      node_end_(std::move(node_end)),
      callbacks_(std::move(callbacks)) {}

ControlChannel::~ControlChannel() { Close(); }

void ControlChannel::Send(const Json& frame) {
  if (closed() || fail_timer_ != EventLoop::kNoTimer) return;
  const std::string bytes = EncodeFrame(frame);
  if (bytes.size() > kHeaderBytes + kMaxFrameBytes) {
    MILLRACE_LOG(WARNING) << "a frame of " << bytes.size() << " bytes for the node was dropped";
    return;
  }
  out_.append(bytes);
  UpdateEvents();
}

void ControlChannel::Drain() {
  while (!closed() && ReadSome()) {
  }
}

void ControlChannel::Close() {
  if (closed()) return;
  loop_->Cancel(&fail_timer_);
  loop_->Unwatch(fd_.get());
  fd_.reset();
  in_ = std::string();
  out_ = std::string();
  out_start_ = 0;
}

void ControlChannel::OnReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) WriteSome();
  if (!closed() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ReadSome();
  if (!closed()) UpdateEvents();
}

bool ControlChannel::ReadSome() {
  const size_t size = in_.size();
  in_.resize(size + kReadBytes);
  const ssize_t got = recv(fd_.get(), in_.data() + size, kReadBytes, MSG_DONTWAIT);
  const int error = errno;
  in_.resize(size + static_cast<size_t>(got > 0 ? got : 0));
  if (got < 0 && (error == EAGAIN || error == EINTR)) return error == EINTR;
  if (got <= 0) {
    // The node's own end; a program that is plain from the start closes it when it ends.
    MILLRACE_LOG(DEBUG) << "the node closed its control channel";
    Close();
    callbacks_.on_closed();
    return false;
  }
  HandleFrames();
  return !closed();
}

void ControlChannel::HandleFrames() {
  size_t start = 0;
  while (!closed() && in_.size() - start >= kHeaderBytes) {
    const uint32_t size = DecodeLength(in_.data() + start);
    if (size > kMaxFrameBytes) {
      Fail(absl::StrCat("a frame of ", size, " bytes; at most ", kMaxFrameBytes, " are allowed"));
      return;
    }
    if (in_.size() - start - kHeaderBytes < size) break;
    const absl::string_view body = absl::string_view(in_).substr(start + kHeaderBytes, size);
    const absl::StatusOr<Json> frame = ParseJson(body, {.max_bytes = kMaxFrameBytes});
    start += kHeaderBytes + size;
    if (!frame.ok()) {
      Fail(frame.status().message());
      return;
    }
    if (!frame->is_object()) {
      Fail(absl::StrCat("a frame must hold an object, found ", JsonTypeName(*frame)));
      return;
    }
    callbacks_.on_frame(*frame);
  }
  if (!closed()) in_.erase(0, start);
}

void ControlChannel::WriteSome() {
  while (unsent_bytes() > 0) {
    const ssize_t sent =
        send(fd_.get(), out_.data() + out_start_, unsent_bytes(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;  // EAGAIN; a dead peer shows itself to the reader, with what it wrote last
    out_start_ += static_cast<size_t>(sent);
  }
  if (out_start_ == out_.size()) {
    out_.clear();
    out_start_ = 0;
  } else if (out_start_ > kReadBytes) {
    out_.erase(0, out_start_);
    out_start_ = 0;
  }
}

void ControlChannel::UpdateEvents() {
  if (unsent_bytes() > 0) WriteSome();
  if (unsent_bytes() > kMaxUnsentBytes) {
    // Not from within Send(): its caller does not expect on_closed().
    loop_->SetEvents(fd_.get(), 0);
    if (fail_timer_ == EventLoop::kNoTimer) {
      fail_timer_ = loop_->After(absl::ZeroDuration(),
                                 [this] { Fail("the node does not read what it is sent"); });
    }
    return;
  }
  loop_->SetEvents(fd_.get(), (unsent_bytes() > kPauseReadingBytes ? 0u : uint32_t{EPOLLIN}) |
                                  (unsent_bytes() > 0 ? uint32_t{EPOLLOUT} : 0u));
}

void ControlChannel::Fail(absl::string_view why) {
  MILLRACE_LOG(WARNING) << "the node broke the control protocol (" << Ellipsize(why, 300)
                        << "); its control channel is closed, its process goes on";
  Close();
  callbacks_.on_closed();
}

}  // namespace millrace
