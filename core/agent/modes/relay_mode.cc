#include "core/agent/modes/relay_mode.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/link/local_address.h"
#include "core/agent/link/relay_socket.h"
#include "core/agent/loop/exit_codes.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/coordinator/stream/attach_reactor.h"
#include "core/net/socket_address.h"
#include "core/proto/grpc_status.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {
namespace {

constexpr char kAttach[] = "/millrace.v1.Coordinator/Attach";
constexpr size_t kMaxRequestBytes = size_t{256} << 10;
constexpr int kMaxMessageBytes = 32 << 20;
// How long the coordinator may take to end the stream of a host that has gone, and agents to hear
// how theirs have ended.
constexpr absl::Duration kLeaveTime = absl::Seconds(2);

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

// The coordinator, as far as agents attach.
class RelayMode::Service final : public grpc::CallbackGenericService {
 public:
  Service(const std::string& token, HostCall* call, LiveCalls* calls)
      : authorization_(absl::StrCat("Bearer ", token)), call_(call), calls_(calls) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() != kAttach) {
      return new Refusal(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "a relay knows Attach"));
    }
    const auto said = context->client_metadata().find("authorization");
    absl::Status admitted;
    if (said == context->client_metadata().end() ||
        std::string(said->second.data(), said->second.size()) != authorization_) {
      admitted = absl::UnauthenticatedError("not the token of this relay's cluster");
    }
    return AttachReactor::Create(context, admitted, {}, call_, calls_);
  }

 private:
  const std::string authorization_;
  HostCall* const call_;
  LiveCalls* const calls_;
};

RelayMode::RelayMode(EventLoop* loop, Options options)
    : loop_(loop), in_(options.in_fd), listening_(options.listening_fd) {}

RelayMode::~RelayMode() = default;

void RelayMode::Start() {
  fcntl(in_.get(), F_SETFL, O_NONBLOCK);
  const absl::Status watched =
      loop_->Watch(in_.get(), EPOLLIN, [this](uint32_t) { ReadRequest(); });
  if (!watched.ok()) Fail(watched.ToString());
}

void RelayMode::ReadRequest() {
  char buffer[4096];
  const ssize_t got = read(in_.get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) {
    request_.append(buffer, static_cast<size_t>(got));
    if (request_.size() > kMaxRequestBytes) Fail("its request is too long");
    return;
  }
  loop_->Unwatch(in_.get());
  const absl::StatusOr<Json> request = ParseJson(request_);
  absl::StatusOr<CoordinatorEndpoint> endpoint =
      request.ok() ? ParseCoordinatorEndpoint(*request) : request.status();
  request_.clear();
  if (!endpoint.ok()) {
    Fail(endpoint.status().ToString());
    return;
  }
  endpoint_ = *std::move(endpoint);
  const absl::Status watched =
      loop_->Watch(listening_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
  if (!watched.ok()) {
    Fail(watched.ToString());
    return;
  }
  Dial(endpoint_);
}

void RelayMode::Dial(const CoordinatorEndpoint& endpoint) {
  channel_ = MakeCoordinatorChannel(endpoint);
  const absl::StatusOr<HostPort> target = ParseHostPort(endpoint.address);
  const uint16_t port = target.ok() ? target->port : 0;
  absl::StatusOr<Thread> thread =
      Thread::Start("relay-dial", [this, port, channel = channel_, mailbox = loop_->mailbox()] {
        std::string local;
        if (WaitConnected(channel.get(), dial_cancelled_)) local = LocalHostTowards(port);
        mailbox->Post([this, local] { OnDialled(local); });
      });
  if (!thread.ok()) {
    Fail(thread.status().ToString());
    return;
  }
  dialler_ = *std::move(thread);
}

void RelayMode::OnDialled(const std::string& local_host) {
  if (leaving_) return;
  if (local_host.empty()) {
    Fail(absl::StrCat("cannot reach the coordinator at ", endpoint_.address));
    return;
  }
  call_ = HostCall::Start(
      channel_, endpoint_.token,
      {.on_waiting =
           [this, mailbox = loop_->mailbox()](absl::Duration after) {
             mailbox->Post(
                 [this, after] { loop_->After(after, [this] { call_->FlushWaiting(); }); });
           },
       .on_done =
           [this, mailbox = loop_->mailbox()](const absl::Status& status) {
             mailbox->Post([this, status] {
               if (leaving_) {
                 loop_->Quit();
               } else {
                 Fail(absl::StrCat("the stream to the coordinator has ended: ", status.ToString()));
               }
             });
           }});
  service_ = std::make_unique<Service>(endpoint_.token, call_.get(), &calls_);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(service_.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    Fail("gRPC did not make a server");
    return;
  }
  local_host_ = local_host;
  for (UniqueFd& connection : std::exchange(waiting_, {})) Greet(std::move(connection));
}

void RelayMode::Accept() {
  while (listening_.valid()) {
    UniqueFd connection(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) return;
    if (!IsOwnUser(connection.get())) continue;
    UniqueFd watched(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
    const int fd = watched.get();
    if (!watched.valid() ||
        !loop_->Watch(fd, EPOLLRDHUP, [this, fd](uint32_t) { OnAgentGone(fd); }).ok()) {
      continue;
    }
    agents_[fd] = std::move(watched);
    if (local_host_.empty()) {
      waiting_.push_back(std::move(connection));
    } else {
      Greet(std::move(connection));
    }
  }
}

void RelayMode::Greet(UniqueFd connection) {
  const std::string line = absl::StrCat(local_host_, "\n");
  // The socket is new: a line has room, or the agent is gone.
  if (send(connection.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(line.size())) {
    grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
  }
}

void RelayMode::OnAgentGone(int watched) {
  loop_->Unwatch(watched);
  agents_.erase(watched);
  if (!agents_.empty()) return;
  if (leaving_) {
    loop_->Quit();
    return;
  }
  Accept();  // one may just have come
  if (agents_.empty()) Leave();
}

void RelayMode::StopListening() {
  loop_->Unwatch(listening_.get());
  listening_.reset();
}

void RelayMode::Leave() {
  if (std::exchange(leaving_, true)) return;
  dial_cancelled_.store(true);
  StopListening();
  if (call_ == nullptr) {
    loop_->Quit();
    return;
  }
  call_->Finish();
  loop_->After(kLeaveTime, [this] { loop_->Quit(); });
}

void RelayMode::Fail(const std::string& why) {
  if (std::exchange(leaving_, true)) return;
  MILLRACE_LOG(WARNING) << "the relay ends: " << why;
  exit_code_ = kExitAgentFailed;
  StopListening();
  // Who was greeted hears how its stream has ended; others see the end of the socket.
  if (agents_.empty() || server_ == nullptr) {
    loop_->Quit();
    return;
  }
  loop_->After(kLeaveTime, [this] { loop_->Quit(); });
}

void RelayMode::OnSignal(int) { loop_->Quit(); }

int RelayMode::Cleanup() { return exit_code_; }

}  // namespace millrace
