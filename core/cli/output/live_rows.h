// File: core/cli/output/live_rows.h
//
// Lines that still change, such as progress bars, below whatever else is written on a terminal.
//
// Defines: LiveRows, kEraseLiveRows.
//
//   LiveRows rows;
//   rows.Set("worker:0", {.prefix = "worker:0| ", .style = Style::kCyan, .text = "10%"});
//   Write(absl::StrCat(kEraseLiveRows, "a whole line\n", rows.Draw(size, styler)));
#ifndef CORE_CLI_OUTPUT_LIVE_ROWS_H_
#define CORE_CLI_OUTPUT_LIVE_ROWS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/output/screen.h"
#include "core/cli/output/terminal.h"

namespace millrace::cli {

// Before anything else is written: from the cursor's line on, nothing is left.
inline constexpr absl::string_view kEraseLiveRows = "\r\x1b[J";

// Draw() leaves the cursor at the beginning of its first row. So whoever writes a line next,
// another process too, writes it over these rows, and erasing needs no count of them.
//
// Thread safety: none. Blocking: never.
class LiveRows {
 public:
  struct Row {
    std::string prefix;
    Style style = Style::kPlain;  // of the prefix
    std::string text;             // control characters are escaped
  };

  // Rows stay in the order in which they came.
  void Set(const std::string& key, Row row);
  void Remove(const std::string& key);

  // What shows them where the cursor is, each cut to the width of the screen; if there are many,
  // the first ones and how many more there are. Empty without rows.
  [[nodiscard]] std::string Draw(const ScreenSize& size, const Styler& style) const;

 private:
  std::vector<std::pair<std::string, Row>> rows_;  // by key
};

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_LIVE_ROWS_H_
