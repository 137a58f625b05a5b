#include "dashboard/views/nodes_panel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/model/table_rows.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

// A panel beside the others in a window of 1280 pixels has room for 760.
constexpr float kWide = 1000;
constexpr float kMiddle = 690;  // more than a half of the smallest window
constexpr TableColumn kHeaders[kNodeColumns] = {
    {.name = "node", .tip = "Role and task", .width_px = 92},
    {.name = "host", .tip = "Where it runs", .width_px = 84, .from_px = kMiddle},
    {.name = "pid", .tip = "Of its program", .width_px = 66, .number = true, .from_px = kWide},
    {.name = "state",
     .tip = "On the ladder from requested to finished",
     .width_px = 86,
     .most_first = true},
    {.name = "for",
     .tip = "Time in this state",
     .width_px = 74,
     .number = true,
     .most_first = true},
    {.name = "try",
     .tip = "Attempt: how often it was started again",
     .width_px = 28,
     .number = true,
     .most_first = true},
    {.name = "CPU", .tip = "100% is one core", .width_px = 48, .number = true, .most_first = true},
    {.name = "memory",
     .tip = "Resident, of the program and its children",
     .width_px = 72,
     .number = true,
     .most_first = true},
    {.name = "threads",
     .tip = "Of the program",
     .width_px = 58,
     .number = true,
     .most_first = true,
     .from_px = kWide},
    {.name = "GPU",
     .tip = "Mean utilisation of the GPUs that it has claimed",
     .width_px = 44,
     .number = true,
     .most_first = true},
    {.name = "rows/s",
     .tip = "Rows received from its feeders",
     .width_px = 62,
     .number = true,
     .most_first = true},
    {.name = "starved",
     .tip = "Share of time in which its program waited for rows",
     .width_px = 62,
     .number = true,
     .most_first = true,
     .from_px = kWide},
    {.name = "metric",
     .tip = "The newest that it reported",
     .width_px = 150,
     .most_first = true,
     .from_px = kWide}};

}  // namespace

NodesPanel::NodesPanel() : table_("nodes", kHeaders) {}

void NodesPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  const uint64_t version = table_.by_value() ? model.version() : model.slots_version();
  if (!dirty_ && order_version_ == version) return;
  dirty_ = false;
  order_version_ = version;
  order_.clear();
  for (const NodeState& node : model.nodes()) {
    if (states_ == 1 && (node.state == v1::SLOT_STATE_RUNNING || node.ended())) continue;
    if (states_ == 2 && node.state != v1::SLOT_STATE_FAILED && node.state != v1::SLOT_STATE_LOST)
      continue;
    if (!Matches(node.name, filter_) && !Matches(node.host, filter_) &&
        !Matches(SlotStateText(node.state), filter_))
      continue;
    order_.push_back(node.executor_id);
  }
  table_.Sort(&order_, [&](int id, int column) {
    return NodeSortKey(model, model.nodes()[static_cast<size_t>(id)],
                       static_cast<NodeColumn>(column));
  });
}

std::string NodesPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"executor_id", "node", "host", "pid", "state", "state_seconds", "attempt",
                "cpu_percent", "rss_bytes", "threads", "gpu_percent", "rows_per_second",
                "starved_fraction", "backpressured_fraction", "last_metric", "last_metric_value",
                "error"});
  for (const int id : order_) {
    const NodeState& node = model.nodes()[static_cast<size_t>(id)];
    csv.Cell(int64_t{node.executor_id});
    csv.Cell(node.name);
    csv.Cell(node.host);
    csv.Cell(node.pid);
    csv.Cell(SlotStateText(node.state));
    csv.Cell(SecondsInState(model, node));
    csv.Cell(int64_t{node.attempt});
    csv.Cell(node.cpu_percent);
    csv.Cell(node.rss_bytes);
    csv.Cell(node.threads);
    csv.Cell(MeanGpuUtilization(model, node));
    csv.Cell(node.rows_per_second);
    csv.Cell(node.starved);
    csv.Cell(node.backpressured);
    csv.Cell(node.last_metric);
    csv.Cell(node.last_metric_value);
    csv.Cell(node.error);
    csv.EndRow();
  }
  return csv.Take();
}

void NodesPanel::Toolbar(const ViewContext& context, Commands* commands) {
  if (FilterField(context.theme, "##filter", "node, host or state   /", context.focus_filter, 240,
                  context.scale, &filter_))
    dirty_ = true;
  ImGui::SameLine();
  static constexpr const char* kStates[] = {"all", "not running", "failed"};
  if (Choice(context.theme, "states", kStates, &states_)) dirty_ = true;
  ImGui::SameLine();
  SmallText(context.theme,
            absl::StrCat(FormatCount(static_cast<int64_t>(order_.size())), " of ",
                         FormatCount(static_cast<int64_t>(context.model.nodes().size()))),
            context.theme.dim);
  ImGui::SameLine();
  if (IconButton(context.theme, icon::kDownload, "Export this table as CSV"))
    commands->Export("nodes", Csv(context.model));
  PastMark(context);
}

void NodesPanel::Row(const ViewContext& context, const NodeState& node, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const bool old =
      model.health().stale || (node.sampled != absl::InfinitePast() && model.IsOld(node.sampled));
  const ImU32 ink = old ? theme.dim : theme.text;
  const auto at = [&](NodeMetric metric, float newest) {
    return context.brush.live ? newest
                              : model.node_history(metric).ValueAt(
                                    static_cast<size_t>(node.executor_id), context.brush.to);
  };
  ImGui::TableNextRow(0, kRowHeight * context.scale);
  ImGui::TableNextColumn();
  ImGui::PushID(node.executor_id);
  if (ImGui::Selectable("##row", context.selection.node == node.executor_id,
                        ImGuiSelectableFlags_SpanAllColumns)) {
    commands->Select({.node = node.executor_id, .host = node.host_index});
  }
  if (BeginTip()) {
    Text(theme, absl::StrCat(node.name, " (executor ", node.executor_id, ")"), theme.text);
    if (!node.error.empty()) Text(theme, node.error, theme.bad);
    Text(theme,
         node.sampled == absl::InfinitePast()
             ? "No sample of it has come yet."
             : absl::StrCat("Sampled ", FormatAge(node.sampled, model.now()), " by its agent."),
         theme.dim);
    EndTip();
  }
  ImGui::PopID();
  ImGui::SameLine(0, 0);
  Mono(theme, node.name, theme.text);
  ImGui::TableNextColumn();
  Mono(theme, node.host, theme.dim);
  ImGui::TableNextColumn();
  MonoRight(theme, node.pid == 0 ? "–" : absl::StrCat(node.pid), theme.dim);
  ImGui::TableNextColumn();
  StateBadge(theme, node.state, node.stopped ? "stopped" : SlotStateText(node.state));
  ImGui::TableNextColumn();
  MonoRight(theme,
            node.since() == absl::InfinitePast() ? "–" : FormatSpan(model.now() - node.since()),
            theme.dim);
  ImGui::TableNextColumn();
  MonoRight(theme, absl::StrCat(node.attempt), node.attempt > 0 ? theme.caution : theme.dim);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatPercent(at(NodeMetric::kCpu, node.cpu_percent)), ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatBytes(at(NodeMetric::kRss, node.rss_bytes)), ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatNumber(node.threads), ink);
  ImGui::TableNextColumn();
  const float gpu = MeanGpuUtilization(model, node);
  if (Known(gpu)) {
    MonoRight(theme, FormatPercent(gpu), ink);
  } else {
    MonoRight(theme, "–", theme.dim);
  }
  ImGui::TableNextColumn();
  const float rows = at(NodeMetric::kRows, node.rows_per_second);
  MonoRight(theme, Known(rows) ? FormatSi(rows, "") : "–", ink);
  ImGui::TableNextColumn();
  const float starved = at(NodeMetric::kStarved, node.starved);
  MonoRight(theme, FormatFraction(starved), Known(starved) && starved > 0.5F ? theme.starved : ink);
  ImGui::TableNextColumn();
  if (!node.last_metric.empty()) {
    ImGui::PushFont(theme.fonts.mono, kMonoSize);
    ShortenedText(absl::StrCat(node.last_metric, " ", FormatNumber(node.last_metric_value)), ink);
    ImGui::PopFont();
  }
}

void NodesPanel::Draw(const ViewContext& context, Commands* commands) {
  if (context.model.nodes().empty()) {
    EmptyState(context.theme, icon::kClock, "No nodes yet",
               "Slots appear as soon as the driver has asked for them.");
    return;
  }
  Refresh(context);
  Toolbar(context, commands);
  if (!table_.Begin(context.theme, context.scale, ImGuiTableFlags_ScrollX, /*frozen=*/1)) return;
  if (table_.TakeChange()) {
    dirty_ = true;
    Refresh(context);
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(order_.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      Row(context, context.model.nodes()[static_cast<size_t>(order_[static_cast<size_t>(i)])],
          commands);
    }
  }
  table_.End();
}

void NodesPanel::TakeChoices(const PanelView& other) {
  const auto& from = static_cast<const NodesPanel&>(other);
  dirty_ = dirty_ || filter_ != from.filter_ || states_ != from.states_;
  filter_ = from.filter_;
  states_ = from.states_;
  table_.TakeOrder(from.table_);
}

}  // namespace millrace::dashboard
