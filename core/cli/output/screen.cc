#include "core/cli/output/screen.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/cli/output/text_table.h"

namespace millrace::cli {
namespace {

// Cursor to the upper left corner, and everything from there on erased; what scrolled away stays.
constexpr char kHomeAndEraseBelow[] = "\x1b[H\x1b[J";

// `line` without the colours that a Styler put there.
std::string WithoutColours(absl::string_view line) {
  std::string plain;
  for (size_t at = 0; at < line.size(); ++at) {
    const size_t end = line[at] == '\x1b' ? line.find('m', at) : absl::string_view::npos;
    if (end == absl::string_view::npos) {
      plain.push_back(line[at]);
    } else {
      at = end;
    }
  }
  return plain;
}

// Rows that a terminal needs for it.
size_t RowsOf(absl::string_view line, size_t columns) {
  const size_t width = DisplayWidth(WithoutColours(line));
  return std::max<size_t>(1, (width + columns - 1) / columns);
}

// How many of `lines` fit into `rows`.
size_t FittingLines(const std::vector<absl::string_view>& lines, size_t rows, size_t columns) {
  size_t used = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    used += RowsOf(lines[i], columns);
    if (used > rows) return i;
  }
  return lines.size();
}

}  // namespace

size_t TerminalHeight(int fd, size_t fallback) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : fallback;
}

std::string NextFrame(absl::string_view text, const ScreenSize& size, absl::string_view where_all) {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  // The cursor stands on the last row, so that nothing scrolls.
  const size_t rows = std::max<size_t>(2, size.rows) - 1;
  size_t shown = FittingLines(lines, rows, size.columns);
  const bool cut = shown < lines.size();
  if (cut) shown = FittingLines(lines, rows - 1, size.columns);
  std::string frame = kHomeAndEraseBelow;
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&frame, lines[i], "\n");
  if (cut) {
    absl::StrAppend(&frame,
                    FitText(absl::StrCat("... ", lines.size() - shown, " more lines: ", where_all),
                            size.columns),
                    "\n");
  }
  return frame;
}

std::string FirstFrame(absl::string_view text, const ScreenSize& size,
                       absl::string_view where_all) {
  return std::string(size.rows, '\n') + NextFrame(text, size, where_all);
}

}  // namespace millrace::cli
