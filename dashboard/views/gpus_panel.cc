#include "dashboard/views/gpus_panel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dashboard/model/format.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr const char* kMetrics[kGpuMetrics] = {"utilisation", "memory",   "power",
                                               "temperature", "SM clock", "memory busy"};
constexpr ValueUnit kUnits[kGpuMetrics] = {ValueUnit::kPercent,   ValueUnit::kPercent,
                                           ValueUnit::kWatts,     ValueUnit::kCelsius,
                                           ValueUnit::kMegahertz, ValueUnit::kPercent};
// Lines of the plot below, when a host is looked at.
constexpr size_t kMaxLines = 8;
constexpr size_t kManyHosts = 1000;

}  // namespace

void GpusPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  if (version_ == model.hosts_version()) return;
  version_ = model.hosts_version();
  group_ = 1;
  for (const HostState& host : model.hosts())
    group_ = std::max(group_, static_cast<int>(host.gpus.size()));
  const bool many = model.hosts().size() > kManyHosts;
  places_.clear();
  group_hosts_.clear();
  for (size_t i = 0; i < model.hosts().size(); ++i) {
    const HostState& host = model.hosts()[i];
    // Where there are many, those that have not told yet have a place already: else the wall would
    // be painted anew with each that does.
    const bool waits =
        many && host.gpus.empty() && !host.nodes.empty() &&
        model.nodes()[static_cast<size_t>(host.nodes.front())].sampled == absl::InfinitePast();
    if (host.gpus.empty() && host.gpus_unknown.empty() && !waits) continue;
    for (int place = 0; place < group_; ++place) {
      const bool there = place < static_cast<int>(host.gpus.size());
      places_.push_back({there ? host.gpus[static_cast<size_t>(place)] : -1, static_cast<int>(i)});
    }
    group_hosts_.push_back(static_cast<int>(i));
  }
}

float GpusPanel::Ceiling(const DashboardModel& model) const {
  switch (static_cast<GpuMetric>(metric_)) {
    case GpuMetric::kPower: {
      const float limit = model.census().power_limit_watts;
      return limit > 0 ? limit : 700;
    }
    case GpuMetric::kTemperature:
      return 100;
    case GpuMetric::kClock: {
      const float limit = model.census().max_clock_mhz;
      return limit > 0 ? limit : 2000;
    }
    default:
      return 100;
  }
}

std::string GpusPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"host", "index", "uuid", "name", "owner", "utilisation_percent", "memory_percent",
                "memory_used_bytes", "memory_total_bytes", "power_watts", "temperature_celsius",
                "sm_clock_mhz", "throttle_reasons", "source", "error"});
  for (const GpuState& gpu : model.gpus()) {
    csv.Cell(gpu.host < 0 ? "" : model.hosts()[static_cast<size_t>(gpu.host)].name);
    csv.Cell(int64_t{gpu.index});
    csv.Cell(gpu.uuid);
    csv.Cell(gpu.name);
    csv.Cell(gpu.owner < 0 ? "" : model.NodeName(gpu.owner));
    csv.Cell(gpu.value(GpuMetric::kUtilization));
    csv.Cell(gpu.value(GpuMetric::kMemory));
    csv.Cell(gpu.memory_used_bytes);
    csv.Cell(gpu.memory_total_bytes);
    csv.Cell(gpu.value(GpuMetric::kPower));
    csv.Cell(gpu.value(GpuMetric::kTemperature));
    csv.Cell(gpu.value(GpuMetric::kClock));
    csv.Cell(absl::StrJoin(gpu.throttle_reasons, " "));
    csv.Cell(gpu.source);
    csv.Cell(gpu.error);
    csv.EndRow();
  }
  return csv.Take();
}

void GpusPanel::Toolbar(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const float px = context.scale;
  // What has changed is in metric_.
  static_cast<void>(Choice(theme, "metric", kMetrics, &metric_));
  ImGui::SameLine();
  if (IconButton(theme, icon::kDownload, "Export all GPUs as CSV"))
    commands->Export("gpus", Csv(context.model));
  PastMark(context);
  // The legend: the map with its ends.
  const float ceiling = Ceiling(context.model);
  const ValueUnit unit = kUnits[metric_];
  const std::string low = FormatValue(unit, 0);
  const std::string high = FormatValue(unit, ceiling);
  ImGui::PushFont(theme.fonts.mono, kSmallSize);
  const float bar = 120 * px;
  const float wanted =
      bar + ImGui::CalcTextSize(low.c_str()).x + ImGui::CalcTextSize(high.c_str()).x + 24 * px;
  ImGui::SameLine();
  if (ImGui::GetContentRegionAvail().x >= wanted) {
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x - wanted);
    ImGui::AlignTextToFramePadding();
    Text(theme, low, theme.dim);
    ImGui::SameLine(0, 6 * px);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float top = at.y + 6 * px;
    constexpr int kSteps = 24;
    for (int i = 0; i < kSteps; ++i) {
      const float x = at.x + bar * static_cast<float>(i) / kSteps;
      list->AddRectFilled(ImVec2(x, top), ImVec2(x + bar / kSteps + 1, top + 10 * px),
                          Viridis(static_cast<float>(i) / (kSteps - 1)));
    }
    ImGui::Dummy(ImVec2(bar, 1));
    ImGui::SameLine(0, 6 * px);
    Text(theme, high, theme.dim);
  } else {
    ImGui::NewLine();
  }
  ImGui::PopFont();
}

void GpusPanel::GpuTip(const ViewContext& context, const Place& place) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  if (!BeginTip()) return;
  const HostState& host = model.hosts()[static_cast<size_t>(place.host)];
  if (place.gpu < 0) {
    Text(theme, host.name, theme.text);
    Text(theme,
         host.gpus_unknown.empty() ? "has fewer GPUs"
                                   : absl::StrCat("GPUs not known: ", host.gpus_unknown),
         theme.dim);
  } else {
    const GpuState& gpu = model.gpus()[static_cast<size_t>(place.gpu)];
    Mono(theme, absl::StrCat(host.name, " GPU ", gpu.index, "  ", gpu.name), theme.text);
    if (gpu.owner >= 0)
      Text(theme, absl::StrCat("claimed by ", model.NodeName(gpu.owner)), theme.dim);
    for (int metric = 0; metric < kGpuMetrics; ++metric) {
      Mono(theme, FormatValue(kUnits[metric], gpu.values[static_cast<size_t>(metric)]), theme.text);
      ImGui::SameLine(90 * context.scale);
      Text(theme, kMetrics[metric], theme.dim);
    }
    if (!gpu.throttle_reasons.empty())
      Text(theme, absl::StrCat("throttled: ", absl::StrJoin(gpu.throttle_reasons, ", ")),
           gpu.throttled() ? theme.caution : theme.dim);
    if (!gpu.error.empty()) Text(theme, gpu.error, theme.bad);
    Text(theme,
         absl::StrCat("from ", gpu.source.empty() ? "?" : gpu.source, ", ",
                      FormatAge(gpu.time, model.now())),
         theme.dim);
  }
  EndTip();
}

void GpusPanel::Wall(const ViewContext& context, float height, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const float ceiling = Ceiling(model);
  int selected = -1;
  if (context.selection.gpu >= 0 && places_.size() <= 4096) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].gpu == context.selection.gpu) selected = static_cast<int>(i);
    }
  }
  const bool live = context.brush.live;
  const ByteHistory& past = model.gpu_history(static_cast<GpuMetric>(metric_));
  const bool few = places_.size() <= 256;
  // Without a GPU of the selected node's there is nothing to bring out.
  const bool dim_others = context.selection.node >= 0 &&
                          context.selection.node < static_cast<int>(model.nodes().size()) &&
                          !model.nodes()[static_cast<size_t>(context.selection.node)].gpus.empty();
  const uint64_t lit = static_cast<uint64_t>(context.selection.node + 1) * kGpuMetrics +
                       static_cast<uint64_t>(metric_);
  const CellGrid::Layout layout{
      .count = static_cast<int>(places_.size()),
      .group = group_,
      .selected = selected,
      .version =
          live ? model.version() : static_cast<uint64_t>(absl::ToUnixMillis(context.brush.to)),
      .look = lit,
      .max_cell_px = 64,
      .aspect = few ? 1.7F : 1.0F,
      .label = [&](int group) {
        return model.hosts()[static_cast<size_t>(group_hosts_[static_cast<size_t>(group)])].name;
      }};
  const CellGrid::Result result = grid_.Draw(
      theme, "##gpus", ImVec2(ImGui::GetContentRegionAvail().x, height), layout,
      [&](int i, bool with_text) {
        const Place& place = places_[static_cast<size_t>(i)];
        CellGrid::Cell cell;
        cell.color = theme.unknown;
        cell.hatched = true;
        if (place.gpu < 0) {
          if (model.hosts()[static_cast<size_t>(place.host)].gpus_unknown.empty())
            cell.dimmed = true;
          if (with_text) cell.text = "?";
          return cell;
        }
        const GpuState& gpu = model.gpus()[static_cast<size_t>(place.gpu)];
        const float value = live ? gpu.values[static_cast<size_t>(metric_)]
                                 : past.ValueAt(static_cast<size_t>(place.gpu), context.brush.to);
        if (Known(value) && !(live && model.IsOld(gpu.time))) {
          cell.hatched = false;
          cell.color = Viridis(value / ceiling);
        }
        cell.dimmed = theme.stale || (dim_others && gpu.owner != context.selection.node);
        cell.marked = gpu.throttled() || !gpu.error.empty();
        if (with_text) cell.text = Known(value) ? FormatNumber(std::round(value)) : "?";
        return cell;
      });
  if (result.hovered < 0) return;
  const Place& place = places_[static_cast<size_t>(result.hovered)];
  GpuTip(context, place);
  if (!result.clicked) return;
  Selection selection;
  selection.host = place.host;
  selection.gpu = place.gpu;
  if (place.gpu >= 0) selection.node = model.gpus()[static_cast<size_t>(place.gpu)].owner;
  commands->Select(selection);
}

void GpusPanel::Past(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const TimeRange range = Range(context);
  const auto metric = static_cast<GpuMetric>(metric_);
  const int points = PointsFor(ImGui::GetContentRegionAvail().x);
  std::vector<HistoryLine> lines;
  std::string title;
  const auto add = [&](int gpu, bool strong) {
    HistoryLine line{
        .name = model.GpuName(gpu), .color = theme.series[lines.size() % 8], .strong = strong};
    model.gpu_history(metric).Query(static_cast<size_t>(gpu), range.from, range.to, points,
                                    &line.points);
    lines.push_back(std::move(line));
  };
  const Selection& selection = context.selection;
  if (selection.gpu >= 0 && selection.gpu < static_cast<int>(model.gpus().size())) {
    title = absl::StrCat(kMetrics[metric_], " of ", model.GpuName(selection.gpu));
    add(selection.gpu, true);
  } else if (selection.node >= 0 && selection.node < static_cast<int>(model.nodes().size()) &&
             !model.nodes()[static_cast<size_t>(selection.node)].gpus.empty()) {
    title = absl::StrCat(kMetrics[metric_], " of ", model.NodeName(selection.node), "'s GPUs");
    for (const int gpu : model.nodes()[static_cast<size_t>(selection.node)].gpus) {
      if (lines.size() < kMaxLines) add(gpu, false);
    }
  } else if (metric == GpuMetric::kUtilization) {
    title = "mean utilisation of the nodes' GPUs";
    HistoryLine line{.name = "mean", .color = theme.accent};
    model.cluster_history(ClusterMetric::kGpuUtilization)
        .Query(0, range.from, range.to, points, &line.points);
    lines.push_back(std::move(line));
  } else {
    title = absl::StrCat(kMetrics[metric_], ": select a GPU or a node for its past");
  }
  Heading(theme, title);
  HistoryPlot(context, "##past", ImVec2(-1, -1), lines, kUnits[metric_], Ceiling(model), commands);
}

void GpusPanel::Draw(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  Refresh(context);
  if (model.gpus().empty()) {
    std::string why = "No node has reported about GPUs yet.";
    int without = 0;
    for (const HostState& host : model.hosts()) {
      if (!host.gpus_unknown.empty() && without++ == 0)
        why = absl::StrCat(host.name, ": ", host.gpus_unknown, ".");
    }
    EmptyState(context.theme, icon::kEye,
               without > 0 ? absl::StrCat("No GPUs can be read on these hosts (", without, " of ",
                                          model.hosts().size(), ")")
                           : "No GPUs",
               why);
    return;
  }
  Toolbar(context, commands);
  const float height = ImGui::GetContentRegionAvail().y;
  const float past = std::clamp(height * 0.3F, 90 * context.scale, 220 * context.scale);
  Wall(context, std::max(40.0F, height - past - 12 * context.scale), commands);
  Past(context, commands);
}

void GpusPanel::TakeChoices(const PanelView& other) {
  metric_ = static_cast<const GpusPanel&>(other).metric_;
}

}  // namespace millrace::dashboard
