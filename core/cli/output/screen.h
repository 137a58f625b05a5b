// File: core/cli/output/screen.h
//
// A text that changes, in place on a terminal: each frame is drawn over the one before, and nothing
// that scrolled away is touched.
//
// Defines: FirstFrame(), NextFrame(), TerminalHeight().
//
//   WriteAnswer(FirstFrame(text, size, "`millrace status` shows all"));
#ifndef CORE_CLI_OUTPUT_SCREEN_H_
#define CORE_CLI_OUTPUT_SCREEN_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::cli {

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 24;
};

// Rows of the terminal behind `fd`; `fallback` where it is none, or does not say.
[[nodiscard]] size_t TerminalHeight(int fd, size_t fallback);

// What draws `text`, lines with their ends, from the upper left corner of an empty screen. A text
// that is too long for the screen is cut at the last row, which says how many lines are not shown,
// and `where_all` says where they are. The cursor is left below the text.
//
// Thread safety: pure functions.
[[nodiscard]] std::string NextFrame(absl::string_view text, const ScreenSize& size,
                                    absl::string_view where_all);

// The same, after what is on the screen has been scrolled away: it can still be scrolled back to.
[[nodiscard]] std::string FirstFrame(absl::string_view text, const ScreenSize& size,
                                     absl::string_view where_all);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_SCREEN_H_
