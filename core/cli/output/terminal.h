// File: core/cli/output/terminal.h
//
// What a person's terminal can show, and writing to it.
//
// Defines: Style, StyleNumber(), Styler, StyleOfRole(), IsTerminal(), TerminalWidth(), WriteAll(),
// WriteWithin().
//
// Thread safety: thread-safe.
#ifndef CORE_CLI_OUTPUT_TERMINAL_H_
#define CORE_CLI_OUTPUT_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::cli {

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow, kBlue, kMagenta, kCyan };
// Its number among those that a terminal knows ("31"); empty for kPlain.
[[nodiscard]] absl::string_view StyleNumber(Style style);

// Puts colours around text, or leaves it alone.
class Styler {
 public:
  explicit Styler(bool enabled) : enabled_(enabled) {}
  // Enabled if `fd` is a terminal, TERM is not "dumb" and NO_COLOR is not set (no-color.org).
  [[nodiscard]] static Styler ForFd(int fd);

  [[nodiscard]] bool enabled() const { return enabled_; }
  [[nodiscard]] std::string operator()(Style style, absl::string_view text) const;

 private:
  bool enabled_;
};

// The colour of a role, by its job name: the same everywhere.
[[nodiscard]] Style StyleOfRole(absl::string_view node);

[[nodiscard]] bool IsTerminal(int fd);

// Columns of the terminal behind `fd`; $COLUMNS, or `fallback`, where it is none.
[[nodiscard]] int TerminalWidth(int fd, int fallback);

// Writes all of `text`; false when nobody reads it any more. Blocking: as long as `fd` does.
bool WriteAll(int fd, absl::string_view text);

// The same, but gives up when nobody reads for `patience`. Blocking: no longer than that, unless
// others write there too.
bool WriteWithin(int fd, absl::string_view text, absl::Duration patience);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_TERMINAL_H_
