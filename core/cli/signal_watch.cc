#include "core/cli/signal_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/log.h"

namespace millrace::cli {
namespace {

// poll() takes an int of milliseconds; a longer wait is taken in parts.
constexpr absl::Duration kMaxPoll = absl::Hours(24);

bool IsIgnored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t TerminationSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // A signalfd would read it all the same.
    if (!IsIgnored(number)) sigaddset(&set, number);
  }
  return set;
}

sigset_t SuspendSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  return set;
}

}  // namespace

void BlockTerminationSignals() {
  // A write that cannot be done is an error, not the end.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const sigset_t set = TerminationSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void BlockSuspendSignal() {
  const sigset_t set = SuspendSignal();
  if (!IsIgnored(SIGTSTP)) pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void UnblockTerminationSignals() {
  const sigset_t set = TerminationSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(Callbacks callbacks, absl::Duration timeout)
    : callbacks_(std::move(callbacks)) {
  sigset_t set = TerminationSignals();
  if (callbacks_.on_suspend && !IsIgnored(SIGTSTP)) sigaddset(&set, SIGTSTP);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  end_.reset(eventfd(0, EFD_CLOEXEC));
  MILLRACE_CHECK(signals_.valid() && end_.valid()) << "no descriptor left";
  thread_ = Thread("cli-signals", [this, timeout] { Run(timeout); });
}

SignalWatch::~SignalWatch() {
  const uint64_t one = 1;
  MILLRACE_CHECK(write(end_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.Join();
}

absl::Duration SignalWatch::Suspend() {
  const absl::Duration start = RealClock()->SteadyNow();
  if (!callbacks_.on_suspend()) return absl::ZeroDuration();
  // As if the signal had not been blocked: the shell sees a job that was stopped by Ctrl-Z. The
  // whole process stops here, unless there is no shell that could continue it.
  const sigset_t set = SuspendSignal();
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  callbacks_.on_resume();
  return RealClock()->SteadyNow() - start;
}

void SignalWatch::Run(absl::Duration timeout) {
  Deadline deadline(timeout);
  int count = 0;
  while (true) {
    pollfd fds[] = {{.fd = end_.get(), .events = POLLIN, .revents = 0},
                    {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    const absl::Duration wait = std::min(deadline.Left(), kMaxPoll);
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(wait + absl::Milliseconds(1))));
    if (fds[0].revents != 0) return;
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGTSTP) {
        deadline = deadline + Suspend();
      } else {
        callbacks_.on_signal(static_cast<int>(info.ssi_signo), ++count);
      }
    }
    if (deadline.Passed()) {
      deadline = Deadline::Never();
      if (callbacks_.on_timeout) callbacks_.on_timeout();
    }
  }
}

}  // namespace millrace::cli
