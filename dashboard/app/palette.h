// File: dashboard/app/palette.h
//
// The command palette: a field and the best matches of everything that can be done or found.
//
// Defines: Palette, PaletteItem, FuzzyScore().
//
// Thread safety: on the window's thread; FuzzyScore() is pure.

#ifndef DASHBOARD_APP_PALETTE_H_
#define DASHBOARD_APP_PALETTE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "dashboard/views/theme.h"

namespace millrace::dashboard {

struct PaletteItem {
  std::string text;
  std::string hint;  // key or kind, on the right
  std::function<void()> run;
};

// How well the letters of `query` stand in `text`, in order, ASCII case ignored: -1 if they do not,
// otherwise more is better.
[[nodiscard]] int FuzzyScore(absl::string_view query, absl::string_view text);

class Palette {
 public:
  void Open();
  [[nodiscard]] bool open() const { return open_; }
  // Draws it if it is open, and runs what was chosen. `items` is asked once for each text that is
  // typed.
  void Draw(const Theme& theme, float scale,
            absl::FunctionRef<std::vector<PaletteItem>(const std::string& query)> items);

 private:
  bool open_ = false;
  bool appearing_ = false;
  bool dirty_ = true;
  std::string query_;
  std::vector<PaletteItem> matches_;
  int chosen_ = 0;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_PALETTE_H_
