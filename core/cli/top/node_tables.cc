// The tables whose rows are as many as nodes or GPUs.

#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cli/top/top_tables.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/cluster_state.h"
#include "dashboard/model/format.h"

namespace millrace::cli {
namespace {

using dashboard::DashboardModel;
using dashboard::FormatBytes;
using dashboard::FormatBytesRate;
using dashboard::FormatCount;
using dashboard::FormatFraction;
using dashboard::FormatNumber;
using dashboard::FormatPercent;
using dashboard::FormatSi;
using dashboard::FormatSpan;
using dashboard::GpuMetric;
using dashboard::GpuState;
using dashboard::Known;
using dashboard::LaneColumn;
using dashboard::Matches;
using dashboard::MeanGpuUtilization;
using dashboard::NodeColumn;
using dashboard::NodeState;
using dashboard::QueueState;
using dashboard::SortKey;

std::string SiOrUnknown(float value) { return Known(value) ? FormatSi(value, "") : "–"; }

Style StyleOfSlot(v1::SlotState state) {
  switch (state) {
    case v1::SLOT_STATE_READY:
    case v1::SLOT_STATE_RUNNING:
      return Style::kGreen;
    case v1::SLOT_STATE_CONNECTED:
    case v1::SLOT_STATE_REGISTERED:
      return Style::kBlue;
    case v1::SLOT_STATE_DRAINING:
      return Style::kYellow;
    case v1::SLOT_STATE_FAILED:
    case v1::SLOT_STATE_LOST:
      return Style::kRed;
    default:
      return Style::kDim;
  }
}

// Values of a node that has not been heard of for a while are dim.
Style StyleOfValue(const DashboardModel& model, const NodeState& node) {
  const bool old =
      model.health().stale || (node.sampled != absl::InfinitePast() && model.IsOld(node.sampled));
  return old ? Style::kDim : Style::kPlain;
}

const NodeState& NodeOf(const DashboardModel& model, int64_t id) {
  return model.nodes()[static_cast<size_t>(id)];
}

// ---- nodes ----

// By NodeColumn; then what only details and wide terminals show.
enum NodeExtra { kStep = dashboard::kNodeColumns, kError };
constexpr TopColumn kNodesColumns[] = {
    {.name = "NODE", .width = 12},
    {.name = "HOST", .width = 10},
    {.name = "PID", .width = 7, .number = true},
    {.name = "STATE", .width = 10, .most_first = true},
    {.name = "FOR", .width = 10, .number = true, .most_first = true},
    {.name = "TRY", .width = 3, .number = true, .most_first = true},
    {.name = "CPU", .width = 5, .number = true, .most_first = true},
    {.name = "MEMORY", .width = 9, .number = true, .most_first = true},
    {.name = "THREADS", .width = 7, .number = true, .most_first = true},
    {.name = "GPU", .width = 5, .number = true, .most_first = true},
    {.name = "ROWS/S", .width = 7, .number = true, .most_first = true},
    {.name = "STARVED", .width = 7, .number = true, .most_first = true},
    {.name = "METRIC", .width = 16, .most_first = true},
    {.name = "STEP", .width = 8, .number = true, .most_first = true},
    {.name = "ERROR", .width = 0}};
// Those that matter most come first where a terminal is narrow.
constexpr int kNodesOrder[] = {static_cast<int>(NodeColumn::kNode),
                               static_cast<int>(NodeColumn::kState),
                               static_cast<int>(NodeColumn::kAge),
                               static_cast<int>(NodeColumn::kHost),
                               static_cast<int>(NodeColumn::kCpu),
                               static_cast<int>(NodeColumn::kRss),
                               static_cast<int>(NodeColumn::kGpu),
                               static_cast<int>(NodeColumn::kRows),
                               static_cast<int>(NodeColumn::kAttempt),
                               static_cast<int>(NodeColumn::kStarved),
                               static_cast<int>(NodeColumn::kPid),
                               static_cast<int>(NodeColumn::kThreads),
                               static_cast<int>(NodeColumn::kMetric),
                               kStep,
                               kError};

// A table of columns in another order than the one in which they are numbered.
std::vector<TopColumn> InOrder(std::span<const TopColumn> columns, std::span<const int> order) {
  std::vector<TopColumn> result;
  for (const int column : order) result.push_back(columns[static_cast<size_t>(column)]);
  return result;
}

class NodesTable final : public TopTable {
 public:
  NodesTable() : columns_(InOrder(kNodesColumns, kNodesOrder)) {}

  absl::string_view name() const override { return "Nodes"; }
  std::span<const TopColumn> columns() const override { return columns_; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    std::vector<int64_t> rows(model.nodes().size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    return rows;
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    const NodeState& node = NodeOf(model, row);
    const int which = kNodesOrder[column];
    if (which == kStep && node.step >= 0) return {.number = static_cast<double>(node.step)};
    if (which == kError) return {.text = node.error};
    if (which >= dashboard::kNodeColumns) return {};
    return NodeSortKey(model, node, static_cast<NodeColumn>(which));
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const NodeState& node = NodeOf(model, row);
    const Style value = StyleOfValue(model, node);
    const int which = kNodesOrder[column];
    if (which == kStep) return {node.step < 0 ? "" : FormatCount(node.step), value};
    if (which == kError) return {node.error, Style::kRed};
    switch (static_cast<NodeColumn>(which)) {
      case NodeColumn::kNode:
        return {node.name, StyleOfRole(node.name)};
      case NodeColumn::kHost:
        return {node.host};
      case NodeColumn::kPid:
        return {node.pid == 0 ? "–" : absl::StrCat(node.pid)};
      case NodeColumn::kState:
        return {node.stopped ? "stopped" : std::string(SlotStateText(node.state)),
                StyleOfSlot(node.state)};
      case NodeColumn::kAge:
        return {node.since() == absl::InfinitePast() ? "–"
                                                     : FormatSpan(model.now() - node.since())};
      case NodeColumn::kAttempt:
        return {absl::StrCat(node.attempt), node.attempt > 0 ? Style::kYellow : Style::kPlain};
      case NodeColumn::kCpu:
        return {FormatPercent(node.cpu_percent), value};
      case NodeColumn::kRss:
        return {FormatBytes(node.rss_bytes), value};
      case NodeColumn::kThreads:
        return {FormatNumber(node.threads), value};
      case NodeColumn::kGpu:
        return {FormatPercent(MeanGpuUtilization(model, node)), value};
      case NodeColumn::kRows:
        return {SiOrUnknown(node.rows_per_second), value};
      case NodeColumn::kStarved:
        return {FormatFraction(node.starved),
                Known(node.starved) && node.starved > 0.5F ? Style::kYellow : value};
      case NodeColumn::kMetric:
        if (node.last_metric.empty()) return {};
        return {absl::StrCat(node.last_metric, " ", FormatNumber(node.last_metric_value)), value};
    }
    return {};
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    const NodeState& node = NodeOf(model, row);
    return Matches(node.name, text) || Matches(node.host, text) ||
           Matches(SlotStateText(node.state), text);
  }

  std::string WhyEmpty(const DashboardModel& /*model*/) const override {
    return "No nodes yet: slots appear as soon as the driver has asked for them.";
  }

 private:
  const std::vector<TopColumn> columns_;
};

// ---- queues ----

// By LaneColumn.
constexpr TopColumn kQueuesColumns[] = {
    {.name = "NODE", .width = 12},
    {.name = "QUEUE", .width = 8},
    {.name = "ROWS/S", .width = 7, .number = true, .most_first = true},
    {.name = "BYTES/S", .width = 9, .number = true, .most_first = true},
    {.name = "COMPUTE", .width = 7, .number = true, .most_first = true},
    {.name = "STARVED", .width = 7, .number = true, .most_first = true},
    {.name = "FULL", .width = 5, .number = true, .most_first = true},
    {.name = "CREDIT", .width = 9, .number = true, .most_first = true},
    {.name = "QUEUED", .width = 7, .number = true, .most_first = true},
    {.name = "SESSIONS", .width = 0, .most_first = true}};

class QueuesTable final : public TopTable {
 public:
  absl::string_view name() const override { return "Queues"; }
  std::span<const TopColumn> columns() const override { return kQueuesColumns; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    std::vector<int64_t> rows;
    for (const NodeState& node : model.nodes()) {
      for (size_t i = 0; i < node.queues.size() && i < kMaxQueues; ++i) {
        rows.push_back(int64_t{node.executor_id} * kMaxQueues + static_cast<int64_t>(i));
      }
    }
    return rows;
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    return LaneSortKey(NodeOf(model, row / kMaxQueues), QueueOf(model, row),
                       static_cast<LaneColumn>(column));
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const NodeState& node = NodeOf(model, row / kMaxQueues);
    const QueueState& queue = QueueOf(model, row);
    const Style value = StyleOfValue(model, node);
    switch (static_cast<LaneColumn>(column)) {
      case LaneColumn::kNode:
        return {node.name, StyleOfRole(node.name)};
      case LaneColumn::kQueue:
        return {queue.sample.queue()};
      case LaneColumn::kRows:
        return {SiOrUnknown(queue.rows_per_second), value};
      case LaneColumn::kBytes:
        return {FormatBytesRate(queue.bytes_per_second), value};
      case LaneColumn::kShare:
        return {FormatFraction(queue.compute), value};
      case LaneColumn::kStarved:
        return {FormatFraction(queue.starved),
                Known(queue.starved) && queue.starved > 0.5F ? Style::kYellow : value};
      case LaneColumn::kFull:
        return {FormatFraction(queue.backpressured),
                Known(queue.backpressured) && queue.backpressured > 0.3F ? Style::kYellow : value};
      case LaneColumn::kCredit:
        return {FormatBytes(static_cast<double>(queue.sample.credit_outstanding_bytes())), value};
      case LaneColumn::kQueued:
        return {FormatCount(static_cast<int64_t>(queue.sample.queued_rows())), value};
      case LaneColumn::kSessions:
        return {queue.sample.waiting_sessions() == 0
                    ? absl::StrCat(queue.sample.open_sessions())
                    : absl::StrCat(queue.sample.open_sessions(), " (",
                                   queue.sample.waiting_sessions(), " wait)"),
                value};
    }
    return {};
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    return Matches(NodeOf(model, row / kMaxQueues).name, text) ||
           Matches(QueueOf(model, row).sample.queue(), text);
  }

  std::string WhyEmpty(const DashboardModel& model) const override {
    return model.cluster().input_mode == v1::INPUT_MODE_DIRECT
               ? "InputMode DIRECT: nodes read their own data, there is nothing to feed."
               : "No queue yet: they appear when a node opens them and a partition is fed.";
  }

 private:
  static constexpr int64_t kMaxQueues = 1024;  // of a node, that are shown

  static const QueueState& QueueOf(const DashboardModel& model, int64_t row) {
    return NodeOf(model, row / kMaxQueues).queues[static_cast<size_t>(row % kMaxQueues)];
  }
};

// ---- GPUs ----

enum GpuColumn {
  kGpuName,
  kGpuOwner,
  kGpuBusy,
  kGpuMemory,
  kGpuPower,
  kGpuTemperature,
  kGpuClock,
  kGpuModel,
  kGpuNote
};
constexpr TopColumn kGpusColumns[] = {
    {.name = "GPU", .width = 12},
    {.name = "NODE", .width = 12},
    {.name = "BUSY", .width = 5, .number = true, .most_first = true},
    {.name = "MEMORY", .width = 6, .number = true, .most_first = true},
    {.name = "POWER", .width = 7, .number = true, .most_first = true},
    {.name = "TEMP", .width = 6, .number = true, .most_first = true},
    {.name = "CLOCK", .width = 9, .number = true, .most_first = true},
    {.name = "MODEL", .width = 14},
    {.name = "NOTE", .width = 0}};

std::string WithUnit(float value, absl::string_view unit) {
  return Known(value) ? absl::StrCat(FormatNumber(value), unit) : "–";
}

class GpusTable final : public TopTable {
 public:
  absl::string_view name() const override { return "GPUs"; }
  std::span<const TopColumn> columns() const override { return kGpusColumns; }

  std::vector<int64_t> Rows(const DashboardModel& model) const override {
    std::vector<int64_t> rows(model.gpus().size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    return rows;
  }

  SortKey KeyOf(const DashboardModel& model, int64_t row, int column) const override {
    const GpuState& gpu = GpuOf(model, row);
    switch (column) {
      case kGpuOwner:
        return {.number = gpu.owner < 0 ? dashboard::kUnknown : static_cast<float>(gpu.owner)};
      case kGpuBusy:
        return {.number = gpu.value(GpuMetric::kUtilization)};
      case kGpuMemory:
        return {.number = gpu.value(GpuMetric::kMemory)};
      case kGpuPower:
        return {.number = gpu.value(GpuMetric::kPower)};
      case kGpuTemperature:
        return {.number = gpu.value(GpuMetric::kTemperature)};
      case kGpuClock:
        return {.number = gpu.value(GpuMetric::kClock)};
      case kGpuModel:
        return {.text = gpu.name};
      case kGpuNote:
        return {.text = gpu.error};
      default:
        return {.number = static_cast<double>(row)};
    }
  }

  TopCell CellOf(const DashboardModel& model, int64_t row, int column) const override {
    const GpuState& gpu = GpuOf(model, row);
    const Style value = model.health().stale || model.IsOld(gpu.time) ? Style::kDim : Style::kPlain;
    switch (column) {
      case kGpuName:
        return {model.GpuName(static_cast<int>(row))};
      case kGpuOwner:
        if (gpu.owner < 0) return {"–"};
        return {model.NodeName(gpu.owner), StyleOfRole(model.NodeName(gpu.owner))};
      case kGpuBusy:
        return {FormatPercent(gpu.value(GpuMetric::kUtilization)), value};
      case kGpuMemory:
        return {FormatPercent(gpu.value(GpuMetric::kMemory)), value};
      case kGpuPower:
        return {WithUnit(gpu.value(GpuMetric::kPower), " W"), value};
      case kGpuTemperature:
        return {WithUnit(gpu.value(GpuMetric::kTemperature), " °C"),
                gpu.throttled() ? Style::kYellow : value};
      case kGpuClock:
        return {WithUnit(gpu.value(GpuMetric::kClock), " MHz"), value};
      case kGpuModel:
        return {gpu.name};
      default:
        if (!gpu.error.empty()) return {gpu.error, Style::kRed};
        if (gpu.throttle_reasons.empty()) return {};
        return {absl::StrCat("throttled: ", absl::StrJoin(gpu.throttle_reasons, ", ")),
                gpu.throttled() ? Style::kYellow : Style::kDim};
    }
  }

  bool Holds(const DashboardModel& model, int64_t row, absl::string_view text) const override {
    const GpuState& gpu = GpuOf(model, row);
    return Matches(model.GpuName(static_cast<int>(row)), text) || Matches(gpu.name, text) ||
           Matches(gpu.uuid, text) || (gpu.owner >= 0 && Matches(model.NodeName(gpu.owner), text));
  }

  std::string WhyEmpty(const DashboardModel& model) const override {
    for (const dashboard::HostState& host : model.hosts()) {
      if (host.gpus_unknown.empty()) continue;
      return absl::StrCat("No GPUs are known; ", host.name, ": ", host.gpus_unknown);
    }
    return "No GPUs: no agent has reported one.";
  }

 private:
  static const GpuState& GpuOf(const DashboardModel& model, int64_t row) {
    return model.gpus()[static_cast<size_t>(row)];
  }
};

}  // namespace

std::unique_ptr<TopTable> MakeNodesTable() { return std::make_unique<NodesTable>(); }
std::unique_ptr<TopTable> MakeQueuesTable() { return std::make_unique<QueuesTable>(); }
std::unique_ptr<TopTable> MakeGpusTable() { return std::make_unique<GpusTable>(); }

}  // namespace millrace::cli
