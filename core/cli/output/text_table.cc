#include "core/cli/output/text_table.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kMinColumn = 4;

size_t Total(const std::vector<size_t>& widths) {
  size_t columns = 0;
  for (const size_t width : widths) columns += width > 0 ? 1 : 0;
  return std::accumulate(widths.begin(), widths.end(), size_t{0}) +
         (columns > 0 ? (columns - 1) * kGap : 0);
}

// Takes `excess` from a column, at most down to kMinColumn; returns what is left of the excess.
size_t Shrink(size_t* width, size_t excess) {
  if (*width <= kMinColumn) return excess;
  const size_t taken = std::min(excess, *width - kMinColumn);
  *width -= taken;
  return excess - taken;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  // Every byte but the continuation ones.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string FitText(absl::string_view text, size_t width) {
  const std::string escaped = EscapeControls(text);
  if (DisplayWidth(escaped) <= width) return escaped;
  if (width == 0) return "";
  std::string fitted;
  absl::string_view rest = escaped;
  for (size_t column = 0; column + 1 < width && !rest.empty(); ++column) {
    const size_t length = std::max<size_t>(1, Utf8SequenceLength(rest));
    absl::StrAppend(&fitted, rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return fitted + "…";
}

void TextTable::AddRow(std::vector<Cell> row) {
  row.resize(header_.size(), Cell(""));
  rows_.push_back(std::move(row));
}

std::string TextTable::ToString(const Styler& style, size_t width) const {
  std::vector<size_t> widths(header_.size(), 0);
  for (const std::vector<Cell>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(EscapeControls(row[i].text)));
    }
  }
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] > 0) widths[i] = std::max(widths[i], header_[i].size());
  }
  size_t total = Total(widths);
  if (total > width && !widths.empty()) {
    size_t excess = Shrink(&widths.back(), total - width);
    // The first column tells rows apart: it gives way last.
    while (excess > 0) {
      const auto widest = std::max_element(widths.begin() + 1, widths.end());
      if (widest == widths.end() || Shrink(&*widest, 1) > 0) break;
      --excess;
    }
    Shrink(&widths.front(), excess);
  }

  const auto line = [&](const std::vector<Cell>& cells) {
    std::string text;
    size_t pending = 0;  // blanks before the next cell: none at the end of a line
    for (size_t i = 0; i < cells.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string fitted = FitText(cells[i].text, widths[i]);
      if (!fitted.empty())
        absl::StrAppend(&text, std::string(pending, ' '), style(cells[i].style, fitted));
      pending = (fitted.empty() ? pending : 0) + widths[i] - DisplayWidth(fitted) + kGap;
    }
    return text + "\n";
  };

  std::vector<Cell> header;
  for (const std::string& name : header_) header.emplace_back(name, Style::kBold);
  std::string text = line(header);
  for (const std::vector<Cell>& row : rows_) text += line(row);
  return text;
}

}  // namespace millrace::cli
