#include "dashboard/views/feed_panel.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "dashboard/model/format.h"
#include "dashboard/model/table_rows.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr float kWide = 880;
constexpr float kHalf = 640;  // of the smallest window
constexpr TableColumn kLaneHeaders[kLaneColumns] = {
    {.name = "node", .tip = "Role and task", .width_px = 106},
    {.name = "queue", .tip = "Of the node", .width_px = 60},
    {.name = "rows/s", .tip = "Received", .width_px = 66, .number = true, .most_first = true},
    {.name = "bytes/s", .tip = "Received", .width_px = 76, .number = true, .most_first = true},
    {.name = "share of time",
     .tip = "Of the node: waiting for rows, decoding, working",
     .most_first = true},
    {.name = "starved",
     .tip = "Share of time in which the program waited for rows",
     .width_px = 58,
     .number = true,
     .most_first = true},
    {.name = "full",
     .tip = "Backpressured: share of time in which feeders had no credit left",
     .width_px = 46,
     .number = true,
     .most_first = true},
    {.name = "credit",
     .tip = "Bytes in flight and held, of the node's feed budget",
     .width_px = 70,
     .most_first = true,
     .from_px = kWide},
    {.name = "queued",
     .tip = "Rows that wait in the node for its program",
     .width_px = 62,
     .number = true,
     .most_first = true,
     .from_px = kWide},
    {.name = "sessions",
     .tip = "Partitions that are fed now, and how many of them wait for their turn",
     .width_px = 66,
     .number = true,
     .most_first = true,
     .from_px = kWide}};

constexpr TableColumn kLedgerColumns[] = {
    {.name = "feed", .tip = "The queue that it feeds", .width_px = 130},
    {.name = "partitions", .tip = "Done, received, being fed, failed"},
    {.name = "feeders' time",
     .tip = "Of all its feeders so far: the source, encoding, without credit, on the wire",
     .width_px = 110,
     .from_px = 860},
    {.name = "done", .tip = "Partitions done, of all", .width_px = 104, .number = true},
    {.name = "rows/s", .tip = "Received by all nodes", .width_px = 70, .number = true},
    {.name = "rows",
     .tip = "Received by all nodes so far",
     .width_px = 70,
     .number = true,
     .from_px = kHalf},
    {.name = "fed again",
     .tip = "Partitions that had to be fed once more",
     .width_px = 74,
     .number = true,
     .from_px = kHalf},
    {.name = "left",
     .tip = "Time until all partitions are done, at this pace",
     .width_px = 106,
     .number = true}};

// Where a feed's feeders spent their time so far.
void StageBar(const Theme& theme, ImVec2 size, const v1::FeederStages& stages) {
  const auto part = [](uint64_t us) { return static_cast<float>(us) / 1e6F; };
  const BarPart parts[] = {{part(stages.source_us()), theme.starved},
                           {part(stages.encode_us()), theme.decode},
                           {part(stages.credit_us()), theme.caution},
                           {part(stages.wire_us()), theme.joined}};
  float total = 0;
  for (const BarPart& each : parts) total += each.value;
  if (total > 0) {
    StackedBar(theme, size, total, parts);
  } else {
    MeterBar(theme, size, kUnknown, theme.unknown);
  }
  if (!BeginTip()) return;
  if (total <= 0) {
    Text(theme, "Its feeders have not told where their time goes.", theme.dim);
  } else {
    static constexpr const char* kNames[] = {"waiting for the source", "encoding",
                                             "without credit: nodes are full", "on the wire"};
    for (size_t i = 0; i < std::size(parts); ++i) {
      LegendEntry(theme, parts[i].color,
                  absl::StrCat(FormatFraction(parts[i].value / total), "  ", kNames[i]));
    }
  }
  EndTip();
}

}  // namespace

FeedPanel::FeedPanel() : table_("lanes", kLaneHeaders) {}

void FeedPanel::Refresh(const ViewContext& context) {
  const DashboardModel& model = context.model;
  const uint64_t version = table_.by_value() ? model.version() : model.queues_version();
  if (!dirty_ && version_ == version) return;
  dirty_ = false;
  version_ = version;
  lanes_.clear();
  for (const NodeState& node : model.nodes()) {
    for (size_t i = 0; i < node.queues.size(); ++i) {
      if (!Matches(node.name, filter_) && !Matches(node.queues[i].sample.queue(), filter_))
        continue;
      lanes_.push_back({node.executor_id, static_cast<int>(i)});
    }
  }
  table_.Sort(&lanes_, [&](const Lane& lane, int column) {
    const NodeState& node = model.nodes()[static_cast<size_t>(lane.node)];
    return LaneSortKey(node, node.queues[static_cast<size_t>(lane.queue)],
                       static_cast<LaneColumn>(column));
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
    csv.Cell(queue.sample.queue());
    csv.Cell(queue.rows_per_second);
    csv.Cell(queue.bytes_per_second);
    csv.Cell(static_cast<int64_t>(queue.sample.rows_received()));
    csv.Cell(static_cast<int64_t>(queue.sample.rows_acked()));
    csv.Cell(static_cast<int64_t>(queue.sample.rows_returned()));
    csv.Cell(static_cast<int64_t>(queue.sample.bytes_received()));
    csv.Cell(queue.starved);
    csv.Cell(queue.compute);
    csv.Cell(queue.decode);
    csv.Cell(queue.backpressured);
    csv.Cell(static_cast<int64_t>(queue.sample.credit_outstanding_bytes()));
    csv.Cell(static_cast<int64_t>(queue.sample.queued_rows()));
    csv.Cell(static_cast<int64_t>(queue.sample.queued_bytes()));
    csv.Cell(int64_t{queue.sample.open_sessions()});
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
  if (!ImGui::BeginTable("ledgers", static_cast<int>(std::size(kLedgerColumns)), kFlags,
                         ImVec2(0, (rows + 1) * 23 * px + 4 * px)))
    return;
  TableHeaders(theme, kLedgerColumns, px);
  for (const auto& [id, feed] : model.feeds()) {
    const v1::FeedInfo& info = feed.info;
    ImGui::TableNextRow(0, kRowHeight * px);
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
    if (ImGui::TableNextColumn()) {
      ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 5 * px);
      StageBar(theme, ImVec2(ImGui::GetContentRegionAvail().x, 9 * px), info.stages());
    }
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
  const bool past = !context.brush.live;
  const bool old = past || model.IsOld(node.sampled) || model.health().stale;
  // Past values are kept for each node, not for each queue: for a node with several queues they are
  // unknown.
  const auto at = [&](NodeMetric metric, float newest) {
    if (!past) return newest;
    return node.queues.size() > 1 ? kUnknown
                                  : model.node_history(metric).ValueAt(
                                        static_cast<size_t>(lane.node), context.brush.to);
  };
  const float starved = at(NodeMetric::kStarved, queue.starved);
  const float full = at(NodeMetric::kBackpressured, queue.backpressured);
  const ImU32 ink = old ? theme.dim : theme.text;
  ImGui::TableNextRow(0, kRowHeight * px);
  ImGui::TableNextColumn();
  ImGui::PushID(lane.node);
  ImGui::PushID(lane.queue);
  const bool selected =
      context.selection.node == lane.node &&
      (context.selection.queue.empty() || context.selection.queue == queue.sample.queue());
  if (ImGui::Selectable("##lane", selected, ImGuiSelectableFlags_SpanAllColumns)) {
    Selection selection;
    selection.node = lane.node;
    selection.host = node.host_index;
    selection.queue = queue.sample.queue();
    commands->Select(selection);
  }
  if (BeginTip()) {
    Mono(theme, absl::StrCat(node.name, " ", queue.sample.queue()), theme.text);
    Text(theme,
         absl::StrCat("waited for rows (starved) ", FormatFraction(queue.starved), ", worked ",
                      FormatFraction(queue.compute), ", decoded ", FormatFraction(queue.decode),
                      ", feeders without credit (backpressured) ",
                      FormatFraction(queue.backpressured)),
         theme.text);
    Text(theme,
         absl::StrCat(
             FormatCount(static_cast<int64_t>(queue.sample.rows_received())), " rows received, ",
             FormatCount(static_cast<int64_t>(queue.sample.rows_acked())), " acknowledged, ",
             FormatCount(static_cast<int64_t>(queue.sample.rows_returned())), " returned"),
         theme.dim);
    Text(theme, absl::StrCat("sampled ", FormatAge(node.sampled, model.now())), theme.dim);
    EndTip();
  }
  ImGui::PopID();
  ImGui::PopID();
  ImGui::SameLine(0, 0);
  Mono(theme, node.name, theme.text);
  ImGui::TableNextColumn();
  Mono(theme, queue.sample.queue(), theme.dim);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatSi(at(NodeMetric::kRows, queue.rows_per_second), ""), ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatBytesRate(at(NodeMetric::kBytes, queue.bytes_per_second)), ink);
  ImGui::TableNextColumn();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 4 * px);
  const ImVec2 bar(ImGui::GetContentRegionAvail().x, 11 * px);
  if (Known(starved) && !past) {
    const BarPart parts[] = {{queue.starved, theme.starved},
                             {queue.decode, theme.decode},
                             {queue.compute, theme.compute}};
    StackedBar(theme, bar, 1, parts);
  } else {
    MeterBar(theme, bar, kUnknown, theme.unknown);
  }
  ImGui::TableNextColumn();
  MonoRight(theme, FormatFraction(starved), Known(starved) && starved > 0.5F ? theme.starved : ink);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatFraction(full), Known(full) && full > 0.3F ? theme.caution : ink);
  ImGui::TableNextColumn();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 4 * px);
  const float share =
      Known(node.feed_budget_bytes) && node.feed_budget_bytes > 0
          ? static_cast<float>(queue.sample.credit_outstanding_bytes()) / node.feed_budget_bytes
          : kUnknown;
  MeterBar(theme, ImVec2(ImGui::GetContentRegionAvail().x, 11 * px), share,
           Known(share) && share > 0.9F ? theme.caution : theme.joined);
  ImGui::TableNextColumn();
  MonoRight(theme, FormatCount(static_cast<int64_t>(queue.sample.queued_rows())), ink);
  ImGui::TableNextColumn();
  MonoRight(theme,
            queue.sample.waiting_sessions() > 0
                ? absl::StrCat(queue.sample.open_sessions(), " (", queue.sample.waiting_sessions(),
                               " wait)")
                : absl::StrCat(queue.sample.open_sessions()),
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
  PastMark(context);
  ImGui::SameLine(0, 16 * px);
  const std::pair<const char*, ImU32> legend[] = {
      {"starved", theme.starved}, {"decode", theme.decode}, {"compute", theme.compute}};
  for (const auto& [name, color] : legend) {
    LegendEntry(theme, color, name);
    ImGui::SameLine(0, 12 * px);
  }
  ImGui::NewLine();
  if (!table_.Begin(theme, px)) return;
  if (table_.TakeChange()) {
    dirty_ = true;
    Refresh(context);
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(lanes_.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
      LaneRow(context, lanes_[static_cast<size_t>(i)], commands);
  }
  table_.End();
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

void FeedPanel::TakeChoices(const PanelView& other) {
  const auto& from = static_cast<const FeedPanel&>(other);
  dirty_ = dirty_ || filter_ != from.filter_;
  filter_ = from.filter_;
  table_.TakeOrder(from.table_);
}

}  // namespace millrace::dashboard
