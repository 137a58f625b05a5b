#include "core/agent/node/sidecar_runner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// TensorBoard takes seconds to listen.
constexpr absl::Duration kProbeInterval = absl::Milliseconds(200);

// Begins to connect to a numeric address; an invalid descriptor if it was refused at once.
UniqueFd BeginConnect(const std::string& host, uint16_t port, bool* connected) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (absl::StrContains(host, ":")) {
    auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(port);
    if (inet_pton(AF_INET6, host.c_str(), &address->sin6_addr) != 1) return UniqueFd();
    size = sizeof(*address);
  } else {
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    if (inet_pton(AF_INET, host.c_str(), &address->sin_addr) != 1) return UniqueFd();
    size = sizeof(*address);
  }
  UniqueFd fd(socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  *connected = connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) == 0;
  if (!*connected && errno != EINPROGRESS) fd.reset();
  return fd;
}

// Whether the socket is connected to itself, which Linux allows: then nothing listens on that port.
bool IsSelfConnected(int fd, uint16_t port) {
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) return false;
  const uint16_t mine = local.ss_family == AF_INET6
                            ? reinterpret_cast<sockaddr_in6*>(&local)->sin6_port
                            : reinterpret_cast<sockaddr_in*>(&local)->sin_port;
  return ntohs(mine) == port;
}

}  // namespace

SidecarRunner::SidecarRunner(EventLoop* loop, ChildReaper* reaper, Hooks hooks)
    : loop_(loop),
      hooks_(std::move(hooks)),
      process_(loop, reaper,
               {.on_started = [this] { Probe(); },
                .on_launch_failed =
                    [this](const absl::Status& status) {
                      capture_->Finish();
                      hooks_.on_text(absl::StrCat("sidecar ", options_.sidecar.name(), ": ",
                                                  status.message()));
                    },
                .on_change = [this](const ExitStatus& status) { OnChange(status); }}) {}

SidecarRunner::~SidecarRunner() {
  loop_->Cancel(&probe_timer_);
  if (probe_.valid()) loop_->Unwatch(probe_.get());
}

std::string SidecarRunner::Fill(absl::string_view text) const {
  return absl::StrReplaceAll(text, {{"{host}", options_.bind_address},
                                    {"{port}", absl::StrCat(port_)},
                                    {"{log_dir}", options_.log_dir}});
}

absl::Status SidecarRunner::Start(Options options) {
  options_ = std::move(options);
  const v1::Sidecar& sidecar = options_.sidecar;
  NodeProcess::Options process;
  MILLRACE_ASSIGN_OR_RETURN(process.program,
                            ResolveProgram(sidecar.program(), options_.working_dir, options_.path));
  MILLRACE_ASSIGN_OR_RETURN(PortReservation port,
                            PortReservation::Bind(options_.bind_address, options_.ports));
  port_ = port.port();
  process.argv.push_back(process.program);
  for (const std::string& arg : sidecar.args()) process.argv.push_back(Fill(arg));
  process.env = options_.env;
  process.working_dir = options_.working_dir;
  capture_ = std::make_unique<OutputCapture>(
      loop_,
      JoinPath(options_.log_dir, absl::StrCat(sidecar.name(), ".", options_.attempt, ".log")),
      OutputCapture::Callbacks{.on_line = [](OutputCapture::Source, std::string) {},
                               .on_warning = hooks_.on_text});
  // It binds the port itself, and need not know SO_REUSEPORT.
  port.Release();
  MILLRACE_RETURN_IF_ERROR(process_.Launch(process));
  return capture_->Start(process_.TakeStdout(), process_.TakeStderr());
}

void SidecarRunner::Probe() {
  bool connected = false;
  probe_ = BeginConnect(options_.bind_address, port_, &connected);
  if (!probe_.valid() || connected) {
    OnConnected(connected);
    return;
  }
  const absl::Status watched = loop_->Watch(probe_.get(), EPOLLOUT, [this](uint32_t) {
    int error = 0;
    socklen_t size = sizeof(error);
    const bool known = getsockopt(probe_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0;
    loop_->Unwatch(probe_.get());
    OnConnected(known && error == 0);
  });
  if (!watched.ok()) OnConnected(false);
}

void SidecarRunner::OnConnected(bool connected) {
  if (connected && IsSelfConnected(probe_.get(), port_)) connected = false;
  probe_.reset();
  if (!process_.alive()) return;
  if (!connected) {
    probe_timer_ = loop_->After(kProbeInterval, [this] {
      probe_timer_ = EventLoop::kNoTimer;
      Probe();
    });
    return;
  }
  published_ = true;
  hooks_.on_url(absl::StrCat("http://", FormatHostPort(options_.advertise, port_)));
}

void SidecarRunner::OnChange(const ExitStatus& status) {
  if (!status.ended()) return;
  loop_->Cancel(&probe_timer_);
  capture_->Finish();
  const std::vector<std::string> tail = capture_->StderrTail();
  hooks_.on_text(absl::StrCat(
      "sidecar ", options_.sidecar.name(), " ended with ", DescribeExit(status),
      tail.empty() ? "" : absl::StrCat(": ", Ellipsize(EscapeControls(tail.back()), 300))));
  if (std::exchange(published_, false)) hooks_.on_url("");
}

}  // namespace millrace
