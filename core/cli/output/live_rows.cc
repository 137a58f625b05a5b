#include "core/cli/output/live_rows.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/cli/output/text_table.h"

namespace millrace::cli {
namespace {

// A program's letters may be wider than they look here: no row goes on in the next one.
constexpr absl::string_view kNoWrap = "\x1b[?7l";
constexpr absl::string_view kWrap = "\x1b[?7h";
constexpr size_t kMaxRows = 10;

std::string RowText(const LiveRows::Row& row, size_t columns, const Styler& style) {
  const std::string fitted = FitText(absl::StrCat(row.prefix, row.text), columns);
  if (!absl::StartsWith(fitted, row.prefix)) return style(row.style, fitted);
  return absl::StrCat(style(row.style, row.prefix), fitted.substr(row.prefix.size()));
}

}  // namespace

void LiveRows::Set(const std::string& key, Row row) {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const auto& known) { return known.first == key; });
  if (found == rows_.end()) {
    rows_.emplace_back(key, std::move(row));
  } else {
    found->second = std::move(row);
  }
}

void LiveRows::Remove(const std::string& key) {
  std::erase_if(rows_, [&](const auto& known) { return known.first == key; });
}

std::string LiveRows::Draw(const ScreenSize& size, const Styler& style) const {
  if (rows_.empty()) return "";
  // Half the screen is for what has happened.
  const size_t room = std::clamp<size_t>(size.rows / 2, 1, kMaxRows);
  const size_t shown = rows_.size() <= room ? rows_.size() : room - 1;
  std::string text = absl::StrCat(kEraseLiveRows, kNoWrap);
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "\r\n", RowText(rows_[i].second, size.columns, style));
  }
  if (shown < rows_.size()) {
    absl::StrAppend(
        &text, shown == 0 ? "" : "\r\n",
        style(Style::kDim, FitText(absl::StrCat(rows_.size() - shown, " more"), size.columns)));
  }
  const size_t below = shown < rows_.size() ? shown : shown - 1;
  absl::StrAppend(&text, "\r", below == 0 ? "" : absl::StrCat("\x1b[", below, "A"), kWrap);
  return text;
}

}  // namespace millrace::cli
