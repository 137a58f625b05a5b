#include "dashboard/model/table_rows.h"

#include "absl/strings/ascii.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

bool SortsBefore(const SortKey& a, const SortKey& b, bool descending) {
  const auto kind = [](const SortKey& key) {
    return Known(key.number) ? 0 : key.text.empty() ? 2 : 1;
  };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  if (kind(a) == 0) return descending ? b.number < a.number : a.number < b.number;
  return descending ? b.text < a.text : a.text < b.text;
}

bool Matches(absl::string_view haystack, absl::string_view needle) {
  if (needle.empty()) return true;
  const auto same = [](char a, char b) { return absl::ascii_tolower(a) == absl::ascii_tolower(b); };
  return std::search(haystack.begin(), haystack.end(), needle.begin(), needle.end(), same) !=
         haystack.end();
}

SortKey NodeSortKey(const DashboardModel& model, const NodeState& node, NodeColumn column) {
  switch (column) {
    case NodeColumn::kNode:
      return {.number = static_cast<double>(node.executor_id)};
    case NodeColumn::kHost:
      return {.text = node.host};
    case NodeColumn::kPid:
      return {.number = static_cast<double>(node.pid)};
    case NodeColumn::kState:
      return {.number = static_cast<double>(node.state)};
    case NodeColumn::kAge:
      return {.number = SecondsInState(model, node)};
    case NodeColumn::kAttempt:
      return {.number = static_cast<double>(node.attempt)};
    case NodeColumn::kCpu:
      return {.number = node.cpu_percent};
    case NodeColumn::kRss:
      return {.number = node.rss_bytes};
    case NodeColumn::kThreads:
      return {.number = node.threads};
    case NodeColumn::kGpu:
      return {.number = MeanGpuUtilization(model, node)};
    case NodeColumn::kRows:
      return {.number = node.rows_per_second};
    case NodeColumn::kStarved:
      return {.number = node.starved};
    case NodeColumn::kMetric:
      return {.number = node.last_metric_value};
  }
  return {};
}

SortKey LaneSortKey(const NodeState& node, const QueueState& queue, LaneColumn column) {
  switch (column) {
    case LaneColumn::kNode:
      return {.number = static_cast<double>(node.executor_id)};
    case LaneColumn::kQueue:
      return {.text = queue.sample.queue()};
    case LaneColumn::kRows:
      return {.number = queue.rows_per_second};
    case LaneColumn::kBytes:
      return {.number = queue.bytes_per_second};
    case LaneColumn::kShare:
      return {.number = queue.compute};
    case LaneColumn::kStarved:
      return {.number = queue.starved};
    case LaneColumn::kFull:
      return {.number = queue.backpressured};
    case LaneColumn::kCredit:
      return {.number = static_cast<double>(queue.sample.credit_outstanding_bytes())};
    case LaneColumn::kQueued:
      return {.number = static_cast<double>(queue.sample.queued_rows())};
    case LaneColumn::kSessions:
      return {.number = static_cast<double>(queue.sample.open_sessions())};
  }
  return {};
}

float MeanGpuUtilization(const DashboardModel& model, const NodeState& node) {
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

double SecondsInState(const DashboardModel& model, const NodeState& node) {
  return node.since() == absl::InfinitePast() ? kUnknown
                                              : absl::ToDoubleSeconds(model.now() - node.since());
}

}  // namespace millrace::dashboard
