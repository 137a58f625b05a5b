// File: dashboard/model/table_rows.h
//
// Which rows a table of nodes or queues has, and in which order, wherever it is shown.
//
// Defines: SortKey, SortsBefore(), SortRows(), Matches(), NodeColumn, NodeSortKey(), LaneColumn,
// LaneSortKey(), MeanGpuUtilization(), SecondsInState().
//
//   std::vector<int> order = ...;  // executor ids
//   SortRows(&order, descending, [&](int id) {
//     return NodeSortKey(model, model.nodes()[id], NodeColumn::kCpu);
//   });
//
// Thread safety: pure functions.

#ifndef DASHBOARD_MODEL_TABLE_ROWS_H_
#define DASHBOARD_MODEL_TABLE_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "dashboard/model/cluster_state.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/history.h"

namespace millrace::dashboard {

// What a row is sorted by: its number or, if that is kUnknown, its text. Rows that have neither
// come last in either direction.
struct SortKey {
  double number = kUnknown;
  absl::string_view text;
};
[[nodiscard]] bool SortsBefore(const SortKey& a, const SortKey& b, bool descending);

// `key` gives a row's SortKey, whose text outlives the call. Equal rows keep their order.
template <typename Row, typename Key>
void SortRows(std::vector<Row>* rows, bool descending, Key key) {
  std::vector<std::pair<SortKey, Row>> keyed;
  keyed.reserve(rows->size());
  for (const Row& row : *rows) keyed.emplace_back(key(row), row);
  std::stable_sort(keyed.begin(), keyed.end(), [descending](const auto& a, const auto& b) {
    return SortsBefore(a.first, b.first, descending);
  });
  for (size_t i = 0; i < keyed.size(); ++i) (*rows)[i] = keyed[i].second;
}

// ASCII case is ignored; empty matches all.
[[nodiscard]] bool Matches(absl::string_view haystack, absl::string_view needle);

enum class NodeColumn {
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
};
inline constexpr int kNodeColumns = 13;

// The key's text is the node's.
[[nodiscard]] SortKey NodeSortKey(const DashboardModel& model, const NodeState& node,
                                  NodeColumn column);

// Of one queue of a node.
enum class LaneColumn {
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
};
inline constexpr int kLaneColumns = 10;

// The key's text is the queue's.
[[nodiscard]] SortKey LaneSortKey(const NodeState& node, const QueueState& queue,
                                  LaneColumn column);

// Over the GPUs that the node has claimed, in percent; kUnknown without any.
[[nodiscard]] float MeanGpuUtilization(const DashboardModel& model, const NodeState& node);
// kUnknown: nobody knows since when.
[[nodiscard]] double SecondsInState(const DashboardModel& model, const NodeState& node);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_TABLE_ROWS_H_
