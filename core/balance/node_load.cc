#include "core/balance/node_load.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace millrace {
namespace {

// A pace is measured over this time, or over this many acknowledgements if they take longer.
constexpr absl::Duration kWindow = absl::Seconds(2);
constexpr size_t kMinSamples = 4;
// Acknowledgements that come closer together than this count as one.
constexpr absl::Duration kMinStep = absl::Milliseconds(10);
// A node that has been silent for this many times its usual step has become slower.
constexpr int kUsualSilence = 2;
// A shorter silence says nothing about what a node wants.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

// A move has to be worth the rows that are sent twice: so much sooner.
constexpr double kGain = 1.25;

constexpr double kNever = std::numeric_limits<double>::infinity();

// As PlanMoves() sees it: without a pace it is at least as slow as it has been silent.
double SecondsLeftAtLeast(const NodeLoad& node) {
  return SecondsLeft(node).value_or(absl::ToDoubleSeconds(node.silent));
}

// Whether `rows` rows are little work for a node. They are not if its pace is unknown.
bool IsLittle(const NodeLoad& node, double rows, const MoveRules& rules) {
  return rows <= 0 ||
         (node.pace.has_value() && rows / *node.pace < absl::ToDoubleSeconds(rules.least));
}

bool IsWorthIt(double now_seconds, double moved_seconds, const MoveRules& rules) {
  return moved_seconds * kGain + absl::ToDoubleSeconds(rules.delay) < now_seconds;
}

}  // namespace

// ------------------------------------------------------------------------------------ PaceMeter

void PaceMeter::Update(absl::Duration now, int64_t acked_rows, bool busy) {
  if (busy_) busy_time_ += now - updated_;
  updated_ = now;
  if (samples_.empty()) {
    if (busy || acked_rows > 0) samples_.push_back({busy_time_, 0});
  }
  busy_ = busy;
  if (samples_.empty() || acked_rows <= samples_.back().rows) return;
  if (samples_.size() > 1 && busy_time_ - samples_.back().busy < kMinStep) {
    samples_.back().rows = acked_rows;
    return;
  }
  samples_.push_back({busy_time_, acked_rows});
  while (samples_.size() > kMinSamples + 1 && busy_time_ - samples_[1].busy >= kWindow) {
    samples_.pop_front();
  }
}

std::optional<double> PaceMeter::RowsPerSecond() const {
  if (samples_.size() < 2) return std::nullopt;
  const Sample& first = samples_.front();
  const Sample& last = samples_.back();
  absl::Duration time = last.busy - first.busy;
  if (busy_time_ - last.busy > UsualSilence()) time = busy_time_ - first.busy;
  time = std::max(time, absl::Milliseconds(1));
  return static_cast<double>(last.rows - first.rows) / absl::ToDoubleSeconds(time);
}

absl::Duration PaceMeter::UsualSilence() const {
  return kUsualSilence * (samples_.back().busy - samples_.front().busy) /
         static_cast<int64_t>(samples_.size() - 1);
}

absl::Duration PaceMeter::silent() const {
  return samples_.size() == 1 ? busy_time_ - samples_.front().busy : absl::ZeroDuration();
}

bool PaceMeter::overdue() const {
  if (samples_.empty()) return false;
  const absl::Duration usual = samples_.size() > 1 ? UsualSilence() : absl::ZeroDuration();
  return busy_time_ - samples_.back().busy >= std::max(usual, kPatience);
}

// -------------------------------------------------------------------------------------- Choosing

std::optional<double> SecondsLeft(const NodeLoad& node) {
  if (node.rows <= 0) return 0;
  if (!node.pace.has_value()) return std::nullopt;
  return node.rows / *node.pace;
}

bool WantsMore(const NodeLoad& node) {
  if (node.partitions < node.allowance) return true;
  if (!node.pace.has_value()) return false;
  return node.rows / *node.pace < absl::ToDoubleSeconds(kWorkAhead);
}

std::optional<size_t> ChooseNode(const std::vector<NodeLoad>& nodes, double partition_rows,
                                 bool patient) {
  std::optional<size_t> best;
  std::tuple<double, int64_t, int64_t> best_rank;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeLoad& node = nodes[i];
    if (!node.reading || (patient && !WantsMore(node))) continue;
    // The pace of a node is unknown until it has had something to do. One that has had something
    // and has acknowledged nothing is slow.
    double seconds = node.assigned == 0 ? 0 : kNever;
    if (node.pace.has_value()) seconds = (node.rows + partition_rows) / *node.pace;
    const std::tuple rank(seconds, node.partitions, node.assigned);
    if (best.has_value() && rank >= best_rank) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

// ---------------------------------------------------------------------------------------- Moving

namespace {

// Chooses one of `partitions`, which are still with the nodes, that `to` should get from the node
// that would be done last. A partition that has not been begun is preferred, since it moves as a
// whole.
std::optional<size_t> ChooseMove(const std::vector<NodeLoad>& nodes, size_t to,
                                 const std::vector<OpenPartition>& partitions,
                                 const std::vector<bool>& taken, const MoveRules& rules) {
  std::optional<size_t> best;
  std::tuple<double, bool, double> best_rank;
  for (size_t i = 0; i < partitions.size(); ++i) {
    const OpenPartition& partition = partitions[i];
    const NodeLoad& from = nodes[partition.node];
    if (taken[i] || partition.node == to || IsLittle(from, partition.rows, rules)) continue;
    const double left = SecondsLeftAtLeast(from);
    const double moved = (nodes[to].rows + partition.rows) / *nodes[to].pace;
    if (!IsWorthIt(left, moved, rules)) continue;
    const std::tuple rank(left, !partition.begun, partition.rows);
    if (best.has_value() && rank <= best_rank) continue;
    best = i;
    best_rank = rank;
  }
  return best;
}

}  // namespace

MovePlan PlanMoves(std::vector<NodeLoad> nodes, const std::vector<OpenPartition>& partitions,
                   const MoveRules& rules) {
  MovePlan plan;
  std::vector<bool> taken(partitions.size(), false);
  std::vector<size_t> fast;  // those that can take something over
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].reading && nodes[i].pace.has_value()) fast.push_back(i);
  }
  std::sort(fast.begin(), fast.end(), [&](size_t a, size_t b) {
    return SecondsLeftAtLeast(nodes[a]) < SecondsLeftAtLeast(nodes[b]);
  });
  for (const size_t to : fast) {
    while (*SecondsLeft(nodes[to]) < absl::ToDoubleSeconds(rules.ahead)) {
      const std::optional<size_t> move = ChooseMove(nodes, to, partitions, taken, rules);
      if (!move.has_value()) break;
      taken[*move] = true;
      plan.take_back.push_back(*move);
      nodes[partitions[*move].node].rows -= partitions[*move].rows;
      nodes[to].rows += partitions[*move].rows;
    }
  }
  // When the faster one is done, so much will be left of what the slower one has now.
  for (const OpenPartition& partition : partitions) {
    const NodeLoad& from = nodes[partition.node];
    if (!from.pace.has_value() || IsLittle(from, partition.rows, rules)) continue;
    for (const size_t to : fast) {
      const double left = SecondsLeftAtLeast(from) - SecondsLeftAtLeast(nodes[to]);
      if (to != partition.node && left > 0 &&
          IsWorthIt(left, left * *from.pace / *nodes[to].pace, rules)) {
        plan.more_later = true;
      }
    }
  }
  return plan;
}

}  // namespace millrace
