// File: core/cli/top/text_grid.h
//
// What a terminal shows, cell by cell, and the bytes that lead from one such picture to the next.
//
// Defines: Look, GridOptions, TextGrid, Changes().
//
//   TextGrid next({.columns = 80, .rows = 24});
//   next.Put(0, 0, "worker:1 is ready", {.style = Style::kGreen});
//   Write(Changes(shown, next));      // a few bytes, where little has changed
//
// Thread safety: not thread-safe; const methods may run concurrently. Blocking: never.
#ifndef CORE_CLI_TOP_TEXT_GRID_H_
#define CORE_CLI_TOP_TEXT_GRID_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/output/terminal.h"

namespace millrace::cli {

struct Look {
  Style style = Style::kPlain;
  bool bold = false;
  bool reverse = false;
  friend bool operator==(const Look&, const Look&) = default;
};

struct GridOptions {
  int columns = 80;
  int rows = 24;
  bool utf8 = true;    // false: what is not ASCII is replaced by what is like it, or by "?"
  bool colour = true;  // false: bold and reversed text stay, colours and dim text do not
};

class TextGrid {
 public:
  explicit TextGrid(const GridOptions& options);

  [[nodiscard]] const GridOptions& options() const { return options_; }
  [[nodiscard]] int columns() const { return options_.columns; }
  [[nodiscard]] int rows() const { return options_.rows; }

  // Writes `text` from (row, column) on, in at most `width` columns; what is longer ends with "…".
  // What lies outside is left out. Any bytes are accepted: controls are escaped, characters without
  // a width left out. Returns how many columns it took.
  int Put(int row, int column, absl::string_view text, const Look& look = {}, int width = 1 << 20);
  // The same with its end at column + width.
  void PutRight(int row, int column, absl::string_view text, const Look& look, int width);
  // Gives `width` cells this look, whatever stands there.
  void Paint(int row, int column, int width, const Look& look);

  // Without looks; no blanks at the ends of lines, each of which ends with "\n".
  [[nodiscard]] std::string Text() const;
  [[nodiscard]] std::string Line(int row) const;

 private:
  friend std::string Changes(const TextGrid* shown, const TextGrid& next);

  struct Cell {
    char32_t code = U' ';  // 0: the right half of the wide character before
    Look look;
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  [[nodiscard]] size_t At(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(options_.columns) +
           static_cast<size_t>(column);
  }
  void Set(int row, int column, char32_t code, int width, const Look& look);

  GridOptions options_;
  std::vector<Cell> cells_;
};

// What makes a terminal that shows `shown` show `next`: only what differs, in one synchronised
// update. Null, or a grid of another size: everything. Empty: nothing differs.
[[nodiscard]] std::string Changes(const TextGrid* shown, const TextGrid& next);

// Columns that Put() would take for it.
[[nodiscard]] int ColumnsOf(absl::string_view text);

// `text` in lines of at most `width` columns, broken at blanks where there are any; at most
// `max_lines`, of which the last one may be longer than `width`.
[[nodiscard]] std::vector<std::string> WrapText(absl::string_view text, int width,
                                                size_t max_lines);

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_TEXT_GRID_H_
