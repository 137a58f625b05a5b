#include "core/cli/top/full_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/deadline.h"
#include "core/cli/output/terminal.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

// The other screen, no line wrap, no cursor; and back, also from within a frame.
constexpr char kTake[] = "\x1b[?1049h\x1b[?7l\x1b[?25l";
constexpr char kRestore[] = "\x1b[?2026l\x1b[0m\x1b[2J\x1b[H\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr int kUnknownColumns = 80;
constexpr int kUnknownRows = 24;

// Of a process that breaks.
constexpr std::array<int, 5> kFaults = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};

// What a signal handler needs; -1: the terminal is not taken.
volatile sig_atomic_t taken_fd = -1;
termios taken_before;

// Only what signal handlers may call.
void RestoreAndBreak(int signal) {
  if (taken_fd >= 0) {
    [[maybe_unused]] const ssize_t n = ::write(taken_fd, kRestore, sizeof(kRestore) - 1);
    ::tcsetattr(taken_fd, TCSANOW, &taken_before);
    taken_fd = -1;
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void HandleFaults() {
  struct sigaction action {};
  action.sa_handler = RestoreAndBreak;
  for (const int fault : kFaults) ::sigaction(fault, &action, nullptr);
}

bool IsUtf8(absl::string_view locale) {
  const std::string lower = absl::AsciiStrToLower(locale);
  return absl::StrContains(lower, "utf-8") || absl::StrContains(lower, "utf8");
}

// An open file of our own: that it does not block concerns nobody else.
UniqueFd OpenTerminal() {
  constexpr int kFlags = O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  UniqueFd fd(::open("/proc/self/fd/1", kFlags));
  if (!fd.valid()) fd.reset(::open("/dev/tty", kFlags));
  return fd;
}

absl::Status Gone() { return absl::UnavailableError("the terminal is gone"); }

}  // namespace

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = EnvOr(name, "");
    if (!value.empty()) return IsUtf8(value);
  }
  return false;
}

absl::Status FullScreen::Check() {
  constexpr absl::string_view kInstead =
      "`millrace top --once` prints one screen as text, and --json as an object";
  for (const auto& [fd, name] : {std::pair(STDIN_FILENO, "stdin"), {STDOUT_FILENO, "stdout"}}) {
    if (!IsTerminal(fd)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is not a terminal: ", kInstead));
    }
  }
  const std::string term = EnvOr("TERM", "");
  if (term.empty() || term == "dumb") {
    return absl::InvalidArgumentError(
        absl::StrCat("TERM says that this terminal can only print lines: ", kInstead));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FullScreen>> FullScreen::Take() {
  MILLRACE_RETURN_IF_ERROR(Check());
  UniqueFd terminal = OpenTerminal();
  termios before{};
  if (!terminal.valid() || ::tcgetattr(terminal.get(), &before) != 0) {
    return absl::ErrnoToStatus(errno, "cannot open the terminal");
  }
  std::unique_ptr<FullScreen> screen(new FullScreen(std::move(terminal), before));
  HandleFaults();
  screen->Retake();
  return screen;
}

FullScreen::FullScreen(UniqueFd terminal, const termios& before)
    : terminal_(std::move(terminal)),
      before_(before),
      utf8_(LocaleIsUtf8()),
      colour_(EnvOr("NO_COLOR", "").empty()) {}

FullScreen::~FullScreen() { Restore(); }

void FullScreen::Retake() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | IXON);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  taken_before = before_;
  taken_fd = terminal_.get();
  taken_ = true;
  ::tcsetattr(terminal_.get(), TCSANOW, &raw);
  pending_ = kTake;
  shown_.reset();
}

void FullScreen::Restore() {
  if (!std::exchange(taken_, false)) return;
  // Of a frame that is under way nothing more is needed.
  pending_ = kRestore;
  const Deadline deadline(kPatience);
  while (Flush().ok() && pending() && !deadline.Passed()) {
    pollfd ready{.fd = terminal_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&ready, 1, 50);
  }
  pending_.clear();
  ::tcsetattr(terminal_.get(), TCSANOW, &before_);
  taken_fd = -1;
}

GridOptions FullScreen::Options() const {
  winsize size{};
  ::ioctl(terminal_.get(), TIOCGWINSZ, &size);
  return {.columns = size.ws_col > 0 ? size.ws_col : kUnknownColumns,
          .rows = size.ws_row > 0 ? size.ws_row : kUnknownRows,
          .utf8 = utf8_,
          .colour = colour_};
}

absl::StatusOr<std::string> FullScreen::Read() {
  std::array<char, 1024> buffer;
  const ssize_t n = ::read(terminal_.get(), buffer.data(), buffer.size());
  if (n > 0) return std::string(buffer.data(), static_cast<size_t>(n));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::string();
  return Gone();
}

absl::Status FullScreen::Show(TextGrid grid) {
  absl::StrAppend(&pending_, Changes(shown_.has_value() ? &*shown_ : nullptr, grid));
  shown_.emplace(std::move(grid));
  return Flush();
}

absl::Status FullScreen::Flush() {
  while (pending()) {
    const ssize_t n = ::write(terminal_.get(), pending_.data(), pending_.size());
    if (n >= 0) {
      pending_.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return Gone();
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::cli
