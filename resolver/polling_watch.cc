#include "resolver/polling_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// What poll() can wait for at once; a longer interval is asked more often, which harms nobody.
constexpr absl::Duration kMaxPollInterval = absl::Milliseconds(std::numeric_limits<int>::max());

// Asks in a thread of its own. It waits in poll(), whose time is steady: a jump of the date neither
// delays nor repeats a question.
class PollingWatch final : public MembershipWatch {
 public:
  static absl::StatusOr<std::unique_ptr<MembershipWatch>> Start(AskForMembers ask,
                                                                MembershipCallback callback,
                                                                absl::Duration interval) {
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop.valid()) return absl::ErrnoToStatus(errno, "cannot create an eventfd");
    std::unique_ptr<PollingWatch> watch(
        new PollingWatch(std::move(ask), std::move(callback), interval, std::move(stop)));
    MILLRACE_ASSIGN_OR_RETURN(watch->thread_,
                              Thread::Start("resolver-poll", [raw = watch.get()] { raw->Run(); }));
    return watch;
  }

  ~PollingWatch() override {
    const uint64_t one = 1;
    // Cannot fail: the counter is zero.
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  }

 private:
  PollingWatch(AskForMembers ask, MembershipCallback callback, absl::Duration interval,
               UniqueFd stop)
      : ask_(std::move(ask)),
        tracker_(std::move(callback)),
        interval_ms_(
            static_cast<int>(absl::ToInt64Milliseconds(std::min(interval, kMaxPollInterval)))),
        stop_(std::move(stop)) {}

  void Run() {
    do {
      const absl::StatusOr<ClusterSpec> answer = ask_();
      if (Stopped(0)) return;
      tracker_.Observe(answer, RealClock()->Now());
    } while (!Stopped(interval_ms_));
  }

  bool Stopped(int timeout_ms) const {
    pollfd stop = {.fd = stop_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&stop, 1, timeout_ms) > 0;
  }

  const AskForMembers ask_;
  MembershipTracker tracker_;
  const int interval_ms_;
  const UniqueFd stop_;
  Thread thread_;  // last: joined before what it uses
};

}  // namespace

absl::StatusOr<std::unique_ptr<MembershipWatch>> PollMembers(AskForMembers ask,
                                                             MembershipCallback callback,
                                                             const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  return PollingWatch::Start(std::move(ask), std::move(callback), options.poll_interval);
}

}  // namespace millrace
