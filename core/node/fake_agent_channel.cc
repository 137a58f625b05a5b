#include "core/node/fake_agent_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/log.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

std::string ControlFrame(absl::string_view text) {
  std::string frame;
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xff));
  return frame.append(text.data(), text.size());
}

FakeAgentChannel::FakeAgentChannel() {
  int fds[2];
  MILLRACE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0) << errno;
  fd_.reset(fds[0]);
  node_end_.reset(fds[1]);
  thread_ = Thread("fake-agent", [this] { Run(); });
}

FakeAgentChannel::~FakeAgentChannel() {
  Close();
  thread_.Join();
}

void FakeAgentChannel::Answer(const std::string& method, AnswerFn answer) {
  MutexLock lock(&mu_);
  answers_[method] = std::move(answer);
}

void FakeAgentChannel::Reply(uint64_t id, const absl::StatusOr<Json>& outcome) {
  if (outcome.ok()) {
    SendFrame(Json{{"id", id}, {"result", *outcome}});
  } else {
    SendFrame(Json{{"id", id},
                   {"error",
                    {{"code", absl::StatusCodeToString(outcome.status().code())},
                     {"message", std::string(outcome.status().message())}}}});
  }
}

void FakeAgentChannel::SendFrame(const Json& frame) { SendBytes(ControlFrame(DumpJson(frame))); }

void FakeAgentChannel::SendBytes(absl::string_view bytes) {
  MutexLock lock(&write_mu_);
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // the node is gone: what a test expects shows elsewhere
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void FakeAgentChannel::Close() { ::shutdown(fd_.get(), SHUT_RDWR); }

FakeAgentChannel::Request FakeAgentChannel::WaitFor(const std::string& method, size_t count) {
  const absl::Time deadline = absl::Now() + kPatience;
  MutexLock lock(&mu_);
  while (true) {
    size_t seen = 0;
    for (const Request& request : requests_) {
      if (request.method == method && ++seen == count) return request;
    }
    const bool late = changed_.WaitWithDeadline(&mu_, deadline);
    MILLRACE_CHECK(!late) << "the node did not send " << method << ", only " << seen << " of "
                          << count;
  }
}

void FakeAgentChannel::WaitForEnd() {
  const absl::Time deadline = absl::Now() + kPatience;
  MutexLock lock(&mu_);
  while (!ended_) {
    const bool late = changed_.WaitWithDeadline(&mu_, deadline);
    MILLRACE_CHECK(!late) << "the node did not close the control channel";
  }
}

std::vector<FakeAgentChannel::Request> FakeAgentChannel::requests() const {
  MutexLock lock(&mu_);
  return requests_;
}

bool FakeAgentChannel::ReadFully(char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd_.get(), data, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void FakeAgentChannel::Run() {
  while (true) {
    unsigned char prefix[4];
    if (!ReadFully(reinterpret_cast<char*>(prefix), sizeof(prefix))) break;
    std::string text(prefix[0] | prefix[1] << 8 | prefix[2] << 16 | size_t{prefix[3]} << 24, '\0');
    if (!ReadFully(text.data(), text.size())) break;
    const absl::StatusOr<Json> frame = ParseJson(text);
    MILLRACE_CHECK(frame.ok() && frame->is_object()) << "the node sent a frame that is no object";
    Handle(*frame);
  }
  MutexLock lock(&mu_);
  ended_ = true;
  changed_.SignalAll();
}

void FakeAgentChannel::Handle(const Json& frame) {
  Request request;
  if (frame.contains("id")) request.id = static_cast<uint64_t>(GetInt(frame, "id").value());
  request.method = GetString(frame, "method").value();
  if (frame.contains("params")) request.params = frame["params"];
  AnswerFn answer;
  {
    MutexLock lock(&mu_);
    requests_.push_back(request);
    const auto found = answers_.find(request.method);
    if (found != answers_.end()) answer = found->second;
    changed_.SignalAll();
  }
  std::optional<absl::StatusOr<Json>> outcome = Json::object();
  if (answer) outcome = answer(request.params);
  if (request.id.has_value() && outcome.has_value()) Reply(*request.id, *outcome);
}

}  // namespace millrace
