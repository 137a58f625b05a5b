// File: core/cli/output/text_table.h
//
// Columns that fit a terminal.
//
//   TextTable table({"NODE", "STATE"});
//   table.AddRow({{"worker:1"}, {"running", Style::kGreen}});
//   std::cout << table.ToString(styler, width);
#ifndef CORE_CLI_OUTPUT_TEXT_TABLE_H_
#define CORE_CLI_OUTPUT_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/output/terminal.h"

namespace millrace::cli {

// Columns in text: UTF-8 sequences count as one.
[[nodiscard]] size_t DisplayWidth(absl::string_view text);
// `text` in at most `width` columns, with "…" where something was cut; control characters escaped.
[[nodiscard]] std::string FitText(absl::string_view text, size_t width);

class TextTable {
 public:
  struct Cell {
    Cell(std::string text, Style style = Style::kPlain)  // NOLINT: a cell is a text
        : text(std::move(text)), style(style) {}
    std::string text;
    Style style;
  };

  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}
  void AddRow(std::vector<Cell> row);

  // Lines with their ends. A table that is too wide has its last column cut, then the widest ones.
  // Columns without any text are left out.
  [[nodiscard]] std::string ToString(const Styler& style, size_t width) const;

 private:
  const std::vector<std::string> header_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_TEXT_TABLE_H_
