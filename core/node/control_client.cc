#include "core/node/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kPrefixBytes = 4;
constexpr size_t kReadBytes = size_t{64} << 10;

absl::Status AgentGone() { return absl::UnavailableError("the agent is gone"); }

// Length and text of `frame`. INVALID_ARGUMENT if it is too large.
absl::StatusOr<std::string> EncodeFrame(const Json& frame) {
  const std::string text = DumpJson(frame);
  if (text.size() > kMaxControlFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a control frame of ", text.size(), " bytes is over the limit of ", kMaxControlFrameBytes));
  }
  std::string encoded;
  encoded.reserve(kPrefixBytes + text.size());
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    encoded.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xff));
  }
  return encoded += text;
}

size_t DecodePrefix(const char* bytes) {
  size_t size = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    size |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return size;
}

absl::Status ErrorOf(const Json& frame) {
  const Json& error = frame["error"];
  return absl::Status(
      StatusCodeFromName(GetStringOr(error, "code", "UNKNOWN").value_or("UNKNOWN")),
      GetStringOr(error, "message", "").value_or("the agent's error has no message"));
}

}  // namespace

absl::Status CheckControlSocket(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t size = sizeof(domain);
  sockaddr_storage peer = {};
  socklen_t peer_size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
      ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("descriptor ", fd, " is not the control channel of an agent"));
}

// ---- Any thread ---------------------------------------------------------------------------------

class ControlClient::Visit {
 public:
  explicit Visit(ControlClient* client) : client_(client) { ++client_->visits_; }
  ~Visit() {
    if (--client_->visits_ == 0) client_->idle_.SignalAll();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  ControlClient* const client_;
};

absl::StatusOr<std::unique_ptr<ControlClient>> ControlClient::Start(UniqueFd fd,
                                                                    Handlers handlers) {
  MILLRACE_RETURN_IF_ERROR(CheckControlSocket(fd.get()));
  if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "marking the control channel close-on-exec");
  }
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return absl::ErrnoToStatus(errno, "cannot create an eventfd");
  // No make_unique: the constructor is private.
  std::unique_ptr<ControlClient> client(
      new ControlClient(std::move(fd), std::move(wake), std::move(handlers)));
  MILLRACE_ASSIGN_OR_RETURN(client->thread_,
                            Thread::Start("mr-control", [self = client.get()] { self->Run(); }));
  return client;
}

ControlClient::ControlClient(UniqueFd fd, UniqueFd wake, Handlers handlers)
    : fd_(std::move(fd)), wake_(std::move(wake)), handlers_(std::move(handlers)) {}

ControlClient::~ControlClient() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  FailAll(absl::CancelledError("the control channel was closed"));
  Wake();
  thread_.Join();
  MutexLock lock(&mu_);
  while (visits_ > 0) idle_.Wait(&mu_);  // they are woken, and wait for nothing but mu_
}

absl::StatusOr<Json> ControlClient::Call(absl::string_view method, const Json& params,
                                         absl::Duration timeout) {
  return Call(method, params, timeout, /*for_others=*/false);
}

absl::StatusOr<Json> ControlClient::CallAndWait(absl::string_view method, const Json& params,
                                                absl::Duration timeout) {
  return Call(method, params, timeout, /*for_others=*/true);
}

absl::StatusOr<Json> ControlClient::Call(absl::string_view method, const Json& params,
                                         absl::Duration timeout, bool for_others) {
  const Deadline deadline(timeout);
  const uint64_t id = next_id_.fetch_add(1, std::memory_order_relaxed);
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string frame,
      EncodeFrame(Json{{"id", id}, {"method", std::string(method)}, {"params", params}}));
  const auto late = [&] {
    return absl::DeadlineExceededError(absl::StrCat("the agent did not answer ", method, " within ",
                                                    absl::FormatDuration(timeout)));
  };
  MutexLock lock(&mu_);
  const Visit visit(this);
  while (closed_.ok() && !HasRoom(frame.size())) {
    if (room_.WaitWithTimeout(&mu_, deadline.Left()) && !HasRoom(frame.size())) return late();
  }
  if (!closed_.ok()) return closed_;
  if (for_others && !waits_ended_.ok()) return waits_ended_;
  Waiter waiter;
  waiter.for_others = for_others;
  waiting_[id] = &waiter;
  Enqueue(frame);
  while (!waiter.done) {
    if (waiter.changed.WaitWithTimeout(&mu_, deadline.Left()) && !waiter.done) {
      waiting_.erase(id);
      return late();
    }
  }
  if (!waiter.status.ok()) return waiter.status;
  return std::move(waiter.result);
}

void ControlClient::EndWaits(const absl::Status& why) {
  MutexLock lock(&mu_);
  if (!waits_ended_.ok()) return;
  waits_ended_ = why;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Waiter* const waiter = it->second;
    if (!waiter->for_others) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    waiter->status = why;
    waiter->done = true;
    waiter->changed.SignalAll();
  }
}

absl::Status ControlClient::Notify(absl::string_view method, const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string frame,
                            EncodeFrame(Json{{"method", std::string(method)}, {"params", params}}));
  MutexLock lock(&mu_);
  if (!closed_.ok()) return closed_;
  if (!HasRoom(frame.size())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the agent does not read: ", method, " was not sent"));
  }
  Enqueue(frame);
  return absl::OkStatus();
}

void ControlClient::StartTicks(absl::Duration interval) {
  {
    MutexLock lock(&mu_);
    tick_interval_ = std::max(interval, absl::Milliseconds(1));
  }
  Wake();
}

bool ControlClient::Flush(absl::Duration timeout) {
  const Deadline deadline(timeout);
  MutexLock lock(&mu_);
  const Visit visit(this);
  while (closed_.ok() && !out_.empty()) {
    if (room_.WaitWithTimeout(&mu_, deadline.Left())) break;
  }
  return out_.empty() && closed_.ok();
}

bool ControlClient::HasRoom(size_t bytes) const {
  return out_.size() - out_start_ + bytes <= kMaxUnsentBytes;
}

void ControlClient::Enqueue(absl::string_view frame) {
  const bool idle = out_.empty();
  out_.append(frame.data(), frame.size());
  if (!idle) return;  // the channel's thread is at it
  WriteSome();
  if (!out_.empty()) Wake();
}

void ControlClient::WriteSome() {
  while (out_start_ < out_.size()) {
    const ssize_t sent = ::send(fd_.get(), out_.data() + out_start_, out_.size() - out_start_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      out_start_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      // What the agent wrote before is still read; then the channel's thread sees the end, tells
      // the owner, and fails the calls, in this order.
      ::shutdown(fd_.get(), SHUT_RDWR);
      out_start_ = out_.size();
    }
  }
  if (out_start_ == out_.size()) {
    out_.clear();
    out_start_ = 0;
  } else if (out_start_ > out_.size() / 2) {
    out_.erase(0, out_start_);
    out_start_ = 0;
  }
  room_.SignalAll();
}

void ControlClient::FailAll(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (closed_.ok()) closed_ = status;
  for (auto& [id, waiter] : waiting_) {
    waiter->status = status;
    waiter->done = true;
    waiter->changed.SignalAll();
  }
  waiting_.clear();
  room_.SignalAll();
}

void ControlClient::Wake() {
  const uint64_t one = 1;
  // Fails only if the counter is at its end, and then the thread is awake.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

// ---- The channel's thread -----------------------------------------------------------------------

void ControlClient::Run() {
  absl::Status end;
  absl::Duration ticked = RealClock()->SteadyNow();
  while (end.ok()) {
    bool unsent = false;
    absl::Duration due;
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      unsent = !out_.empty();
      due = ticked + tick_interval_;
    }
    if (const absl::Duration now = RealClock()->SteadyNow(); now >= due) {
      ticked = now;
      if (handlers_.on_tick) handlers_.on_tick(*this);
      // Ticks that take longer than their interval must not keep it from reading.
    }
    end = RunTurn(unsent, due);
  }
  bool stopping = false;
  {
    MutexLock lock(&mu_);
    stopping = stopping_;
  }
  if (!stopping && handlers_.on_closed) handlers_.on_closed(end);
  FailAll(end);
}

absl::Status ControlClient::RunTurn(bool unsent, absl::Duration due) {
  constexpr absl::Duration kLongestPoll = absl::Hours(1);
  const absl::Duration wait = std::min(due - RealClock()->SteadyNow(), kLongestPoll);
  const int timeout_ms =
      static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  pollfd fds[2] = {{fd_.get(), static_cast<short>(unsent ? POLLIN | POLLOUT : POLLIN), 0},
                   {wake_.get(), POLLIN, 0}};
  if (::poll(fds, 2, std::max(timeout_ms, 0)) < 0) {
    if (errno == EINTR) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "waiting at the control channel");
  }
  if (fds[1].revents != 0) {
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
  }
  if ((fds[0].revents & POLLOUT) != 0) {
    MutexLock lock(&mu_);
    WriteSome();
  }
  if ((fds[0].revents & ~POLLOUT) != 0) return ReadSome();
  return absl::OkStatus();
}

absl::Status ControlClient::ReadSome() {
  char bytes[kReadBytes];
  const ssize_t got = ::recv(fd_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got > 0) {
    in_.append(bytes, static_cast<size_t>(got));
    return HandleFrames();
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return absl::OkStatus();
  }
  // ECONNRESET: it ended without having read all that was sent to it.
  if (got < 0 && errno != ECONNRESET) {
    return absl::UnavailableError(
        absl::StrCat("reading the control channel: ", std::strerror(errno)));
  }
  return in_.empty() ? AgentGone() : absl::DataLossError("the agent ended inside a control frame");
}

absl::Status ControlClient::HandleFrames() {
  size_t start = 0;
  while (in_.size() - start >= kPrefixBytes) {
    const size_t size = DecodePrefix(in_.data() + start);
    if (size > kMaxControlFrameBytes) {
      return absl::DataLossError(absl::StrCat("the agent sent a control frame of ", size,
                                              " bytes, which is over the limit"));
    }
    if (in_.size() - start - kPrefixBytes < size) break;
    const absl::StatusOr<Json> frame =
        ParseJson(absl::string_view(in_).substr(start + kPrefixBytes, size));
    if (!frame.ok() || !frame->is_object()) {
      return absl::DataLossError("the agent sent a control frame that is no JSON object");
    }
    start += kPrefixBytes + size;
    Dispatch(*frame);
  }
  in_.erase(0, start);
  return absl::OkStatus();
}

void ControlClient::Dispatch(const Json& frame) {
  if (frame.contains("push")) {
    if (handlers_.on_push) handlers_.on_push(*this, frame);
    return;
  }
  const absl::StatusOr<int64_t> id = GetInt(frame, "id");
  if (!id.ok()) {
    MILLRACE_LOG(WARNING) << "control frame from the agent ignored: " << id.status().message();
    return;
  }
  absl::Status status;
  Json result;
  if (frame.contains("error")) {
    status = ErrorOf(frame);
  } else if (frame.contains("result")) {
    result = frame["result"];
  } else {
    status = absl::InternalError("the agent's reply has neither result nor error");
  }
  MutexLock lock(&mu_);
  const auto found = waiting_.find(static_cast<uint64_t>(*id));
  if (found == waiting_.end()) return;  // its caller gave up
  Waiter* const waiter = found->second;
  waiting_.erase(found);
  waiter->status = std::move(status);
  waiter->result = std::move(result);
  waiter->done = true;
  waiter->changed.SignalAll();
}

}  // namespace millrace
