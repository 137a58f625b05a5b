// File: dashboard/views/history_plot.h
//
// Histories over the shared time axis: a plot with an axis in units and the value at the cursor,
// and the small line without axes that stands in tables.
//
// Defines: ValueUnit, FormatValue(), HistoryLine, HistoryPlot(), Sparkline(), TrendArrow(),
// BrushPlot(), SetupTimeTicks(), FirstTick(), TickLabel(), SharedMost(), MarkPlot(), MarkLine(),
// PointsFor().
//
//   const HistoryLine lines[] = {{"rows", points, theme.accent}};
//   HistoryPlot(context, "##rows", size, lines, ValueUnit::kRows, &commands);
//
// Dragging over a plot sets the time brush, a double click goes back to the live view, Ctrl and the
// wheel zoom about the cursor, a right click exports it as CSV. Gaps are drawn as gaps; a span with
// several values has its band from minimum to maximum under the mean. Failures, restarts and joins
// are marked; under the mouse a mark says what happened, and a click selects that event.
//
// Thread safety: between NewFrame() and Render(), on the window's thread.

#ifndef DASHBOARD_VIEWS_HISTORY_PLOT_H_
#define DASHBOARD_VIEWS_HISTORY_PLOT_H_

#include <span>
#include <string>
#include <vector>

#include "dashboard/model/history.h"
#include "dashboard/model/timeline.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

enum class ValueUnit {
  kNumber,
  kPercent,
  kFraction,
  kRows,
  kBytes,
  kBytesRate,
  kWatts,
  kCelsius,
  kMegahertz
};
// With the unit: "62%", "1.6 M rows/s"; kUnknown is "–".
[[nodiscard]] std::string FormatValue(ValueUnit unit, double value);

struct HistoryLine {
  std::string name;
  std::vector<HistoryPoint> points;  // in order
  ImU32 color = 0;
  bool strong = false;  // the selected one: 2 px
};

// Draws `lines` over the time brush; the y axis begins at zero and ends at `ceiling` or, if that is
// 0, above the greatest value: of both clusters, if two are beside each other.
void HistoryPlot(const ViewContext& context, const char* id, ImVec2 size,
                 std::span<const HistoryLine> lines, ValueUnit unit, float ceiling,
                 Commands* commands);

// For plots of other things over the same time, within BeginPlot(): ticks whose labels have room,
// and what hands do to the time brush. Seconds since 1970.
void SetupTimeTicks(const ViewContext& context, double from, double to, float width);
// The first tick at or after `from`: whole steps from the clock's zero, or from that of shared
// axes.
[[nodiscard]] double FirstTick(const ViewContext& context, double from, double step);
// "10:41:07", with steps of a minute or more "10:41"; of shared axes "+1:20", minutes and seconds.
[[nodiscard]] std::string TickLabel(const ViewContext& context, absl::Time time, double step);
// `value`, or what the other of two clusters had last under this id, if that is more. For limits of
// axes; -SharedMost(-value) is the least.
[[nodiscard]] double SharedMost(const ViewContext& context, const std::string& id, double value);
void BrushPlot(const ViewContext& context, double from, double to, Commands* commands);
// And marks of what happened meanwhile, drawn over the lines.
void MarkPlot(const ViewContext& context, double from, double to, Commands* commands);
// One mark's line from `top` to `bottom` at `x`.
void MarkLine(const ViewContext& context, ImDrawList* list, const TimelineMark& mark, float x,
              float top, float bottom);

// `points` between `from` and `to` as a line of its own scale (0 to the greatest value, or to
// `ceiling` if that is not 0), at the cursor, which it advances.
void Sparkline(const Theme& theme, ImVec2 size, std::span<const HistoryPoint> points,
               absl::Time from, absl::Time to, float ceiling, ImU32 color);

// On the current line, if the past is looked at: as of when the values beside it are. Not with
// shared axes, above which that stands for all of the panel.
void PastMark(const ViewContext& context);

// "↗", "→" or "↘": how the last seconds compare with the half minute before them. Empty: not known.
[[nodiscard]] const char* TrendArrow(const FloatHistory& history, absl::Time now);

// How many points a plot of this width can show: one for each pixel column, two vertices each.
[[nodiscard]] inline int PointsFor(float width) {
  return width < 8 ? 4 : static_cast<int>(width / 2);
}

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_HISTORY_PLOT_H_
