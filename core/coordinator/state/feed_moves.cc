#include "core/coordinator/state/feed_moves.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

namespace millrace {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(50);
// A Spark job is to be started for what moves.
constexpr MoveRules kRules = {
    .ahead = absl::Seconds(1), .delay = absl::Milliseconds(200), .least = absl::Milliseconds(50)};

double RowsLeft(const PartitionReport& session, double usual_rows) {
  auto end = static_cast<double>(session.rows_received);
  if (session.state == PartitionState::kFeeding) end = std::max(end, usual_rows);
  return std::max(0.0, end - static_cast<double>(session.rows_acked));
}

// The rows that the node has not received yet: the feeder still has them.
double RowsToCome(const PartitionReport& session, double usual_rows) {
  if (session.state != PartitionState::kFeeding) return 0;
  return std::max(0.0, usual_rows - static_cast<double>(session.rows_received));
}

bool IsBegun(const PartitionReport& session) { return session.rows_acked > session.first_row; }

bool MayMove(const PartitionReport& session) {
  switch (session.movable) {
    case Movable::kNo:
      return false;
    case Movable::kWhole:
      return !IsBegun(session);
    case Movable::kAnyRow:
      return true;
  }
  return false;
}

void GiveToFirstIdle(double rows, std::vector<NodeLoad>* nodes) {
  NodeLoad* first = nullptr;
  for (NodeLoad& node : *nodes) {
    if (!node.reading || !node.pace.has_value()) continue;
    if (first == nullptr || *SecondsLeft(node) < *SecondsLeft(*first)) first = &node;
  }
  if (first != nullptr) first->rows += rows;
}

}  // namespace

bool FeedMoves::IsDue(absl::Duration now, absl::string_view feed_id) const {
  const auto feed = feeds_.find(feed_id);
  return feed == feeds_.end() || now - feed->second.planned_at >= kInterval;
}

void FeedMoves::Plan(absl::Duration now, absl::string_view feed_id,
                     const std::vector<PartitionReport>& open, const std::map<int, NodeLoad>& loads,
                     double usual_rows, double waiting_rows, bool complete) {
  Feed& feed = feeds_[std::string(feed_id)];
  feed.planned_at = now;
  std::vector<NodeLoad> nodes;
  std::map<int, size_t> index;  // of `nodes`, by executor id
  const auto node_of = [&](int executor_id) {
    const auto [it, is_new] = index.try_emplace(executor_id, nodes.size());
    if (is_new) {
      const auto load = loads.find(executor_id);
      nodes.push_back(load == loads.end() ? NodeLoad{.reading = false} : load->second);
    }
    return it->second;
  };
  for (const auto& [executor_id, load] : loads) node_of(executor_id);
  for (const PartitionReport& session : open) {
    nodes[node_of(session.executor_id)].rows += RowsToCome(session, usual_rows);
  }

  std::map<int64_t, Asked> asked;
  std::vector<OpenPartition> partitions;
  std::vector<const PartitionReport*> sessions;  // of `partitions`
  double in_transit = waiting_rows;
  for (const PartitionReport& session : open) {
    const size_t node = node_of(session.executor_id);
    const double rows = std::min(RowsLeft(session, usual_rows), nodes[node].rows);
    const auto before = feed.asked.find(session.partition);
    if (before == feed.asked.end() ||
        before->second.what.feeder_attempt != session.feeder_attempt) {
      if (!MayMove(session)) continue;
      partitions.push_back({.node = node, .begun = IsBegun(session), .rows = rows});
      sessions.push_back(&session);
      continue;
    }
    if (now - before->second.since < kAsked) {
      in_transit += rows;
      nodes[node].rows -= rows;
    }
    asked.insert(*before);
  }
  feed.asked = std::move(asked);
  if (!complete) return;
  GiveToFirstIdle(in_transit, &nodes);
  for (const size_t move : PlanMoves(std::move(nodes), partitions, kRules).take_back) {
    const PartitionReport& session = *sessions[move];
    feed.asked[session.partition] = {.what = {.partition = session.partition,
                                              .executor_id = session.executor_id,
                                              .feeder_attempt = session.feeder_attempt},
                                     .since = now};
  }
}

std::vector<TakeBack> FeedMoves::Of(absl::string_view feed_id) const {
  std::vector<TakeBack> all;
  const auto feed = feeds_.find(feed_id);
  if (feed == feeds_.end()) return all;
  for (const auto& [partition, asked] : feed->second.asked) {
    if (feed->second.planned_at - asked.since < kAsked) all.push_back(asked.what);
  }
  return all;
}

void FeedMoves::Forget(absl::string_view feed_id) {
  const auto feed = feeds_.find(feed_id);
  if (feed != feeds_.end()) feeds_.erase(feed);
}

}  // namespace millrace
