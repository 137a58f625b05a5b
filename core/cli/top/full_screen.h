// File: core/cli/top/full_screen.h
//
// A terminal whose whole screen one program has, and which is as it was before once that program is
// gone, whatever ended it (but SIGKILL).
//
// Defines: FullScreen, LocaleIsUtf8().
//
//   MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<FullScreen> screen, FullScreen::Take());
//   screen->Show(grid);
//   poll(..., screen->fd(), POLLIN | (screen->pending() ? POLLOUT : 0), ...);
//   screen->Flush();
#ifndef CORE_CLI_TOP_FULL_SCREEN_H_
#define CORE_CLI_TOP_FULL_SCREEN_H_

#include <termios.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"
#include "core/cli/top/text_grid.h"

namespace millrace::cli {

// What the environment says of the terminal's characters.
[[nodiscard]] bool LocaleIsUtf8();

// At most one at a time in a process.
//
// Thread safety: single-threaded. Blocking: Restore() and the destructor for a second at most, for
// a terminal that takes nothing; nothing else.
class FullScreen {
 public:
  // Returns INVALID_ARGUMENT if stdin or stdout is no terminal, or TERM says that it can do
  // nothing.
  [[nodiscard]] static absl::Status Check();
  // Takes the terminal of stdout, and keys from it: one by one, and not shown; Ctrl-C and Ctrl-Z
  // still are signals. Returns the errors of Check().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FullScreen>> Take();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // For poll(): POLLIN with keys, POLLOUT while pending(), POLLHUP once the terminal is gone.
  [[nodiscard]] int fd() const { return terminal_.get(); }
  // Its columns and rows now; UTF-8 as the locale says; colour unless NO_COLOR is set.
  [[nodiscard]] GridOptions Options() const;

  // What was read; empty: nothing is there now. Returns the error of a terminal that is gone.
  [[nodiscard]] absl::StatusOr<std::string> Read();

  // Writes the difference to what is shown. Only while nothing is pending(). Returns the error of a
  // terminal that is gone, as Flush().
  absl::Status Show(TextGrid grid);
  // The next Show() writes everything.
  void Forget() { shown_.reset(); }
  // The terminal has not taken all of it yet.
  [[nodiscard]] bool pending() const { return !pending_.empty(); }
  absl::Status Flush();

  // Gives the terminal back, as it was, until Retake().
  void Restore();
  void Retake();

 private:
  FullScreen(UniqueFd terminal, const termios& before);

  const UniqueFd terminal_;  // not blocking, and nobody else's
  const termios before_;
  bool taken_ = false;
  bool utf8_ = false;
  bool colour_ = true;
  std::optional<TextGrid> shown_;
  std::string pending_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_FULL_SCREEN_H_
