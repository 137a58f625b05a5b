#include "dashboard/views/feed_panel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dashboard/model/format.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

enum Column {
  kNode,
  kQueue,
  kRows,
  kBytes,
  kShare,
  kStarved,
  kFull,
  kCredit,
  kQueued,
  kSessions,
  kColumns
};

double SortKey(const NodeState& node, const QueueState& queue, int column) {
  switch (column) {
    case kRows:
      return queue.rows_per_second;
    case kBytes:
      return queue.bytes_per_second;
    case kShare:
      return queue.compute;
    case kStarved:
      return queue.starved;
    case kFull:
      return queue.backpressured;
    case kCredit:
      return static_cast<double>(queue.credit_bytes);
    case kQueued:
      return static_cast<double>(queue.queued_rows);
    case kSessions:
      return queue.open_sessions;
    default:
      return node.executor_id;
  }
}

}  // namespace

void FeedPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  if (!dirty_ && version_ == model.version()) return;
  dirty_ = false;
  version_ = model.version();
  lanes_.clear();
  for (const NodeState& node : model.nodes()) {
    for (size_t i = 0; i < node.queues.size(); ++i) {
      if (!Matches(node.name, filter_) && !Matches(node.queues[i].name, filter_)) continue;
      lanes_.push_back({node.executor_id, static_cast<int>(i)});
    }
  }
  const auto queue_of = [&](const Lane& lane) -> const QueueState& {
    return model.nodes()[static_cast<size_t>(lane.node)].queues[static_cast<size_t>(lane.queue)];
  };
  if (column_ == kQueue) {
    std::stable_sort(lanes_.begin(), lanes_.end(), [&](const Lane& a, const Lane& b) {
      return descending_ ? queue_of(b).name < queue_of(a).name
                         : queue_of(a).name < queue_of(b).name;
    });
    return;
  }
  std::stable_sort(lanes_.begin(), lanes_.end(), [&](const Lane& a, const Lane& b) {
    const double x = SortKey(model.nodes()[static_cast<size_t>(a.node)], queue_of(a), column_);
    const double y = SortKey(model.nodes()[static_cast<size_t>(b.node)], queue_of(b), column_);
    if (!Known(x) || !Known(y)) return Known(x) && !Known(y);
    return descending_ ? y < x : x < y;
  });
}

std::string FeedPanel::Csv(const DashboardModel& model) const {
  CsvTable csv({"node", "queue", "rows_per_second", "bytes_per_second", "rows_received",
                "rows_acked", "rows_returned", "bytes_received", "starved_fraction",
                "compute_fraction", "decode_fraction", "backpressured_fraction", "credit_bytes",
                "queued_rows", "queued_bytes", "open_sessions"});
  for (const Lane& lane : lanes_) {
    const NodeState& node = model.nodes()[static_cast<size_t>(lane.node)];
    const QueueState& queue = node.queues[static_cast<size_t>(lane.queue)];
    csv.Cell(node.name);
    csv.Cell(queue.name);
    csv.Cell(queue.rows_per_second);
    csv.Cell(queue.bytes_per_second);
    csv.Cell(static_cast<int64_t>(queue.rows_received));
    csv.Cell(static_cast<int64_t>(queue.rows_acked));
    csv.Cell(static_cast<int64_t>(queue.rows_returned));
    csv.Cell(static_cast<int64_t>(queue.bytes_received));
    csv.Cell(queue.starved);
    csv.Cell(queue.compute);
    csv.Cell(queue.decode);
    csv.Cell(queue.backpressured);
    csv.Cell(static_cast<int64_t>(queue.credit_bytes));
    csv.Cell(static_cast<int64_t>(queue.queued_rows));
    csv.Cell(static_cast<int64_t>(queue.queued_bytes));
    csv.Cell(int64_t{queue.open_sessions});
    csv.EndRow();
  }
  return csv.Take();
}

void FeedPanel::Ledgers(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  if (model.feeds().empty()) return;
  const float px = context.scale;
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_RowBg |
                                     ImGuiTableFlags_NoBordersInBody | ImGuiTableFlags_ScrollY;
  const float rows = std::min<float>(4, static_cast<float>(model.feeds().size()));
  if (!ImGui::BeginTable("ledgers", 7, kFlags, ImVec2(0, (rows + 1) * 23 * px + 4 * px))) return;
  ImGui::TableSetupColumn("feed", ImGuiTableColumnFlags_WidthFixed, 130 * px);
  ImGui::TableSetupColumn("partitions", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("done", ImGuiTableColumnFlags_WidthFixed, 104 * px);
  ImGui::TableSetupColumn("rows/s", ImGuiTableColumnFlags_WidthFixed, 70 * px);
  ImGui::TableSetupColumn("rows", ImGuiTableColumnFlags_WidthFixed, 70 * px);
  ImGui::TableSetupColumn("fed again", ImGuiTableColumnFlags_WidthFixed, 74 * px);
  ImGui::TableSetupColumn("left", ImGuiTableColumnFlags_WidthFixed, 92 * px);
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::PushStyleColor(ImGuiCol_Text, theme.dim);
  ImGui::TableHeadersRow();
  ImGui::PopStyleColor();
  for (const auto& [id, feed] : model.feeds()) {
    const v1::FeedInfo& info = feed.info;
    ImGui::TableNextRow(0, 22 * px);
    ImGui::TableNextColumn();
    ImGui::PushID(id.c_str());
    if (ImGui::Selectable("##feed", context.selection.feed == id,
                          ImGuiSelectableFlags_SpanAllColumns)) {
      Selection selection;
      selection.feed = id;
      commands->Select(selection);
    }
    if (BeginTip()) {
      Mono(theme, absl::StrCat("feed ", id, " into ", info.queue()), theme.text);
      Text(theme,
           absl::StrCat(info.pending(), " pending, ", info.feeding(), " being fed, ",
                        info.received(), " received, ", info.done(), " done, ", info.failed(),
                        " failed"),
           theme.text);
      Text(theme,
           info.exactly_once() ? "exactly once: a partition counts when its results are back"
                               : "at least once",
           theme.dim);
      EndTip();
    }
    ImGui::PopID();
    ImGui::SameLine(0, 0);
    Mono(theme, absl::StrCat(info.queue(), info.closed() ? " (ended)" : ""),
         info.closed() ? theme.dim : theme.text);
    ImGui::TableNextColumn();
    const BarPart parts[] = {{static_cast<float>(info.done()), theme.good},
                             {static_cast<float>(info.received()), theme.joined},
                             {static_cast<float>(info.feeding()), theme.accent},
                             {static_cast<float>(info.failed()), theme.bad}};
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 5 * px);
    StackedBar(theme, ImVec2(ImGui::GetContentRegionAvail().x, 9 * px),
               static_cast<float>(info.partitions()), parts);
    ImGui::TableNextColumn();
    MonoRight(theme,
              info.partitions() == 0
                  ? "–"
                  : absl::StrCat(FormatCount(info.done()), "/", FormatCount(info.partitions())),
              theme.text);
    ImGui::TableNextColumn();
    MonoRight(theme, FormatSi(feed.rows_per_second, ""), theme.text);
    ImGui::TableNextColumn();
    MonoRight(theme, FormatSi(static_cast<double>(info.rows_received()), ""), theme.dim);
    ImGui::TableNextColumn();
    MonoRight(theme, FormatCount(info.partitions_refed()),
              info.partitions_refed() > 0 ? theme.caution : theme.dim);
    ImGui::TableNextColumn();
    MonoRight(theme, info.closed() ? "–" : FormatSpan(feed.eta), theme.dim);
  }
  ImGui::EndTable();
}

void FeedPanel::Throughput(const ViewContext& context, float height, Commands* commands) {
  const DashboardModel& model = context.model;
  const Theme& theme = context.theme;
  const TimeRange range = Range(context);
  const float width = (ImGui::GetContentRegionAvail().x - ImGui::GetStyle().ItemSpacing.x) / 2;
  const auto line = [&](ClusterMetric metric, const char* name, ImU32 color) {
    HistoryLine result{.name = name, .color = color};
    model.cluster_history(metric).Query(0, range.from, range.to, PointsFor(width), &result.points);
    return result;
  };
  ImGui::BeginGroup();
  Heading(theme, absl::StrCat("ROWS RECEIVED  ",
                              FormatSi(model.cluster_value(ClusterMetric::kRows), "rows/s"), "  ",
                              FormatBytesRate(model.cluster_value(ClusterMetric::kBytes))));
  const HistoryLine rows[] = {line(ClusterMetric::kRows, "rows", theme.accent)};
  HistoryPlot(context, "##rows", ImVec2(width, height), rows, ValueUnit::kRows, 0, commands);
  ImGui::EndGroup();
  ImGui::SameLine();
  ImGui::BeginGroup();
  Heading(theme, "WHY GPUS WAIT  share of time, mean of the fed nodes");
  const HistoryLine shares[] = {
      line(ClusterMetric::kStarved, "starved", theme.starved),
      line(ClusterMetric::kBackpressured, "backpressured", theme.caution)};
  HistoryPlot(context, "##shares", ImVec2(width, height), shares, ValueUnit::kFraction, 1,
              commands);
  ImGui::EndGroup();
}

void FeedPanel::LaneRow(const ViewContext& context, const Lane& lane, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const float px = context.scale;
  const NodeState& node = model.nodes()[static_cast<size_t>(lane.node)];
  const QueueState& queue = node.queues[static_cast<size_t>(lane.queue)];
  const bool old = model.IsOld(node.sampled) || model.health().stale;
  const ImU32 ink = old ? theme.dim : theme.text;
  ImGui::TableNextRow(0, 22 * px);
  ImGui::TableNextColumn();
  ImGui::PushID(lane.node);
  ImGui::PushID(lane.queue);
  const bool selected = context.selection.node == lane.node &&
                        (context.selection.queue.empty() || context.selection.queue == queue.name);
  if (ImGui::Selectable("##lane", selected, ImGuiSelectableFlags_SpanAllColumns)) {
    Selection selection;
    selection.node = lane.node;
    selection.host = node.host_index;
    selection.queue = queue.name;
    commands->Select(selection);
  }
  if (BeginTip()) {
    Mono(theme, absl::StrCat(node.name, " ", queue.name), theme.text);
    Text(theme,
         absl::StrCat("waited for rows (starved) ", FormatFraction(queue.starved), ", worked ",
                      FormatFraction(queue.compute), ", decoded ", FormatFraction(queue.decode),
                      ", feeders without credit (backpressured) ",
                      FormatFraction(queue.backpressured)),
         theme.text);
    Text(theme,
         absl::StrCat(FormatCount(static_cast<int64_t>(queue.rows_received)), " rows received, ",
                      FormatCount(static_cast<int64_t>(queue.rows_acked)), " acknowledged, ",
                      FormatCount(static_cast<int64_t>(queue.rows_returned)), " returned"),
         theme.dim);
    Text(theme, absl::StrCat("sampled ", FormatAge(node.sampled, model.now())), theme.dim);
    EndTip();
  }
  ImGui::PopID();
  ImGui::PopID();
  ImGui::SameLine(0, 0);
  Mono(theme, node.name, theme.text);
  ImGui::TableNextColumn();
  Mono(theme, queue.name, theme.dim);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatSi(queue.rows_per_second, ""), ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatBytesRate(queue.bytes_per_second), ink);
  ImGui::TableNextColumn();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 4 * px);
  const ImVec2 bar(ImGui::GetContentRegionAvail().x, 11 * px);
  if (Known(queue.starved)) {
    const BarPart parts[] = {{queue.starved, theme.starved},
                             {queue.decode, theme.decode},
                             {queue.compute, theme.compute}};
    StackedBar(theme, bar, 1, parts);
  } else {
    MeterBar(theme, bar, kUnknown, theme.unknown);
  }
  ImGui::TableNextColumn();
  MonoRight(theme, FormatFraction(queue.starved),
            Known(queue.starved) && queue.starved > 0.5F ? theme.starved : ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatFraction(queue.backpressured),
            Known(queue.backpressured) && queue.backpressured > 0.3F ? theme.caution : ink);
  ImGui::TableNextColumn();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 4 * px);
  const float share = Known(node.feed_budget_bytes) && node.feed_budget_bytes > 0
                          ? static_cast<float>(queue.credit_bytes) / node.feed_budget_bytes
                          : kUnknown;
  MeterBar(theme, ImVec2(ImGui::GetContentRegionAvail().x, 11 * px), share,
           Known(share) && share > 0.9F ? theme.caution : theme.joined);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatCount(static_cast<int64_t>(queue.queued_rows)), ink);
  ImGui::TableNextColumn();
  MonoRight(theme,
            queue.waiting_sessions > 0
                ? absl::StrCat(queue.open_sessions, " (", queue.waiting_sessions, " wait)")
                : absl::StrCat(queue.open_sessions),
            theme.dim);
}

void FeedPanel::Lanes(const ViewContext& context, Commands* commands) {
  const Theme& theme = context.theme;
  const float px = context.scale;
  if (FilterField(theme, "##filter", "node or queue   /", context.focus_filter, 200, px, &filter_))
    dirty_ = true;
  ImGui::SameLine();
  if (IconButton(theme, icon::kDownload, "Export these lanes as CSV"))
    commands->Export("feed", Csv(context.model));
  ImGui::SameLine(0, 16 * px);
  const std::pair<const char*, ImU32> legend[] = {
      {"starved", theme.starved}, {"decode", theme.decode}, {"compute", theme.compute}};
  for (const auto& [name, color] : legend) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::GetWindowDrawList()->AddRectFilled(ImVec2(at.x, at.y + 7 * px),
                                              ImVec2(at.x + 9 * px, at.y + 16 * px), color);
    ImGui::Dummy(ImVec2(11 * px, 1));
    ImGui::SameLine(0, 4 * px);
    ImGui::AlignTextToFramePadding();
    SmallText(theme, name, theme.dim);
    ImGui::SameLine(0, 12 * px);
  }
  ImGui::NewLine();
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_Sortable | ImGuiTableFlags_Hideable | ImGuiTableFlags_ScrollY |
      ImGuiTableFlags_RowBg | ImGuiTableFlags_Resizable | ImGuiTableFlags_SizingFixedFit |
      ImGuiTableFlags_NoBordersInBody | ImGuiTableFlags_BordersInnerV;
  const bool narrow = ImGui::GetContentRegionAvail().x < 880 * px;
  if (!ImGui::BeginTable("lanes", kColumns, kFlags)) return;
  constexpr ImGuiTableColumnFlags kFixed = ImGuiTableColumnFlags_WidthFixed;
  constexpr ImGuiTableColumnFlags kMostFirst =
      ImGuiTableColumnFlags_WidthFixed | ImGuiTableColumnFlags_PreferSortDescending;
  ImGui::TableSetupColumn("node", kFixed | ImGuiTableColumnFlags_DefaultSort, 106 * px);
  ImGui::TableSetupColumn("queue", kFixed, 60 * px);
  ImGui::TableSetupColumn("rows/s", kMostFirst, 66 * px);
  ImGui::TableSetupColumn("bytes/s", kMostFirst, 76 * px);
  ImGui::TableSetupColumn("share of time", ImGuiTableColumnFlags_WidthStretch |
                                               ImGuiTableColumnFlags_PreferSortDescending);
  ImGui::TableSetupColumn("starved", kMostFirst, 58 * px);
  ImGui::TableSetupColumn("full", kMostFirst, 46 * px);
  ImGui::TableSetupColumn("credit", kMostFirst, 70 * px);
  ImGui::TableSetupColumn("queued", kMostFirst, 62 * px);
  ImGui::TableSetupColumn("sessions", kMostFirst, 66 * px);
  if (narrow != narrow_) {
    narrow_ = narrow;
    for (const int column : {kCredit, kQueued, kSessions})
      ImGui::TableSetColumnEnabled(column, !narrow);
  }
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::PushStyleColor(ImGuiCol_Text, theme.dim);
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
  clipper.Begin(static_cast<int>(lanes_.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
      LaneRow(context, lanes_[static_cast<size_t>(i)], commands);
  }
  ImGui::EndTable();
}

void FeedPanel::Draw(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  Refresh(context);
  if (lanes_.empty() && filter_.empty() && model.feeds().empty()) {
    const bool direct = model.cluster().input_mode == v1::INPUT_MODE_DIRECT;
    EmptyState(context.theme, icon::kPlug, direct ? "InputMode DIRECT" : "No feed yet",
               direct ? "Nodes read their own data: there is nothing to feed."
                      : "Lanes appear when a node opens its queues and a partition is fed.");
    return;
  }
  Ledgers(context, commands);
  Throughput(
      context,
      std::clamp(ImGui::GetContentRegionAvail().y * 0.3F, 80 * context.scale, 200 * context.scale),
      commands);
  Lanes(context, commands);
}

}  // namespace millrace::dashboard
