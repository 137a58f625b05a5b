// File: core/cli/output/terminal.h
//
// What a person's terminal can show, and writing to it.
//
// Defines: Style, StyleNumber(), ColorMode, Styler, StyleOfRole(), StyleOfNode(), IsTerminal(),
// CanErase(), TerminalWidth(), WriteAll(), WriteWithin().
//
// Thread safety: thread-safe.
#ifndef CORE_CLI_OUTPUT_TERMINAL_H_
#define CORE_CLI_OUTPUT_TERMINAL_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::cli {

enum class Style {
  kPlain,
  kBold,
  kDim,
  kRed,
  kGreen,
  kYellow,
  kBlue,
  kMagenta,
  kCyan,
  kBrightGreen,
  kBrightYellow,
  kBrightBlue,
  kBrightMagenta,
  kBrightCyan,
};
// Its number among those that a terminal knows ("31"); empty for kPlain.
[[nodiscard]] absl::string_view StyleNumber(Style style);

enum class ColorMode {
  kAuto,  // on a terminal, unless TERM is "dumb" or NO_COLOR is set (no-color.org)
  kAlways,
  kNever,
};

// Puts colours around text, or leaves it alone.
class Styler {
 public:
  explicit Styler(bool enabled) : enabled_(enabled) {}
  [[nodiscard]] static Styler ForFd(int fd, ColorMode mode = ColorMode::kAuto);

  [[nodiscard]] bool enabled() const { return enabled_; }
  [[nodiscard]] std::string operator()(Style style, absl::string_view text) const;

 private:
  bool enabled_;
};

// The colour of a role, by its job name: the same everywhere.
[[nodiscard]] Style StyleOfRole(absl::string_view node);

// The colour of the `index`th node of a cluster: its own among ten, none of them red.
[[nodiscard]] Style StyleOfNode(size_t index);

[[nodiscard]] bool IsTerminal(int fd);
// Whether it is one on which what was written can be erased: TERM is not "dumb".
[[nodiscard]] bool CanErase(int fd);

// Columns of the terminal behind `fd`; $COLUMNS, or `fallback`, where it is none.
[[nodiscard]] int TerminalWidth(int fd, int fallback);

// Writes all of `text`; false when nobody reads it any more. Blocking: as long as `fd` does.
bool WriteAll(int fd, absl::string_view text);

// The same, but gives up when nobody reads for `patience`. Blocking: no longer than that, unless
// others write there too.
bool WriteWithin(int fd, absl::string_view text, absl::Duration patience);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_TERMINAL_H_
