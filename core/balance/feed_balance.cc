#include "core/balance/feed_balance.h"

#include <algorithm>

namespace millrace {
namespace {

// How far ahead a feeder may go with the node that it feeds, as a multiple of kWorkAhead: further
// than the point up to which other feeders come to that node.
constexpr int kRoomAhead = 2;
// If a feeder has begun with a partition, it has reported so by then.
constexpr absl::Duration kUntold = absl::Milliseconds(200);
constexpr int64_t kBeyond = 4;  // times as many partitions
// A node of another host has to be sooner by so much: the way to it is encrypted.
constexpr double kFarGain = 1.25;
constexpr double kFarSeconds = 0.2;

}  // namespace

void FeedBalance::Forget(absl::Duration now, Node* node) {
  for (auto it = node->feeders.begin(); it != node->feeders.end();) {
    it = now - it->second.at > kSilence ? node->feeders.erase(it) : std::next(it);
  }
  while (!node->chosen.empty() && now - node->chosen.front() > kUntold) node->chosen.pop_front();
}

int64_t FeedBalance::Unread(const Node& node) {
  int64_t rows = 0;
  for (const auto& [name, told] : node.feeders) rows += told.load.rows_unread;
  return rows;
}

NodeLoad FeedBalance::LoadOf(const Node& node) {
  int64_t partitions = 0;
  for (const auto& [name, told] : node.feeders) partitions += told.load.partitions;
  return {.partitions = partitions,
          .rows = static_cast<double>(Unread(node)),
          .pace = node.pace.RowsPerSecond(),
          .silent = node.pace.silent(),
          .allowance = node.allowance};
}

NodeLoad FeedBalance::Load(int executor_id) const {
  const auto node = nodes_.find(executor_id);
  return node == nodes_.end() ? NodeLoad() : LoadOf(node->second);
}

void FeedBalance::Tell(absl::Duration now, absl::string_view feeder, const FeederLoad& load) {
  Node& node = nodes_[load.executor_id];
  if (load.attempt < node.attempt) return;
  if (load.attempt > node.attempt) {
    node = Node();
    node.attempt = load.attempt;
  }
  Forget(now, &node);
  const auto [it, is_new] = node.feeders.try_emplace(std::string(feeder));
  node.acked += std::max<int64_t>(0, load.rows_acked - it->second.load.rows_acked);
  it->second = {.load = load, .at = now};
  node.pace.Update(now, node.acked, Unread(node) > 0);
}

std::optional<int64_t> FeedBalance::Room(int executor_id, absl::string_view feeder) const {
  const auto found = nodes_.find(executor_id);
  if (found == nodes_.end()) return std::nullopt;
  const Node& node = found->second;
  const std::optional<double> pace = node.pace.RowsPerSecond();
  if (!pace.has_value()) return std::nullopt;
  int64_t others = Unread(node);
  if (const auto it = node.feeders.find(std::string(feeder)); it != node.feeders.end()) {
    others -= it->second.load.rows_unread;
  }
  const double rows = *pace * kRoomAhead * absl::ToDoubleSeconds(kWorkAhead);
  return std::max<int64_t>(0, static_cast<int64_t>(rows) - others);
}

void FeedBalance::ForgetAllowances() {
  for (auto& [id, node] : nodes_) node.allowance = 1;
}

std::optional<int> FeedBalance::Choose(absl::Duration now,
                                       const std::vector<FeedCandidate>& candidates,
                                       double partition_rows, bool patient) {
  std::vector<NodeLoad> near_loads, far_loads;
  std::vector<int> near_ids, far_ids;
  bool any_wants = false;
  bool all_overdue = true;
  for (const FeedCandidate& candidate : candidates) {
    Node& node = nodes_[candidate.executor_id];
    Forget(now, &node);
    NodeLoad load = LoadOf(node);
    const auto on_their_way = static_cast<int64_t>(node.chosen.size());
    load.partitions += on_their_way;
    load.rows += static_cast<double>(on_their_way) * partition_rows;
    const bool wants = WantsMore(load);
    any_wants = any_wants || wants;
    all_overdue = all_overdue && node.pace.overdue();
    if (patient && !wants) load.reading = false;
    // Without a pace the one with the fewest sessions is the best guess.
    load.partitions = load.assigned = candidate.open;
    (candidate.near ? near_loads : far_loads).push_back(load);
    (candidate.near ? near_ids : far_ids).push_back(candidate.executor_id);
  }
  if (candidates.empty() || (patient && !any_wants && !all_overdue)) return std::nullopt;
  const bool beyond = patient && !any_wants;
  if (beyond) {
    for (std::vector<NodeLoad>* loads : {&near_loads, &far_loads}) {
      for (NodeLoad& load : *loads) load.reading = true;
    }
  }
  const std::optional<size_t> near = ChooseNode(near_loads, partition_rows, /*patient=*/false);
  const std::optional<size_t> far = ChooseNode(far_loads, partition_rows, /*patient=*/false);
  bool go_far = !near.has_value();
  if (near.has_value() && far.has_value() && near_loads[*near].pace.has_value() &&
      far_loads[*far].pace.has_value()) {
    const auto seconds = [&](const NodeLoad& load) {
      return (load.rows + partition_rows) / *load.pace;
    };
    go_far = seconds(far_loads[*far]) * kFarGain + kFarSeconds < seconds(near_loads[*near]);
  }
  const int id = go_far ? far_ids[*far] : near_ids[*near];
  Node& node = nodes_[id];
  if (beyond) {
    node.allowance = kBeyond * std::max({node.allowance, LoadOf(node).partitions, int64_t{1}});
  }
  node.chosen.push_back(now);
  return id;
}

}  // namespace millrace
