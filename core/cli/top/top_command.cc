#include "core/cli/top/top_command.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/unique_fd.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/exit_code.h"
#include "core/cli/output/report_error.h"
#include "core/cli/output/terminal.h"
#include "core/cli/top/full_screen.h"
#include "core/cli/top/key_reader.h"
#include "core/cli/top/top_once.h"
#include "core/cli/top/top_view.h"
#include "core/client/raw_cluster_client.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/follower.h"
#include "dashboard/source/live_source.h"
#include "dashboard/source/update_source.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

constexpr int kPipeWidth = 1000;  // nothing is cut where nobody counts columns
constexpr absl::Duration kLeastInterval = absl::Milliseconds(100);
constexpr absl::Duration kGreatestInterval = absl::Hours(1);
// Between two pictures of which no key is the reason.
constexpr absl::Duration kPace = absl::Milliseconds(100);
// Ages grow even if nothing comes.
constexpr absl::Duration kTick = absl::Seconds(1);
// The rest of a key's bytes comes within this time, or never.
constexpr absl::Duration kKeyPatience = absl::Milliseconds(250);
constexpr int kFirstLogLines = 20;  // of each node
constexpr size_t kMaxLogLines = 20'000;

int PollMs(absl::Duration wait) {
  return static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))), 0, 60'000));
}

sigset_t SignalsOfTop() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}) {
    sigaddset(&set, signal);
  }
  return set;
}

// The loop: keys, signals and updates in, pictures out.
//
// Thread safety: single-threaded, but Wake(). Blocking: Run().
class TopLoop {
 public:
  explicit TopLoop(const TopOptions& options)
      : options_(options), model_({.zone = absl::UTCTimeZone(), .max_log_lines = kMaxLogLines}) {
    const sigset_t set = SignalsOfTop();
    signals_.reset(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    MILLRACE_CHECK(signals_.valid() && wake_.valid()) << "no descriptor left";
  }

  // Returns the exit code. Returns the Status that NobodyReads() recognises if the terminal is
  // gone.
  absl::StatusOr<int> Run(ClusterClientOptions client);

 private:
  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof(one));
  }
  [[nodiscard]] absl::Duration TimeToWait() const;
  // Each returns false if it ends the loop, with the exit code in code_.
  bool TakeSignals();
  bool TakeKeys();
  void Suspend();
  absl::Status Draw();

  const TopOptions options_;
  dashboard::DashboardModel model_;
  UniqueFd signals_;
  UniqueFd wake_;  // eventfd
  std::unique_ptr<dashboard::UpdateSource> source_;
  std::optional<dashboard::Follower> follower_;
  std::unique_ptr<FullScreen> screen_;
  KeyReader keys_;
  absl::Duration last_key_ = -absl::InfiniteDuration();  // steady
  TopView view_;
  bool now_ = true;     // a key or the size is the reason for a picture
  bool dirty_ = false;  // updates are
  absl::Duration drawn_ = -absl::InfiniteDuration();  // steady
  int code_ = kExitOk;
};

void TopLoop::Suspend() {
  screen_->Restore();
  // As if the signal had not been blocked: it stops the process here, unless there is no shell that
  // could continue it.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  screen_->Retake();
}

bool TopLoop::TakeSignals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    now_ = true;
    switch (info.ssi_signo) {
      case SIGTSTP:
        Suspend();
        break;
      case SIGCONT:
        // Whoever stopped us may have changed the terminal.
        screen_->Retake();
        break;
      case SIGWINCH:
        screen_->Forget();
        break;
      case SIGINT:
        return false;
      default:
        code_ = kExitSignalBase + static_cast<int>(info.ssi_signo);
        return false;
    }
  }
  return true;
}

bool TopLoop::TakeKeys() {
  const bool all = RealClock()->SteadyNow() >= last_key_ + kKeyPatience;
  while (const std::optional<Key> key = keys_.Next(all)) {
    now_ = true;
    if (key->code == KeyCode::kRedraw) screen_->Forget();
    if (!view_.Handle(*key, model_)) return false;
  }
  return true;
}

absl::Duration TopLoop::TimeToWait() const {
  const absl::Duration now = RealClock()->SteadyNow();
  absl::Duration next = drawn_ + kTick;
  if (now_) next = now;
  if (dirty_) next = std::min(next, drawn_ + kPace);
  // Until the terminal has taken the last picture there is none.
  if (screen_->pending()) next = now + kTick;
  if (keys_.waiting()) next = std::min(next, last_key_ + kKeyPatience);
  if (follower_->behind() && !view_.paused()) next = now;
  return std::max(next - now, absl::ZeroDuration());
}

absl::Status TopLoop::Draw() {
  const absl::Duration now = RealClock()->SteadyNow();
  const bool due = now_ || (dirty_ && now >= drawn_ + kPace) || now >= drawn_ + kTick;
  if (!due || screen_->pending()) return absl::OkStatus();
  now_ = dirty_ = false;
  drawn_ = now;
  GridOptions options = screen_->Options();
  options.colour = options.colour && !options_.no_colour;
  return screen_->Show(view_.Draw(model_, options));
}

absl::StatusOr<int> TopLoop::Run(ClusterClientOptions client) {
  MILLRACE_ASSIGN_OR_RETURN(source_, dashboard::MakeLiveSource({.client = std::move(client),
                                                                .title = "",
                                                                .interval = options_.interval,
                                                                .log_lines = kFirstLogLines,
                                                                .wake = [this] { Wake(); }}));
  follower_.emplace(source_.get(), &model_);
  MILLRACE_ASSIGN_OR_RETURN(screen_, FullScreen::Take());
  while (true) {
    pollfd fds[] = {
        {.fd = signals_.get(), .events = POLLIN, .revents = 0},
        {.fd = wake_.get(), .events = POLLIN, .revents = 0},
        {.fd = screen_->fd(),
         .events = static_cast<short>(POLLIN | (screen_->pending() ? POLLOUT : 0)),  // NOLINT
         .revents = 0}};
    poll(fds, std::size(fds), PollMs(TimeToWait()));
    if (!TakeSignals()) return code_;
    uint64_t woken = 0;
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &woken, sizeof(woken));
    if ((fds[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return NobodyReadsError();
    if ((fds[2].revents & POLLIN) != 0) {
      const absl::StatusOr<std::string> bytes = screen_->Read();
      if (!bytes.ok()) return NobodyReadsError();
      keys_.Add(*bytes);
      last_key_ = RealClock()->SteadyNow();
    }
    if (!TakeKeys()) return code_;
    if (!screen_->Flush().ok()) return NobodyReadsError();
    // A paused model is not told of anything, not even of the time: updates wait at their source.
    if (!view_.paused() && follower_->Poll(absl::Now())) dirty_ = true;
    if (!Draw().ok()) return NobodyReadsError();
  }
}

absl::StatusOr<int> TopOrError(TopOptions options) {
  options.interval = std::clamp(options.interval, kLeastInterval, kGreatestInterval);
  const bool once = options.once || options.json;
  if (!once) {
    // Whoever has no terminal hears of it before anything else.
    MILLRACE_RETURN_IF_ERROR(FullScreen::Check());
    const sigset_t set = SignalsOfTop();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // What a library warns of would stand in the middle of the picture.
    if (IsTerminal(STDERR_FILENO)) SetLogLevel(LogLevel::kError);
  }
  MILLRACE_ASSIGN_OR_RETURN(ClusterClientOptions chosen, OptionsOf(options.choice, Purpose::kLook));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            RawClusterClient::Connect(chosen));
  // A cluster that cannot be looked at says so as to every command.
  MILLRACE_RETURN_IF_ERROR(client->Snapshot({.level = v1::WATCH_LEVEL_CLUSTER}).status());
  if (!once) return TopLoop(options).Run(std::move(chosen));
  const GridOptions format = {.columns = TerminalWidth(STDOUT_FILENO, kPipeWidth),
                              .rows = 1,
                              .utf8 = LocaleIsUtf8(),
                              .colour = false};
  MILLRACE_RETURN_IF_ERROR(PrintTopOnce(client.get(), options.interval, options.json, format));
  return kExitOk;
}

}  // namespace

int Top(const TopOptions& options) {
  const absl::StatusOr<int> code = TopOrError(options);
  return code.ok() ? *code : ReportError(code.status());
}

}  // namespace millrace::cli
