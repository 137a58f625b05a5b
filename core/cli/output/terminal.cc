#include "core/cli/output/terminal.h"

#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/process/process.h"

namespace millrace::cli {

absl::string_view StyleNumber(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "1";
    case Style::kDim:
      return "2";
    case Style::kRed:
      return "31";
    case Style::kGreen:
      return "32";
    case Style::kYellow:
      return "33";
    case Style::kBlue:
      return "34";
    case Style::kMagenta:
      return "35";
    case Style::kCyan:
      return "36";
    case Style::kBrightGreen:
      return "92";
    case Style::kBrightYellow:
      return "93";
    case Style::kBrightBlue:
      return "94";
    case Style::kBrightMagenta:
      return "95";
    case Style::kBrightCyan:
      return "96";
  }
  return "";
}

bool IsTerminal(int fd) { return ::isatty(fd) == 1; }

bool CanErase(int fd) { return IsTerminal(fd) && EnvOr("TERM", "") != "dumb"; }

Styler Styler::ForFd(int fd, ColorMode mode) {
  if (mode != ColorMode::kAuto) return Styler(mode == ColorMode::kAlways);
  return Styler(CanErase(fd) && EnvOr("NO_COLOR", "").empty());
}

std::string Styler::operator()(Style style, absl::string_view text) const {
  if (!enabled_ || style == Style::kPlain || text.empty()) return std::string(text);
  return absl::StrCat("\x1b[", StyleNumber(style), "m", text, "\x1b[0m");
}

Style StyleOfRole(absl::string_view node) {
  if (absl::StartsWith(node, "ps")) return Style::kYellow;
  if (absl::StartsWith(node, "chief") || absl::StartsWith(node, "master")) return Style::kGreen;
  if (absl::StartsWith(node, "evaluator")) return Style::kMagenta;
  return Style::kCyan;
}

Style StyleOfNode(size_t index) {
  // Neighbours differ most.
  constexpr Style kStyles[] = {Style::kCyan,         Style::kYellow,        Style::kMagenta,
                               Style::kGreen,        Style::kBlue,          Style::kBrightCyan,
                               Style::kBrightYellow, Style::kBrightMagenta, Style::kBrightGreen,
                               Style::kBrightBlue};
  return kStyles[index % std::size(kStyles)];
}

int TerminalWidth(int fd, int fallback) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;
  if (absl::SimpleAtoi(EnvOr("COLUMNS", ""), &columns) && columns > 0) return columns;
  return fallback;
}

bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      // Somebody else's non-blocking descriptor: wait for room.
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool WriteWithin(int fd, absl::string_view text, absl::Duration patience) {
  const int patience_ms = static_cast<int>(absl::ToInt64Milliseconds(patience));
  while (!text.empty()) {
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    const int polled = ::poll(&ready, 1, patience_ms);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    // A pipe that is ready takes this much without blocking.
    const ssize_t n = ::write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

}  // namespace millrace::cli
