#include "dashboard/source/split_update.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/arena.h"

namespace millrace::dashboard {
namespace {

// A message in blocks of memory of its own: a part of fifty nodes has ten thousand pieces, which
// are then allocated and freed as a few.
std::shared_ptr<v1::WatchUpdate> MakePart() {
  google::protobuf::ArenaOptions options;
  options.max_block_size = size_t{64} << 10;
  auto arena = std::make_shared<google::protobuf::Arena>(options);
  auto* const part = google::protobuf::Arena::CreateMessage<v1::WatchUpdate>(arena.get());
  return {std::move(arena), part};
}

// All but slots and nodes.
void CopyRest(const v1::WatchUpdate& update, v1::WatchUpdate* part) {
  part->set_seq(update.seq());
  part->set_snapshot(update.snapshot());
  part->set_incarnation(update.incarnation());
  *part->mutable_time() = update.time();
  if (update.has_cluster()) *part->mutable_cluster() = update.cluster();
  *part->mutable_membership() = update.membership();
  *part->mutable_feeds() = update.feeds();
  *part->mutable_removed_feeds() = update.removed_feeds();
  *part->mutable_metrics() = update.metrics();
  *part->mutable_events() = update.events();
  *part->mutable_logs() = update.logs();
  part->set_dropped_metrics(update.dropped_metrics());
  part->set_dropped_events(update.dropped_events());
  part->set_dropped_log_lines(update.dropped_log_lines());
}

}  // namespace

std::vector<std::shared_ptr<const v1::WatchUpdate>> SplitUpdate(const v1::WatchUpdate& update) {
  std::vector<std::shared_ptr<const v1::WatchUpdate>> parts;
  std::shared_ptr<v1::WatchUpdate> part = MakePart();
  if (update.slots_size() <= kSlotsPerPart && update.nodes_size() <= kNodesPerPart) {
    *part = update;
    parts.push_back(std::move(part));
    return parts;
  }
  CopyRest(update, part.get());
  parts.push_back(std::move(part));
  const auto begin = [&] {
    part = MakePart();
    part->set_seq(update.seq());
    part->set_incarnation(update.incarnation());
    *part->mutable_time() = update.time();
  };
  for (int from = 0; from < update.slots_size(); from += kSlotsPerPart) {
    begin();
    const int end = std::min(from + kSlotsPerPart, update.slots_size());
    for (int i = from; i < end; ++i) *part->add_slots() = update.slots(i);
    parts.push_back(std::move(part));
  }
  for (int from = 0; from < update.nodes_size(); from += kNodesPerPart) {
    begin();
    const int end = std::min(from + kNodesPerPart, update.nodes_size());
    for (int i = from; i < end; ++i) *part->add_nodes() = update.nodes(i);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace millrace::dashboard
