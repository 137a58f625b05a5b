// File: dashboard/report/time_plot.h
//
// Pictures over one time axis, as SVG: lines, areas that stand on each other, and bars; each with
// the marks of what happened meanwhile.
//
// Defines: PlotFrame, PlotLine, LinePlot(), StackPlot(), PlotBar, PlotLane, LanePlot().
//
//   const PlotFrame frame{.from = from, .to = to, .zone = zone, .marks = timeline.Marks(from, to,
//                         (to - from) / 200)};
//   page += LinePlot(frame, {{.name = "rows", .color = "s0", .points = points}},
//                    [](double rows) { return FormatSi(rows, "rows/s"); });
//
// A color is the name of a class in the page's style: "s0" to "s7" for series, "good", "bad" and so
// on for what colours mean. A gap in the points is a gap in the line. Sizes are bounded by the
// number of points, lines and lanes, which are the caller's; names are escaped here.
//
// Thread safety: pure functions.

#ifndef DASHBOARD_REPORT_TIME_PLOT_H_
#define DASHBOARD_REPORT_TIME_PLOT_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dashboard/model/history.h"
#include "dashboard/model/timeline.h"

namespace millrace::dashboard {

struct PlotFrame {
  absl::Time from;
  absl::Time to;  // after `from`
  absl::TimeZone zone;
  std::vector<TimelineMark> marks;
  int width = 880;  // in CSS pixels at the size of the page; pictures shrink with it
  int height = 120;
};

struct PlotLine {
  std::string name;  // in the legend, if there are several
  std::string color;
  std::vector<HistoryPoint> points;  // in order
};

// The y axis begins at zero and ends at `ceiling` or, if that is 0, above the greatest value.
[[nodiscard]] std::string LinePlot(const PlotFrame& frame, std::span<const PlotLine> lines,
                                   const std::function<std::string(double)>& format,
                                   double ceiling = 0);

// `lines` stand on each other, the first at the bottom. Their points are at the same times; a value
// that is not known counts as none.
[[nodiscard]] std::string StackPlot(const PlotFrame& frame, std::span<const PlotLine> lines,
                                    const std::function<std::string(double)>& format);

struct PlotBar {
  absl::Time from;
  absl::Time to;
  std::string color;
  std::string text;  // under the mouse, and in it where there is room; complete in itself
};
struct PlotLane {
  std::string name;
  std::vector<PlotBar> bars;
};

// A row for each lane; its height is as much as they need.
[[nodiscard]] std::string LanePlot(const PlotFrame& frame, std::span<const PlotLane> lanes);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_REPORT_TIME_PLOT_H_
