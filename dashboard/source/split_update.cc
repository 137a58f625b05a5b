#include "dashboard/source/split_update.h"

#include <algorithm>
#include <utility>

namespace millrace::dashboard {
namespace {

// Moves elements [from, from + count) of `all` to the end of `part`.
template <typename Message>
void MoveSome(google::protobuf::RepeatedPtrField<Message>* all, int from, int count,
              google::protobuf::RepeatedPtrField<Message>* part) {
  part->Reserve(count);
  for (int i = from; i < from + count; ++i) part->Add()->Swap(all->Mutable(i));
}

}  // namespace

std::vector<std::shared_ptr<const v1::WatchUpdate>> SplitUpdate(v1::WatchUpdate update) {
  std::vector<std::shared_ptr<const v1::WatchUpdate>> parts;
  if (update.slots_size() <= kSlotsPerPart && update.nodes_size() <= kNodesPerPart) {
    parts.push_back(std::make_shared<const v1::WatchUpdate>(std::move(update)));
    return parts;
  }
  google::protobuf::RepeatedPtrField<v1::SlotStatus> slots;
  google::protobuf::RepeatedPtrField<v1::WatchUpdate::Node> nodes;
  slots.Swap(update.mutable_slots());
  nodes.Swap(update.mutable_nodes());
  v1::WatchUpdate head;
  head.set_seq(update.seq());
  head.set_incarnation(update.incarnation());
  *head.mutable_time() = update.time();
  parts.push_back(std::make_shared<const v1::WatchUpdate>(std::move(update)));
  for (int from = 0; from < slots.size(); from += kSlotsPerPart) {
    auto part = std::make_shared<v1::WatchUpdate>(head);
    MoveSome(&slots, from, std::min(kSlotsPerPart, slots.size() - from), part->mutable_slots());
    parts.push_back(std::move(part));
  }
  for (int from = 0; from < nodes.size(); from += kNodesPerPart) {
    auto part = std::make_shared<v1::WatchUpdate>(head);
    MoveSome(&nodes, from, std::min(kNodesPerPart, nodes.size() - from), part->mutable_nodes());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace millrace::dashboard
