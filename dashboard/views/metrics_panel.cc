#include "dashboard/views/metrics_panel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dashboard/model/format.h"
#include "dashboard/model/table_rows.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"
#include "implot.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kMaxLines = 32;    // in one plot
constexpr size_t kMaxPoints = 600;  // of one line
constexpr size_t kMaxPlots = 24;
// Lines are rebuilt no more often than this; nobody can read them faster.
constexpr absl::Duration kRefreshEvery = absl::Milliseconds(500);

int FormatValueAxis(double value, char* buffer, int size, void*) {
  const std::string text = FormatNumber(std::round(value * 1e6) / 1e6);
  return snprintf(buffer, static_cast<size_t>(size), "%s", text.c_str());
}

double Seconds(absl::Time time) { return absl::ToUnixMicros(time) / 1e6; }

// Round numbers of steps. A label stands around its tick: near the right edge it would be cut.
void SetupStepTicks(double from, double to, float width, float scale) {
  const double wanted = std::max(1.0, (to - from) * (70 * scale) / std::max(80.0F, width));
  const double tens = std::pow(10.0, std::floor(std::log10(wanted)));
  double step = 10 * tens;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * tens >= wanted) step = factor * tens;
  }
  const double last = to - (to - from) * (30 * scale) / std::max(80.0F, width);
  std::vector<double> places;
  std::vector<std::string> labels;
  for (double at = std::ceil(from / step) * step; at <= last && places.size() < 64; at += step) {
    places.push_back(at);
    labels.push_back(FormatSi(at, ""));
  }
  std::vector<const char*> texts;
  for (const std::string& label : labels) texts.push_back(label.c_str());
  ImPlot::SetupAxisTicks(ImAxis_X1, places.data(), static_cast<int>(places.size()), texts.data());
}

}  // namespace

void MetricsPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  const bool other = cluster_ != context.cluster || selected_ != context.selection.node;
  if (!dirty_ && !other &&
      (version_ == model.version() ||
       absl::AbsDuration(model.now() - refreshed_) < kRefreshEvery)) {
    return;
  }
  dirty_ = false;
  cluster_ = context.cluster;
  selected_ = context.selection.node;
  version_ = model.version();
  refreshed_ = model.now();
  plots_.clear();
  for (const std::string& name : model.metrics().names()) {
    if (!Matches(name, filter_) || plots_.size() >= kMaxPlots) continue;
    Plot& plot = plots_.emplace_back();
    plot.name = name;
    plot.x_min = plot.y_min = 1e300;
    plot.x_max = plot.y_max = -1e300;
    for (const MetricSeries* series : model.metrics().SeriesOf(name)) {
      if (plot.lines.size() >= kMaxLines && series->executor_id() != selected_) {
        ++plot.left_out;
        continue;
      }
      Line& line = plot.lines.emplace_back();
      line.executor_id = series->executor_id();
      line.label = model.NodeName(line.executor_id);
      const std::vector<MetricSample>& samples = series->samples();
      line.last = samples.back().value;
      const std::vector<float> smooth = Smooth(samples, smoothing_);
      const size_t stride = (samples.size() + kMaxPoints - 1) / kMaxPoints;
      uint32_t attempt = 0;
      for (size_t i = 0; i < samples.size(); ++i) {
        if (i % stride != 0 && i + 1 != samples.size()) continue;
        const double x =
            axis_ == 0 ? static_cast<double>(samples[i].step) : Seconds(samples[i].time);
        if (!line.x.empty() && samples[i].attempt != attempt) {
          // The line of an attempt ends with it.
          line.x.push_back(line.x.back());
          line.y.push_back(std::numeric_limits<double>::quiet_NaN());
          if (smoothing_ > 0) line.raw.push_back(line.y.back());
        }
        attempt = samples[i].attempt;
        line.x.push_back(x);
        line.y.push_back(smooth[i]);
        if (smoothing_ > 0) line.raw.push_back(samples[i].value);
        plot.x_min = std::min(plot.x_min, x);
        plot.x_max = std::max(plot.x_max, x);
        for (const double y :
             {static_cast<double>(smooth[i]), static_cast<double>(samples[i].value)}) {
          if (!std::isfinite(y) || (log_ && y <= 0)) continue;
          plot.y_min = std::min(plot.y_min, y);
          plot.y_max = std::max(plot.y_max, y);
        }
      }
    }
    if (plot.x_max <= plot.x_min) {
      plot.x_min -= 0.5;
      plot.x_max = plot.x_min + 1;
    }
    if (plot.y_max < plot.y_min) {
      plot.y_min = log_ ? 0.1 : 0;
      plot.y_max = 1;
    }
    const double room =
        std::max((plot.y_max - plot.y_min) * 0.06, std::fabs(plot.y_max) * 1e-3 + 1e-9);
    if (log_) {
      plot.y_min *= 0.8;
      plot.y_max *= 1.25;
    } else {
      plot.y_min -= room;
      plot.y_max += room;
    }
  }
}

std::string MetricsPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"metric", "executor_id", "node", "step", "time", "attempt", "value"});
  for (const Plot& plot : plots_) {
    for (const MetricSeries* series : model.metrics().SeriesOf(plot.name)) {
      for (const MetricSample& sample : series->samples()) {
        csv.Cell(plot.name);
        csv.Cell(int64_t{series->executor_id()});
        csv.Cell(model.NodeName(series->executor_id()));
        csv.Cell(sample.step);
        csv.Cell(FormatDateTime(sample.time, model.options().zone));
        csv.Cell(int64_t{sample.attempt});
        csv.Cell(static_cast<double>(sample.value));
        csv.EndRow();
      }
    }
  }
  return csv.Take();
}

void MetricsPanel::Toolbar(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  if (FilterField(theme, "##metrics", "metric   /", context.focus_filter, 160, context.scale,
                  &filter_)) {
    dirty_ = true;
  }
  ImGui::SameLine();
  static constexpr const char* kAxes[] = {"steps", "time"};
  if (Choice(theme, "axis", kAxes, &axis_)) dirty_ = true;
  ImGui::SameLine();
  static constexpr const char* kScales[] = {"linear", "log"};
  int scale = log_ ? 1 : 0;
  if (Choice(theme, "scale", kScales, &scale)) {
    log_ = scale == 1;
    dirty_ = true;
  }
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  Text(theme, absl::StrFormat("smooth %.2f", static_cast<double>(smoothing_)), theme.dim);
  ImGui::SameLine();
  ImGui::SetNextItemWidth(90 * context.scale);
  if (ImGui::SliderFloat("##smooth", &smoothing_, 0.0F, 0.99F, "")) dirty_ = true;
  ImGui::SameLine();
  if (IconButton(theme, icon::kDownload, "Export these metrics as CSV")) {
    commands->Export("metrics", Csv(context.model));
  }
  if (!alone_.empty()) {
    ImGui::SameLine();
    if (ImGui::Button("all metrics")) alone_.clear();
  }
}

void MetricsPanel::DrawPlot(const ViewContext& context, const Plot& plot, ImVec2 size,
                            Commands* commands) {
  const Theme& theme = context.theme;
  ImGui::PushID(plot.name.c_str());
  ImGui::BeginGroup();
  if (ImGui::Selectable("##alone", false, 0, ImVec2(size.x, ImGui::GetTextLineHeight()))) {
    alone_ = alone_.empty() ? plot.name : "";
  }
  Tip(alone_.empty() ? "Give it all the room" : "Show all metrics");
  ImGui::SameLine(4);
  ImGui::PushFont(theme.fonts.strong, kTextSize);
  Text(theme, plot.name, theme.text);
  ImGui::PopFont();
  ImGui::SameLine();
  std::string facts;
  if (plot.lines.size() == 1) {
    facts = absl::StrCat(plot.lines[0].label, "  ", FormatNumber(plot.lines[0].last));
  } else {
    double low = 1e300, high = -1e300;
    for (const Line& line : plot.lines) {
      low = std::min(low, line.last);
      high = std::max(high, line.last);
    }
    facts = absl::StrCat(plot.lines.size() + plot.left_out, " nodes, now ", FormatNumber(low),
                         " to ", FormatNumber(high));
    if (plot.left_out > 0) absl::StrAppend(&facts, "; ", plot.lines.size(), " drawn");
  }
  SmallText(theme, facts, theme.dim);
  constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoMenus |
                                 ImPlotFlags_NoBoxSelect | ImPlotFlags_NoMouseText |
                                 ImPlotFlags_NoInputs | ImPlotFlags_NoLegend;
  const ImVec2 room(size.x, size.y - ImGui::GetTextLineHeightWithSpacing());
  if (ImPlot::BeginPlot("##plot", room, kFlags)) {
    const absl::TimeZone zone = context.model.options().zone;
    ImPlot::SetupAxes(nullptr, nullptr, ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    if (log_) ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    // Over time it is the span of all panels, over steps all of them.
    const TimeRange range = Range(context);
    const auto most = [&](absl::string_view what, double value) {
      return SharedMost(context, absl::StrCat(plot.name, what), value);
    };
    const double from = axis_ == 0 ? -most(" from", -plot.x_min) : Seconds(range.from);
    const double to = axis_ == 0 ? most(" to", plot.x_max) : std::max(Seconds(range.to), from + 1);
    ImPlot::SetupAxisLimits(ImAxis_X1, from, to, ImPlotCond_Always);
    ImPlot::SetupAxisLimits(ImAxis_Y1, -most(" low", -plot.y_min), most(" high", plot.y_max),
                            ImPlotCond_Always);
    ImPlot::SetupAxisFormat(ImAxis_Y1, FormatValueAxis, nullptr);
    if (axis_ == 0) {
      SetupStepTicks(from, to, size.x, context.scale);
    } else {
      SetupTimeTicks(context, from, to, size.x);
    }
    ImPlot::SetupFinish();
    const bool any_selected =
        std::any_of(plot.lines.begin(), plot.lines.end(),
                    [&](const Line& line) { return line.executor_id == context.selection.node; });
    const auto draw = [&](const Line& line, bool selected) {
      const size_t color = static_cast<size_t>(line.executor_id) % std::size(theme.series);
      const float alpha = selected                                      ? 1.0F
                          : any_selected                                ? 0.3F
                          : plot.lines.size() > std::size(theme.series) ? 0.65F
                                                                        : 1.0F;
      ImPlotSpec spec;
      spec.LineColor = ImGui::ColorConvertU32ToFloat4(
          Fade(plot.lines.size() == 1 ? theme.accent : theme.series[color], alpha));
      spec.LineWeight = (selected ? 2.0F : 1.25F) * context.scale;
      if (!line.raw.empty() && (selected || plot.lines.size() <= 4)) {
        ImPlotSpec faint = spec;
        faint.LineColor.w *= 0.25F;
        faint.LineWeight = context.scale;
        ImPlot::PlotLine(absl::StrCat("##raw", line.executor_id).c_str(), line.x.data(),
                         line.raw.data(), static_cast<int>(line.x.size()), faint);
      }
      ImPlot::PlotLine(absl::StrCat(line.label, "##", line.executor_id).c_str(), line.x.data(),
                       line.y.data(), static_cast<int>(line.x.size()), spec);
    };
    for (const Line& line : plot.lines) {
      if (line.executor_id != context.selection.node) draw(line, false);
    }
    for (const Line& line : plot.lines) {
      if (line.executor_id == context.selection.node) draw(line, true);
    }
    if (ImPlot::IsPlotHovered()) {
      // The line nearest to the mouse.
      const ImPlotPoint mouse = ImPlot::GetPlotMousePos();
      const Line* nearest = nullptr;
      size_t at = 0;
      float distance = 24 * context.scale;
      for (const Line& line : plot.lines) {
        const auto place = std::lower_bound(line.x.begin(), line.x.end(), mouse.x);
        const size_t i = std::min(static_cast<size_t>(place - line.x.begin()), line.x.size() - 1);
        const ImVec2 pixels = ImPlot::PlotToPixels(line.x[i], line.y[i]);
        const float away = std::fabs(pixels.y - ImGui::GetIO().MousePos.y);
        if (Known(line.y[i]) && away < distance) {
          distance = away;
          nearest = &line;
          at = i;
        }
      }
      if (nearest != nullptr) {
        const ImVec2 pixels = ImPlot::PlotToPixels(nearest->x[at], nearest->y[at]);
        ImPlot::GetPlotDrawList()->AddCircleFilled(pixels, 3.5F * context.scale, theme.text);
        if (ImGui::BeginTooltip()) {
          Text(theme, nearest->label, theme.text);
          Mono(theme,
               absl::StrCat(plot.name, " ",
                            FormatNumber(nearest->raw.empty() ? nearest->y[at] : nearest->raw[at]),
                            nearest->raw.empty() ? "" : "  smoothed ",
                            nearest->raw.empty() ? "" : FormatNumber(nearest->y[at])),
               theme.text);
          Mono(theme,
               axis_ == 0
                   ? absl::StrCat("step ", FormatCount(static_cast<int64_t>(nearest->x[at])))
                   : FormatClock(absl::FromUnixMicros(static_cast<int64_t>(nearest->x[at] * 1e6)),
                                 zone),
               theme.dim);
          ImGui::EndTooltip();
        }
        if (ImGui::IsMouseClicked(0)) {
          Selection selection = context.selection;
          selection.node = nearest->executor_id;
          commands->Select(selection);
        }
      }
    }
    if (axis_ == 1) {
      MarkPlot(context, from, to, commands);
      BrushPlot(context, from, to, commands);
    }
    ImPlot::EndPlot();
  }
  ImGui::EndGroup();
  ImGui::PopID();
}

void MetricsPanel::Draw(const ViewContext& context, Commands* commands) {
  if (context.model.metrics().size() == 0) {
    EmptyState(context.theme, icon::kEye, "No metrics yet",
               "A program reports its own with NodeContext::ReportMetric(name, step, value).");
    return;
  }
  Toolbar(context, commands);
  Refresh(context);
  if (plots_.empty()) {
    EmptyState(context.theme, icon::kSearch, "No metric matches", "Search fewer letters.");
    return;
  }
  if (ImGui::BeginChild("plots", ImGui::GetContentRegionAvail())) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = 8 * context.scale;
    const auto alone = std::find_if(plots_.begin(), plots_.end(),
                                    [this](const Plot& plot) { return plot.name == alone_; });
    if (alone != plots_.end()) {
      DrawPlot(context, *alone, ImVec2(room.x, room.y - gap), commands);
    } else {
      const size_t fit = std::max<size_t>(1, static_cast<size_t>(room.x / (300 * context.scale)));
      const size_t columns = std::min(fit, plots_.size());
      const size_t rows = (plots_.size() + columns - 1) / columns;
      const ImVec2 size(
          (room.x - gap * static_cast<float>(columns - 1)) / static_cast<float>(columns),
          std::max(180 * context.scale,
                   (room.y - gap * static_cast<float>(rows)) / static_cast<float>(rows)));
      for (size_t i = 0; i < plots_.size(); ++i) {
        if (i % columns != 0) ImGui::SameLine(0, gap);
        DrawPlot(context, plots_[i], size, commands);
      }
    }
  }
  ImGui::EndChild();
}

void MetricsPanel::TakeChoices(const PanelView& other) {
  const auto& from = static_cast<const MetricsPanel&>(other);
  const auto choices = [](const MetricsPanel& panel) {
    return std::tie(panel.filter_, panel.alone_, panel.smoothing_, panel.axis_, panel.log_);
  };
  dirty_ = dirty_ || choices(*this) != choices(from);
  std::tie(filter_, alone_, smoothing_, axis_, log_) = choices(from);
}

}  // namespace millrace::dashboard
