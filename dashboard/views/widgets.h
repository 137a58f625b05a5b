// File: dashboard/views/widgets.h
//
// Small things that all panels draw with: headings, numbers, badges, bars, hatching, empty states,
// tooltips, CSV.
//
// Defines: Heading(), Text(), Mono(), MonoRight(), SmallText(), ShortenedText(), WrappedText(),
// Fact(), StateBadge(), StackedBar(), MeterBar(), Hatch(), LegendEntry(), EmptyState(),
// BeginTip()/EndTip(), IconButton(), Choice(), FilterField(), CsvTable.
//
// Sizes in pixels are before HiDPI scaling where a parameter is named `..._px`; everything that
// takes ImVec2 is in screen pixels.
//
// Thread safety: between NewFrame() and Render(), on the window's thread.

#ifndef DASHBOARD_VIEWS_WIDGETS_H_
#define DASHBOARD_VIEWS_WIDGETS_H_

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/coordinator.pb.h"
#include "dashboard/views/theme.h"
#include "imgui.h"

namespace millrace::dashboard {

// A quiet title within a panel: small capitals' place in a dense layout.
void Heading(const Theme& theme, absl::string_view text);
// Text as it is (never a format) in one of the fonts.
void Text(const Theme& theme, absl::string_view text, ImU32 color);
void Mono(const Theme& theme, absl::string_view text, ImU32 color);
// Ends at the right edge of the column or window.
void MonoRight(const Theme& theme, absl::string_view text, ImU32 color);
void SmallText(const Theme& theme, absl::string_view text, ImU32 color);
// On one line: what has no room ends in an ellipsis, and a tooltip has all of it unless `tip` is
// false (the caller has one of its own).
void ShortenedText(absl::string_view text, ImU32 color, bool tip = true);
// The same in the current font without taking room: from `at` to `right`.
void DrawShortened(ImDrawList* list, ImVec2 at, float right, absl::string_view text, ImU32 color);
// Wraps at the right edge, but not between a number and its unit.
void WrappedText(absl::string_view text, ImU32 color);
// The text with spaces that do not break between numbers and their units.
[[nodiscard]] std::string WithUnitsKept(absl::string_view text);
// One row of a two-column table of facts that BeginFacts() has begun: dim name, value in mono.
// Empty values are left out.
bool BeginFacts(const char* id, float name_px, float scale);
void Fact(const Theme& theme, const char* name, absl::string_view value);
void Fact(const Theme& theme, const char* name, absl::string_view value, ImU32 color);
void EndFacts();

// A shape and the state's name in its colour: circle for what lives, square for what waits, diamond
// for what ended badly.
void StateBadge(const Theme& theme, v1::SlotState state, absl::string_view text);
void StateShape(ImDrawList* list, ImVec2 center, float radius, const Theme& theme,
                v1::SlotState state);

struct BarPart {
  float value = 0;  // of the bar's total
  ImU32 color = 0;
};
// Parts side by side; what is left of `total` stays empty. Advances the cursor.
void StackedBar(const Theme& theme, ImVec2 size, float total, std::span<const BarPart> parts);
// 0 to 1; kUnknown is drawn hatched.
void MeterBar(const Theme& theme, ImVec2 size, float value, ImU32 color);
// Diagonal lines: "not known".
void Hatch(ImDrawList* list, ImVec2 min, ImVec2 max, ImU32 color);

// A square of the colour and what it means, in small letters, on the current line.
void LegendEntry(const Theme& theme, ImU32 color, absl::string_view text);

// In the middle of what is left of the panel: what is missing, and what would bring it.
void EmptyState(const Theme& theme, const char* icon, absl::string_view title,
                absl::string_view text);

// A tooltip after 300 ms over the last item. EndTip() only if it returned true.
[[nodiscard]] bool BeginTip();
void EndTip();
// One of the whole truth: wrapped text.
void Tip(absl::string_view text);

// A flat button that shows an icon; `what` is its tooltip and its id.
[[nodiscard]] bool IconButton(const Theme& theme, const char* icon, const char* what);
// A switch among a few: flat, the chosen one in the accent. Returns true if `chosen` changed.
[[nodiscard]] bool Choice(const Theme& theme, const char* id, std::span<const char* const> names,
                          int* chosen);
// The same among spans of time, from a minute to an hour; the one that holds `span` is the chosen
// one. Returns true if `span` changed.
[[nodiscard]] bool SpanChoice(const Theme& theme, absl::Duration* span);
// The same among speeds at which recordings are played.
[[nodiscard]] bool SpeedChoice(const Theme& theme, double* speed);
// A field with a magnifying glass; takes the keyboard if `focus`. Returns true if `text` changed.
[[nodiscard]] bool FilterField(const Theme& theme, const char* id, const char* hint, bool focus,
                               float width_px, float scale, std::string* text);

// Quotes as RFC 4180.
class CsvTable {
 public:
  CsvTable(std::initializer_list<absl::string_view> columns);
  void Cell(absl::string_view text);
  // An empty cell for what is not known.
  void Cell(double number);
  void Cell(int64_t number);
  void EndRow();
  [[nodiscard]] std::string Take() { return std::move(text_); }

 private:
  void Separate();
  std::string text_;
  bool row_begun_ = false;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_WIDGETS_H_
