#include "dashboard/views/nodes_panel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

enum Column {
  kNode,
  kHost,
  kPid,
  kState,
  kAge,
  kAttempt,
  kCpu,
  kRss,
  kThreads,
  kGpu,
  kRows,
  kStarved,
  kMetric,
  kColumns
};

// Mean over the GPUs that it has claimed; kUnknown without any.
float GpuUtilization(const DashboardModel& model, const NodeState& node) {
  float sum = 0;
  int count = 0;
  for (const int gpu : node.gpus) {
    const float value = model.gpus()[static_cast<size_t>(gpu)].value(GpuMetric::kUtilization);
    if (!Known(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? kUnknown : sum / static_cast<float>(count);
}

double SortKey(const DashboardModel& model, const NodeState& node, int column) {
  switch (column) {
    case kPid:
      return static_cast<double>(node.pid);
    case kState:
      return static_cast<double>(node.state);
    case kAge:
      return node.since() == absl::InfinitePast()
                 ? kUnknown
                 : absl::ToDoubleSeconds(model.now() - node.since());
    case kAttempt:
      return node.attempt;
    case kCpu:
      return node.cpu_percent;
    case kRss:
      return node.rss_bytes;
    case kThreads:
      return node.threads;
    case kGpu:
      return GpuUtilization(model, node);
    case kRows:
      return node.rows_per_second;
    case kStarved:
      return node.starved;
    case kMetric:
      return node.last_metric_value;
    default:
      return node.executor_id;
  }
}

}  // namespace

void NodesPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  if (!dirty_ && order_version_ == model.version()) return;
  dirty_ = false;
  order_version_ = model.version();
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
  if (column_ == kNode && !descending_) return;
  if (column_ == kHost) {
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
      const std::string& x = model.nodes()[static_cast<size_t>(a)].host;
      const std::string& y = model.nodes()[static_cast<size_t>(b)].host;
      return descending_ ? y < x : x < y;
    });
    return;
  }
  std::vector<std::pair<double, int>> keyed;
  keyed.reserve(order_.size());
  for (const int id : order_)
    keyed.emplace_back(SortKey(model, model.nodes()[static_cast<size_t>(id)], column_), id);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    // What is not known comes last either way.
    if (!Known(a.first) || !Known(b.first)) return Known(a.first) && !Known(b.first);
    return descending_ ? b.first < a.first : a.first < b.first;
  });
  for (size_t i = 0; i < keyed.size(); ++i) order_[i] = keyed[i].second;
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
    csv.Cell(SortKey(model, node, kAge));
    csv.Cell(int64_t{node.attempt});
    csv.Cell(node.cpu_percent);
    csv.Cell(node.rss_bytes);
    csv.Cell(node.threads);
    csv.Cell(GpuUtilization(model, node));
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
}

void NodesPanel::Row(const ViewContext& context, const NodeState& node, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const bool old =
      model.health().stale || (node.sampled != absl::InfinitePast() && model.IsOld(node.sampled));
  const ImU32 ink = old ? theme.dim : theme.text;
  ImGui::TableNextRow(0, 22 * context.scale);
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
  MonoRight(theme, FormatPercent(node.cpu_percent), ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatBytes(node.rss_bytes), ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatNumber(node.threads), ink);
  ImGui::TableNextColumn();
  const float gpu = GpuUtilization(model, node);
  if (Known(gpu)) {
    MonoRight(theme, FormatPercent(gpu), ink);
  } else {
    MonoRight(theme, "–", theme.dim);
  }
  ImGui::TableNextColumn();
  MonoRight(theme, Known(node.rows_per_second) ? FormatSi(node.rows_per_second, "") : "–", ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatFraction(node.starved),
            Known(node.starved) && node.starved > 0.5F ? theme.starved : ink);
  ImGui::TableNextColumn();
  if (!node.last_metric.empty()) {
    Mono(theme, absl::StrCat(node.last_metric, " ", FormatNumber(node.last_metric_value)), ink);
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
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_Sortable | ImGuiTableFlags_ScrollY | ImGuiTableFlags_ScrollX |
      ImGuiTableFlags_RowBg | ImGuiTableFlags_Hideable | ImGuiTableFlags_Reorderable |
      ImGuiTableFlags_Resizable | ImGuiTableFlags_BordersInnerV | ImGuiTableFlags_SizingFixedFit |
      ImGuiTableFlags_NoBordersInBody;
  const bool narrow = ImGui::GetContentRegionAvail().x < 1000 * context.scale;
  if (!ImGui::BeginTable("nodes", kColumns, kFlags)) return;
  const float px = context.scale;
  struct Header {
    const char* name;
    float width;
    ImGuiTableColumnFlags flags;
  };
  constexpr ImGuiTableColumnFlags kMostFirst = ImGuiTableColumnFlags_PreferSortDescending;
  static constexpr Header kHeaders[kColumns] = {
      {"node", 92, ImGuiTableColumnFlags_DefaultSort | ImGuiTableColumnFlags_NoHide},
      {"host", 84, 0},
      {"pid", 66, 0},
      {"state", 86, kMostFirst},
      {"for", 74, kMostFirst},
      {"try", 28, kMostFirst},
      {"CPU", 48, kMostFirst},
      {"memory", 72, kMostFirst},
      {"threads", 58, kMostFirst},
      {"GPU", 44, kMostFirst},
      {"rows/s", 62, kMostFirst},
      {"starved", 62, kMostFirst},
      {"metric", 150, kMostFirst}};
  for (const Header& header : kHeaders)
    ImGui::TableSetupColumn(header.name, ImGuiTableColumnFlags_WidthFixed | header.flags,
                            header.width * px);
  if (narrow != narrow_) {
    narrow_ = narrow;
    for (const int column : {kPid, kThreads, kStarved, kMetric})
      ImGui::TableSetColumnEnabled(column, !narrow);
  }
  ImGui::TableSetupScrollFreeze(1, 1);
  ImGui::PushStyleColor(ImGuiCol_Text, context.theme.dim);
  ImGui::TableHeadersRow();
  ImGui::PopStyleColor();
  if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
      specs != nullptr && specs->SpecsDirty) {
    if (specs->SpecsCount > 0) {
      column_ = specs->Specs[0].ColumnIndex;
      descending_ = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
    }
    specs->SpecsDirty = false;
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
  ImGui::EndTable();
}

}  // namespace millrace::dashboard
