#include "dashboard/report/time_plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "dashboard/model/format.h"
#include "dashboard/report/html_text.h"

namespace millrace::dashboard {
namespace {

// Around what is drawn: names and values to the left, marks above, times below.
constexpr double kLeft = 104;
constexpr double kRight = 10;
constexpr double kTop = 14;
constexpr double kBottom = 18;
constexpr double kTickPx = 84;
constexpr double kLanePx = 15;
constexpr double kLetterPx = 6.2;

std::string Number(double value) { return absl::StrFormat("%.1f", value); }

// The place of times and values in a picture of this height.
struct Scale {
  const PlotFrame& frame;
  double height;  // of all of it
  double top = 1;

  [[nodiscard]] double right() const { return frame.width - kRight; }
  [[nodiscard]] double bottom() const { return height - kBottom; }
  [[nodiscard]] double X(absl::Time time) const {
    const double share = absl::FDivDuration(time - frame.from, frame.to - frame.from);
    return kLeft + std::clamp(share, 0.0, 1.0) * (right() - kLeft);
  }
  [[nodiscard]] double Y(double value) const {
    return bottom() - std::clamp(value / top, 0.0, 1.0) * (bottom() - kTop);
  }
};

void Text(double x, double y, absl::string_view anchor, absl::string_view css,
          absl::string_view text, std::string* svg) {
  absl::StrAppend(svg, "<text x=\"", Number(x), "\" y=\"", Number(y), "\" text-anchor=\"", anchor,
                  "\" class=\"", css, "\">", EscapeHtml(text), "</text>");
}

void Line(double x0, double y0, double x1, double y1, absl::string_view css, std::string* svg) {
  absl::StrAppend(svg, "<line x1=\"", Number(x0), "\" y1=\"", Number(y0), "\" x2=\"", Number(x1),
                  "\" y2=\"", Number(y1), "\" class=\"", css, "\"/>");
}

std::string Begin(const Scale& scale, absl::string_view what) {
  std::string svg =
      absl::StrCat("<svg viewBox=\"0 0 ", scale.frame.width, " ", Number(scale.height),
                   "\" role=\"img\" aria-label=\"", EscapeHtml(what), "\">");
  const double px = scale.right() - kLeft;
  const absl::Duration span = scale.frame.to - scale.frame.from;
  const absl::Duration step = TickStep(span, px / kTickPx);
  const absl::Time epoch = absl::UnixEpoch();
  absl::Time at = epoch + absl::Ceil(scale.frame.from - epoch, step);
  for (int count = 0; at <= scale.frame.to && count < 64; at += step, ++count) {
    const double x = scale.X(at);
    Line(x, kTop, x, scale.bottom(), "grid", &svg);
    if (x < kLeft + 20 || x > scale.right() - 20) continue;
    Text(x, scale.height - 5, "middle", "tick",
         absl::FormatTime(step < absl::Minutes(1) ? "%H:%M:%S" : "%H:%M", at, scale.frame.zone),
         &svg);
  }
  return svg;
}

// Diamond: a failure; triangle: a restart; bar: a node joined. Under the mouse, what it was.
std::string End(const Scale& scale, std::string svg) {
  for (const TimelineMark& mark : scale.frame.marks) {
    const double x = scale.X(mark.time);
    const char* const css = mark.kind == MarkKind::kFailure   ? "bad"
                            : mark.kind == MarkKind::kRestart ? "caution"
                                                              : "joined";
    absl::StrAppend(&svg, "<g class=\"mark ", css, "\"><title>",
                    EscapeHtml(FormatMark(mark, scale.frame.zone)), "</title>");
    Line(x, kTop, x, scale.bottom(), mark.event->first_cause ? "rule first" : "rule", &svg);
    const std::string at = absl::StrCat(Number(x), " ", Number(kTop - 6));
    if (mark.kind == MarkKind::kFailure) {
      absl::StrAppend(&svg, "<path d=\"M", at, "m-5 0l5-5 5 5-5 5z\"/>");
    } else if (mark.kind == MarkKind::kRestart) {
      absl::StrAppend(&svg, "<path d=\"M", at, "m-4.5 4l4.5-8 4.5 8z\"/>");
    } else {
      absl::StrAppend(&svg, "<path d=\"M", at, "m-1.5-4h3v8h-3z\"/>");
    }
    svg += "</g>";
  }
  return svg + "</svg>\n";
}

void ValueAxis(const Scale& scale, const std::function<std::string(double)>& format,
               std::string* svg) {
  for (const double share : {0.0, 0.5, 1.0}) {
    const double y = scale.Y(share * scale.top);
    Line(kLeft, y, scale.right(), y, "grid", svg);
    Text(kLeft - 6, y + 4, "end", "tick", format(share * scale.top), svg);
  }
}

std::string Legend(std::span<const PlotLine> lines) {
  if (lines.size() < 2) return "";
  std::string html = "<p class=\"legend\">";
  for (const PlotLine& line : lines) {
    absl::StrAppend(&html, "<span class=\"key ", line.color, "\"></span>",
                    EscapeHtml(line.name, 80), " ");
  }
  return html + "</p>\n";
}

// Unbroken stretches of points that are known: [first, last).
std::vector<std::pair<size_t, size_t>> Stretches(std::span<const HistoryPoint> points) {
  std::vector<std::pair<size_t, size_t>> stretches;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].mean)) continue;
    if (stretches.empty() || stretches.back().second != i) stretches.emplace_back(i, i);
    stretches.back().second = i + 1;
  }
  return stretches;
}

// From the point `first` to `last` (exclusive), or backwards.
template <typename Value>
void Append(const Scale& scale, std::span<const HistoryPoint> points, size_t first, size_t last,
            bool backwards, Value value, std::string* path) {
  for (size_t n = first; n < last; ++n) {
    const size_t i = backwards ? last - 1 - (n - first) : n;
    absl::StrAppend(path, path->empty() ? "M" : "L", Number(scale.X(points[i].time)), " ",
                    Number(scale.Y(value(i))));
  }
}

void Area(absl::string_view path, absl::string_view color, absl::string_view css,
          std::string* svg) {
  absl::StrAppend(svg, "<path d=\"", path, "Z\" class=\"", css, " ", color, "\"/>");
}

void Draw(const Scale& scale, const PlotLine& line, bool alone, std::string* svg) {
  const std::span<const HistoryPoint> points = line.points;
  std::string strokes;
  for (const auto& [first, last] : Stretches(points)) {
    const auto mean = [&](size_t i) { return points[i].mean; };
    if (alone) {
      std::string fill;
      Append(scale, points, first, last, false, mean, &fill);
      absl::StrAppend(&fill, "L", Number(scale.X(points[last - 1].time)), " ",
                      Number(scale.bottom()), "L", Number(scale.X(points[first].time)), " ",
                      Number(scale.bottom()));
      Area(fill, line.color, "fill", svg);
      const bool band =
          std::any_of(points.begin() + static_cast<ptrdiff_t>(first),
                      points.begin() + static_cast<ptrdiff_t>(last),
                      [](const HistoryPoint& point) { return point.max > point.min; });
      if (band) {
        std::string edge;
        Append(
            scale, points, first, last, false, [&](size_t i) { return points[i].max; }, &edge);
        Append(
            scale, points, first, last, true, [&](size_t i) { return points[i].min; }, &edge);
        Area(edge, line.color, "fill", svg);
      }
    }
    std::string stroke;
    Append(scale, points, first, last, false, mean, &stroke);
    // A single value is seen too.
    if (last - first == 1) stroke += "h1.5";
    strokes += stroke;
  }
  if (strokes.empty()) return;
  absl::StrAppend(svg, "<path d=\"", strokes, "\" class=\"line ", line.color, "\"/>");
}

}  // namespace

std::string LinePlot(const PlotFrame& frame, std::span<const PlotLine> lines,
                     const std::function<std::string(double)>& format, double ceiling) {
  double top = ceiling;
  if (ceiling == 0) {
    for (const PlotLine& line : lines) {
      for (const HistoryPoint& point : line.points) {
        if (std::isfinite(point.max)) top = std::max<double>(top, point.max);
      }
    }
    top = AxisTop(top * 1.05);
  }
  const Scale scale{.frame = frame, .height = static_cast<double>(frame.height), .top = top};
  std::string svg = Begin(scale, lines.empty() ? "" : lines.front().name);
  ValueAxis(scale, format, &svg);
  for (const PlotLine& line : lines) Draw(scale, line, lines.size() == 1, &svg);
  return Legend(lines) + End(scale, std::move(svg));
}

std::string StackPlot(const PlotFrame& frame, std::span<const PlotLine> lines,
                      const std::function<std::string(double)>& format) {
  if (lines.empty()) return "";
  const std::span<const HistoryPoint> points = lines.front().points;
  std::vector<double> below(points.size(), 0);
  std::vector<std::vector<double>> above;
  double top = 0;
  for (const PlotLine& line : lines) {
    std::vector<double> sums = below;
    for (size_t i = 0; i < sums.size() && i < line.points.size(); ++i) {
      if (std::isfinite(line.points[i].mean)) sums[i] += line.points[i].mean;
      top = std::max(top, sums[i]);
    }
    above.push_back(sums);
    below = std::move(sums);
  }
  const Scale scale{
      .frame = frame, .height = static_cast<double>(frame.height), .top = AxisTop(top)};
  std::string svg = Begin(scale, "states");
  ValueAxis(scale, format, &svg);
  for (size_t n = 0; n < lines.size(); ++n) {
    const auto upper = [&](size_t i) { return above[n][i]; };
    const auto lower = [&](size_t i) { return n == 0 ? 0 : above[n - 1][i]; };
    // Where nothing at all is known there is a gap.
    std::vector<HistoryPoint> any(points.begin(), points.end());
    for (size_t i = 0; i < any.size(); ++i) any[i].mean = above.back()[i] > 0 ? 1 : kUnknown;
    for (const auto& [first, last] : Stretches(any)) {
      std::string path;
      Append(scale, points, first, last, false, upper, &path);
      Append(scale, points, first, last, true, lower, &path);
      Area(path, lines[n].color, "stack", &svg);
    }
  }
  return Legend(lines) + End(scale, std::move(svg));
}

std::string LanePlot(const PlotFrame& frame, std::span<const PlotLane> lanes) {
  const Scale scale{.frame = frame,
                    .height = kTop + kBottom + kLanePx * static_cast<double>(lanes.size())};
  std::string svg = Begin(scale, "states of nodes");
  double y = kTop;
  for (const PlotLane& lane : lanes) {
    Text(kLeft - 6, y + kLanePx - 4, "end", "tick", Ellipsize(lane.name, 16), &svg);
    for (const PlotBar& bar : lane.bars) {
      const double x0 = scale.X(bar.from);
      const double x1 = std::max(scale.X(bar.to), x0 + 1.5);
      absl::StrAppend(&svg, "<rect x=\"", Number(x0), "\" y=\"", Number(y + 2), "\" width=\"",
                      Number(x1 - x0), "\" height=\"", Number(kLanePx - 4), "\" class=\"bar ",
                      bar.color, "\"><title>", EscapeHtml(bar.text), "</title></rect>");
      const absl::string_view word = absl::string_view(bar.text).substr(0, bar.text.find(' '));
      if (x1 - x0 > kLetterPx * static_cast<double>(word.size()) + 8) {
        Text(x0 + 4, y + kLanePx - 4, "start", "word", word, &svg);
      }
    }
    y += kLanePx;
  }
  return End(scale, std::move(svg));
}

}  // namespace millrace::dashboard
