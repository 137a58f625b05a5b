#include "core/agent/loop/helper_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "core/process/descriptor_limit.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Output that came before the end, and is read after it: at most so much.
constexpr int kMaxDrains = 256;

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec: async-signal-safe calls only. Every other descriptor of the agent is
// close-on-exec.
[[noreturn]] void RunChild(pid_t parent, int in, int out, int null, char* const* argv,
                           char* const* env) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0) _exit(127);
  RestoreDescriptorLimit();
  execve(argv[0], argv, env);
  _exit(127);
}

}  // namespace

HelperProcess::HelperProcess(EventLoop* loop, ChildReaper* reaper, Callbacks callbacks)
    : loop_(loop), reaper_(reaper), callbacks_(std::move(callbacks)) {}

HelperProcess::~HelperProcess() {
  *alive_ = false;
  if (out_.valid()) loop_->Unwatch(out_.get());
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  // Stays known, so that it never counts as an orphan of the node.
  reaper_->Register(pid_, [](const ExitStatus&) {});
}

absl::StatusOr<std::unique_ptr<HelperProcess>> HelperProcess::Start(EventLoop* loop,
                                                                    ChildReaper* reaper,
                                                                    const Options& options,
                                                                    Callbacks callbacks) {
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  const UniqueFd in_read(in[0]);
  UniqueFd in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  UniqueFd out_read(out[0]);
  const UniqueFd out_write(out[1]);
  const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "cannot open /dev/null");
  fcntl(out_read.get(), F_SETFL, O_NONBLOCK);

  std::vector<std::string> args = options.args;
  args.insert(args.begin(), options.program);
  const std::vector<char*> argv = Pointers(args);
  const std::vector<char*> env = Pointers(options.environment);
  auto helper =
      std::unique_ptr<HelperProcess>(new HelperProcess(loop, reaper, std::move(callbacks)));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  if (pid == 0) {
    RunChild(parent, in_read.get(), out_write.get(), null.get(), argv.data(), env.data());
  }
  helper->pid_ = pid;
  helper->in_ = std::move(in_write);
  helper->out_ = std::move(out_read);
  reaper->Register(pid, [self = helper.get()](const ExitStatus& status) {
    if (status.ended()) self->OnEnded(status);
  });
  MILLRACE_RETURN_IF_ERROR(loop->Watch(helper->out_.get(), EPOLLIN,
                                       [self = helper.get()](uint32_t) { self->ReadSome(); }));
  return helper;
}

bool HelperProcess::ReadSome() {
  char buffer[16384];
  const ssize_t got = read(out_.get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    // The end comes by its process; a program that only closes stdout is late one day.
    loop_->Unwatch(out_.get());
    out_.reset();
    return false;
  }
  const std::shared_ptr<bool> alive = alive_;
  const auto on_output = callbacks_.on_output;  // this object may be gone when it returns
  on_output({buffer, static_cast<size_t>(got)});
  return *alive;
}

void HelperProcess::OnEnded(const ExitStatus& status) {
  pid_ = -1;
  const std::shared_ptr<bool> alive = alive_;
  for (int i = 0; i < kMaxDrains && out_.valid(); ++i) {
    if (!ReadSome()) break;
  }
  if (!*alive) return;
  const auto on_end = callbacks_.on_end;
  on_end(status);
}

}  // namespace millrace
