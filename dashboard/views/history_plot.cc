#include "dashboard/views/history_plot.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "dashboard/model/format.h"
#include "dashboard/views/widgets.h"
#include "implot.h"

namespace millrace::dashboard {
namespace {

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }
absl::Time FromSeconds(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// As AxisTop(), in powers of two above a KiB: memory.
double AxisTopBytes(double value) {
  double unit = 1;
  while (value > unit * 1024 && unit < 1e18) unit *= 1024;
  return AxisTop(value / unit) * unit;
}

int FormatTick(double value, char* buffer, int size, void* data) {
  const std::string text = FormatValue(*static_cast<ValueUnit*>(data), value);
  const auto length = std::min(text.size(), static_cast<size_t>(size - 1));
  std::copy_n(text.data(), length, buffer);
  buffer[length] = '\0';
  return static_cast<int>(length);
}

// One unbroken stretch of points.
struct Run {
  std::vector<double> x, mean, low, high;
};

std::vector<Run> Runs(const std::vector<HistoryPoint>& points) {
  std::vector<Run> runs;
  bool open = false;
  for (const HistoryPoint& point : points) {
    if (!Known(point.mean)) {
      open = false;
      continue;
    }
    if (!open) runs.emplace_back();
    open = true;
    Run& run = runs.back();
    run.x.push_back(Seconds(point.time));
    run.mean.push_back(point.mean);
    run.low.push_back(point.min);
    run.high.push_back(point.max);
  }
  return runs;
}

const HistoryPoint* Nearest(const HistoryLine& line, double at) {
  const HistoryPoint* nearest = nullptr;
  const absl::Time time = FromSeconds(at);
  const auto after =
      std::lower_bound(line.points.begin(), line.points.end(), time,
                       [](const HistoryPoint& point, absl::Time t) { return point.time < t; });
  for (auto it : {after, after == line.points.begin() ? after : after - 1}) {
    if (it == line.points.end() || !Known(it->mean)) continue;
    if (nearest == nullptr ||
        absl::AbsDuration(it->time - time) < absl::AbsDuration(nearest->time - time)) {
      nearest = &*it;
    }
  }
  return nearest;
}

void CursorTip(const ViewContext& context, std::span<const HistoryLine> lines, ValueUnit unit,
               double at) {
  if (!ImGui::BeginTooltip()) return;
  Mono(context.theme, FormatClock(FromSeconds(at), context.model.options().zone),
       context.theme.dim);
  size_t shown = 0;
  for (const HistoryLine& line : lines) {
    const HistoryPoint* point = Nearest(line, at);
    if (point == nullptr && lines.size() > 1) continue;
    if (++shown > 12) break;
    Mono(context.theme, point == nullptr ? "–" : FormatValue(unit, point->mean), line.color);
    ImGui::SameLine();
    Text(context.theme, line.name, context.theme.text);
    if (point != nullptr && point->max > point->min * 1.02F && lines.size() == 1) {
      SmallText(context.theme,
                absl::StrCat("from ", FormatValue(unit, point->min), " to ",
                             FormatValue(unit, point->max)),
                context.theme.dim);
    }
  }
  SmallText(context.theme, "Drag: this span everywhere. Right click: CSV", context.theme.dim);
  ImGui::EndTooltip();
}

std::string Csv(const ViewContext& context, std::span<const HistoryLine> lines) {
  CsvTable csv({"time", "line", "mean", "min", "max"});
  for (const HistoryLine& line : lines) {
    for (const HistoryPoint& point : line.points) {
      csv.Cell(FormatDateTime(point.time, context.model.options().zone));
      csv.Cell(line.name);
      csv.Cell(static_cast<double>(point.mean));
      csv.Cell(static_cast<double>(point.min));
      csv.Cell(static_cast<double>(point.max));
      csv.EndRow();
    }
  }
  return csv.Take();
}

}  // namespace

double FirstTick(const ViewContext& context, double from, double step) {
  const double zero = context.shared == nullptr ? 0 : Seconds(context.shared->zero);
  return zero + std::ceil((from - zero) / step) * step;
}

std::string TickLabel(const ViewContext& context, absl::Time time, double step) {
  if (context.shared == nullptr) {
    return absl::FormatTime(step < 60 ? "%H:%M:%S" : "%H:%M", time, context.model.options().zone);
  }
  const auto since = std::llround(absl::ToDoubleSeconds(time - context.shared->zero));
  const auto seconds = std::llabs(since);
  const char* sign = since < 0 ? "-" : since > 0 ? "+" : "";
  if (seconds < 3600) return absl::StrFormat("%s%d:%02d", sign, seconds / 60, seconds % 60);
  return absl::StrFormat("%s%d:%02d:%02d", sign, seconds / 3600, seconds / 60 % 60, seconds % 60);
}

double SharedMost(const ViewContext& context, const std::string& id, double value) {
  if (context.shared == nullptr) return value;
  (*context.shared->mine)[id] = value;
  const auto other = context.shared->theirs->find(id);
  return other == context.shared->theirs->end() ? value : std::max(value, other->second);
}

void SetupTimeTicks(const ViewContext& context, double from, double to, float width) {
  const double step = absl::ToDoubleSeconds(
      TickStep(absl::Seconds(to - from), std::max(0.0F, width) / (90 * context.scale)));
  std::vector<double> places;
  std::vector<std::string> labels;
  // A label stands around its tick: near the right edge it would be cut.
  const double last = to - (to - from) * (30 * context.scale) / std::max(60.0F, width);
  for (double at = FirstTick(context, from, step); at <= last && places.size() < 64; at += step) {
    places.push_back(at);
    labels.push_back(TickLabel(context, FromSeconds(at), step));
  }
  std::vector<const char*> texts;
  texts.reserve(labels.size());
  for (const std::string& label : labels) texts.push_back(label.c_str());
  ImPlot::SetupAxisTicks(ImAxis_X1, places.data(), static_cast<int>(places.size()), texts.data());
}

void BrushPlot(const ViewContext& context, double from, double to, Commands* commands) {
  const ImVec2 min = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  const ImVec2 max(min.x + size.x, min.y + size.y);
  const ImGuiIO& io = ImGui::GetIO();
  const auto time_at = [&](float x) {
    return from + (to - from) * std::clamp((x - min.x) / std::max(1.0F, size.x), 0.0F, 1.0F);
  };
  const ImVec2 down = io.MouseClickedPos[0];
  const bool began_here = down.x >= min.x && down.x <= max.x && down.y >= min.y && down.y <= max.y;
  const bool dragged = io.MouseDragMaxDistanceSqr[0] > 36 && ImGui::IsWindowFocused();
  if (began_here && dragged && ImGui::IsMouseDown(0)) {
    ImPlot::GetPlotDrawList()->AddRectFilled(
        ImVec2(std::clamp(std::min(down.x, io.MousePos.x), min.x, max.x), min.y),
        ImVec2(std::clamp(std::max(down.x, io.MousePos.x), min.x, max.x), max.y),
        Fade(context.theme.accent, 0.2F));
  }
  if (began_here && dragged && ImGui::IsMouseReleased(0)) {
    const double begin = time_at(std::min(down.x, io.MousePos.x));
    const double end = time_at(std::max(down.x, io.MousePos.x));
    if (end - begin >= 1) {
      commands->SetBrush({.live = false,
                          .span = context.brush.span,
                          .from = FromSeconds(begin),
                          .to = FromSeconds(end)});
    }
  }
  if (!ImGui::IsWindowHovered() || !ImGui::IsMouseHoveringRect(min, max)) return;
  if (ImGui::IsMouseDoubleClicked(0)) {
    commands->SetBrush({.live = true, .span = context.brush.span});
  } else if (io.MouseWheel != 0 && io.KeyCtrl) {
    const double factor = io.MouseWheel > 0 ? 0.8 : 1.25;
    if (context.brush.live) {
      TimeBrush brush = context.brush;
      brush.span = std::clamp(brush.span * factor, absl::Seconds(10), absl::Hours(1));
      commands->SetBrush(brush);
    } else {
      const double at = time_at(io.MousePos.x);
      commands->SetBrush({.live = false,
                          .span = context.brush.span,
                          .from = FromSeconds(at - (at - from) * factor),
                          .to = FromSeconds(at + (to - at) * factor)});
    }
  }
}

namespace {

// A mark's shape is this wide, and so far apart are marks at least.
constexpr float kMarkPx = 9;

ImU32 MarkColor(const Theme& theme, MarkKind kind) {
  return kind == MarkKind::kFailure   ? theme.bad
         : kind == MarkKind::kRestart ? theme.caution
                                      : theme.joined;
}

}  // namespace

void MarkLine(const ViewContext& context, ImDrawList* list, const TimelineMark& mark, float x,
              float top, float bottom) {
  const bool strong = mark.event->first_cause ||
                      context.selection.event == static_cast<int64_t>(mark.event->number);
  list->AddLine(ImVec2(x, top), ImVec2(x, bottom),
                Fade(MarkColor(context.theme, mark.kind), strong ? 1.0F : 0.45F),
                (strong ? 1.5F : 1.0F) * context.scale);
}

void MarkPlot(const ViewContext& context, double from, double to, Commands* commands) {
  const ImVec2 min = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  const ImVec2 max(min.x + size.x, min.y + size.y);
  const double px = (to - from) / std::max(1.0F, size.x);  // seconds
  const float half = kMarkPx / 2 * context.scale;
  ImDrawList* list = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool hovered = ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(min, max);
  std::optional<TimelineMark> hit;
  for (const TimelineMark& mark : context.model.timeline().Marks(FromSeconds(from), FromSeconds(to),
                                                                 absl::Seconds(px * 2 * half))) {
    const float x = min.x + static_cast<float>((Seconds(mark.time) - from) / px);
    MarkLine(context, list, mark, x, min.y, max.y);
    const ImU32 color = MarkColor(context.theme, mark.kind);
    const float y = min.y + half + 1;
    if (mark.kind == MarkKind::kFailure) {
      list->AddNgonFilled(ImVec2(x, y), half, color, 4);
    } else if (mark.kind == MarkKind::kRestart) {
      list->AddTriangleFilled(ImVec2(x, y - half), ImVec2(x + half, y + half * 0.8F),
                              ImVec2(x - half, y + half * 0.8F), color);
    } else {
      list->AddRectFilled(ImVec2(x - half * 0.35F, y - half), ImVec2(x + half * 0.35F, y + half),
                          color);
    }
    if (hovered && std::fabs(mouse.x - x) <= half) hit = mark;
  }
  ImPlot::PopPlotClipRect();
  if (!hit.has_value()) return;
  if (ImGui::BeginTooltip()) {
    ImGui::PushTextWrapPos(ImGui::GetFontSize() * 40);
    Text(context.theme, FormatMark(*hit, context.model.options().zone),
         MarkColor(context.theme, hit->kind));
    ImGui::PopTextWrapPos();
    ImGui::EndTooltip();
  }
  if (ImGui::IsMouseReleased(0) && ImGui::GetIO().MouseDragMaxDistanceSqr[0] <= 36) {
    Selection selection = context.selection;
    selection.event = static_cast<int64_t>(hit->event->number);
    if (hit->event->executor_id >= 0) selection.node = hit->event->executor_id;
    commands->Select(selection);
  }
}

std::string FormatValue(ValueUnit unit, double value) {
  if (!Known(value)) return "–";
  switch (unit) {
    case ValueUnit::kNumber:
      return FormatNumber(value);
    case ValueUnit::kPercent:
      return FormatPercent(value);
    case ValueUnit::kFraction:
      return FormatFraction(value);
    case ValueUnit::kRows:
      return FormatSi(value, "rows/s");
    case ValueUnit::kBytes:
      return FormatBytes(value);
    case ValueUnit::kBytesRate:
      return FormatBytesRate(value);
    case ValueUnit::kWatts:
      return absl::StrCat(FormatNumber(std::round(value)), " W");
    case ValueUnit::kCelsius:
      return absl::StrCat(FormatNumber(std::round(value)), " °C");
    case ValueUnit::kMegahertz:
      return absl::StrCat(FormatNumber(std::round(value)), " MHz");
  }
  return "–";
}

void HistoryPlot(const ViewContext& context, const char* id, ImVec2 size,
                 std::span<const HistoryLine> lines, ValueUnit unit, float ceiling,
                 Commands* commands) {
  constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoMenus |
                                 ImPlotFlags_NoBoxSelect | ImPlotFlags_NoMouseText |
                                 ImPlotFlags_NoInputs;
  ImGui::PushFont(context.theme.fonts.mono, kSmallSize);
  if (!ImPlot::BeginPlot(id, size, lines.size() > 1 ? kFlags : kFlags | ImPlotFlags_NoLegend)) {
    ImGui::PopFont();
    return;
  }
  const TimeRange range = Range(context);
  const double from = Seconds(range.from);
  const double to = std::max(Seconds(range.to), from + 1);
  double top = ceiling;
  if (ceiling == 0) {
    for (const HistoryLine& line : lines) {
      for (const HistoryPoint& point : line.points) {
        if (Known(point.max)) top = std::max<double>(top, point.max);
      }
    }
    top = SharedMost(context, id, top);
    top = unit == ValueUnit::kBytes ? AxisTopBytes(top * 1.05) : AxisTop(top * 1.05);
  }
  ImPlot::SetupAxes(nullptr, nullptr, ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
  ImPlot::SetupAxisLimits(ImAxis_X1, from, to, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, top, ImPlotCond_Always);
  ValueUnit tick_unit = unit;
  ImPlot::SetupAxisFormat(ImAxis_Y1, FormatTick, &tick_unit);
  const double ticks[] = {0, top / 2, top};
  std::string tick_texts[3];
  const char* tick_labels[3];
  for (int i = 0; i < 3; ++i) {
    tick_texts[i] = FormatValue(unit, ticks[i]);
    tick_labels[i] = tick_texts[i].c_str();
  }
  ImPlot::SetupAxisTicks(ImAxis_Y1, ticks, 3, tick_labels);
  SetupTimeTicks(context, from, to, size.x > 0 ? size.x : ImGui::GetContentRegionAvail().x);
  ImPlot::SetupLegend(ImPlotLocation_NorthWest, ImPlotLegendFlags_Horizontal |
                                                    ImPlotLegendFlags_NoButtons |
                                                    ImPlotLegendFlags_Outside);
  ImPlot::SetupFinish();

  for (const HistoryLine& line : lines) {
    ImPlotSpec spec;
    spec.LineColor = ImGui::ColorConvertU32ToFloat4(line.color);
    spec.FillColor = spec.LineColor;
    spec.LineWeight = (line.strong ? 2.0F : 1.25F) * context.scale;
    const std::string label = line.name.empty() ? "##line" : line.name;
    for (const Run& run : Runs(line.points)) {
      const auto count = static_cast<int>(run.x.size());
      ImPlotSpec fill = spec;
      fill.FillAlpha = 0.25F;
      if (lines.size() == 1) {
        ImPlotSpec area = spec;
        area.FillAlpha = 0.16F;
        ImPlot::PlotShaded(label.c_str(), run.x.data(), run.mean.data(), count, 0, area);
      }
      ImPlot::PlotShaded(label.c_str(), run.x.data(), run.low.data(), run.high.data(), count, fill);
      ImPlot::PlotLine(label.c_str(), run.x.data(), run.mean.data(), count, spec);
    }
  }
  const ImVec2 min = ImPlot::GetPlotPos();
  const ImVec2 extent = ImPlot::GetPlotSize();
  const ImVec2 max(min.x + extent.x, min.y + extent.y);
  if (ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(min, max)) {
    const float x = ImGui::GetIO().MousePos.x;
    ImPlot::GetPlotDrawList()->AddLine(ImVec2(x, min.y), ImVec2(x, max.y),
                                       Fade(context.theme.dim, 0.6F));
    CursorTip(context, lines, unit, from + (to - from) * (x - min.x) / std::max(1.0F, extent.x));
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Right)) {
      absl::string_view name = id;
      absl::ConsumePrefix(&name, "##");
      commands->Export(absl::StrCat("plot-", name), Csv(context, lines));
    }
  }
  MarkPlot(context, from, to, commands);
  BrushPlot(context, from, to, commands);
  ImPlot::EndPlot();
  ImGui::PopFont();
}

void Sparkline(const Theme& theme, ImVec2 size, std::span<const HistoryPoint> points,
               absl::Time from, absl::Time to, float ceiling, ImU32 color) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  float top = ceiling;
  if (ceiling == 0) {
    for (const HistoryPoint& point : points) {
      if (Known(point.max)) top = std::max(top, point.max);
    }
  }
  if (top <= 0) top = 1;
  const double span = std::max(1.0, absl::ToDoubleSeconds(to - from));
  list->AddLine(ImVec2(at.x, at.y + size.y), ImVec2(at.x + size.x, at.y + size.y), theme.line);
  const auto place = [&](const HistoryPoint& point) {
    const double x = absl::ToDoubleSeconds(point.time - from) / span;
    return ImVec2(at.x + static_cast<float>(x) * size.x,
                  at.y + size.y - 1 - std::clamp(point.mean / top, 0.0F, 1.0F) * (size.y - 2));
  };
  std::vector<ImVec2> run;
  const auto flush = [&] {
    if (run.size() > 1) {
      list->AddPolyline(run.data(), static_cast<int>(run.size()), color,
                        1.25F * ImGui::GetStyle().FontScaleDpi);
    } else if (run.size() == 1) {
      list->AddRectFilled(ImVec2(run[0].x - 0.5F, run[0].y - 0.5F),
                          ImVec2(run[0].x + 1, run[0].y + 1), color);
    }
    run.clear();
  };
  list->PushClipRect(at, ImVec2(at.x + size.x, at.y + size.y + 1), true);
  for (const HistoryPoint& point : points) {
    if (Known(point.mean)) {
      run.push_back(place(point));
    } else {
      flush();
    }
  }
  flush();
  list->PopClipRect();
  ImGui::Dummy(size);
}

void PastMark(const ViewContext& context) {
  if (context.brush.live || context.shared != nullptr) return;
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  SmallText(context.theme,
            absl::StrCat(icon::kClock, "  as of ",
                         FormatClock(context.brush.to, context.model.options().zone)),
            context.theme.caution);
}

const char* TrendArrow(const FloatHistory& history, absl::Time now) {
  std::vector<HistoryPoint> points;
  const auto mean = [&](absl::Time from, absl::Time to) {
    history.Query(0, from, to, 1, &points);
    return points.empty() ? kUnknown : points.front().mean;
  };
  const float lately = mean(now - absl::Seconds(8), now);
  const float before = mean(now - absl::Seconds(40), now - absl::Seconds(8));
  if (!Known(lately) || !Known(before)) return "";
  const float least = std::max(std::fabs(before), std::fabs(lately)) * 0.05F;
  return lately > before + least ? "↗" : lately < before - least ? "↘" : "→";
}

}  // namespace millrace::dashboard
