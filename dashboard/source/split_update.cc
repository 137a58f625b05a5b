#include "dashboard/source/split_update.h"

#include <cstddef>
#include <type_traits>
#include <utility>

#include "google/protobuf/arena.h"
#include "google/protobuf/repeated_field.h"

namespace millrace::dashboard {
namespace {

using Parts = std::vector<std::shared_ptr<const v1::WatchUpdate>>;

// In the memory of `whole`, which lives as long as its parts.
std::shared_ptr<v1::WatchUpdate> MakePart(const std::shared_ptr<v1::WatchUpdate>& whole) {
  google::protobuf::Arena* const arena = whole->GetArena();
  std::shared_ptr<v1::WatchUpdate> part;
  if (arena == nullptr) {
    part = std::make_shared<v1::WatchUpdate>();
  } else {
    part = {whole, google::protobuf::Arena::CreateMessage<v1::WatchUpdate>(arena)};
  }
  part->set_seq(whole->seq());
  part->set_incarnation(whole->incarnation());
  *part->mutable_time() = whole->time();
  return part;
}

// Moves the elements of one field into parts of at most `limit`. `field` gives it of an update.
template <typename Field>
void MoveInto(const std::shared_ptr<v1::WatchUpdate>& whole, int limit, Field field, Parts* parts) {
  auto& elements = *field(whole.get());
  std::vector<typename std::remove_reference_t<decltype(elements)>::value_type*> taken(
      static_cast<size_t>(elements.size()));
  // Pointers only: whole and part have the same arena, or both have none.
  elements.UnsafeArenaExtractSubrange(0, elements.size(), taken.data());
  std::shared_ptr<v1::WatchUpdate> part;
  for (auto* const element : taken) {
    if (part == nullptr) part = MakePart(whole);
    field(part.get())->UnsafeArenaAddAllocated(element);
    if (field(part.get())->size() == limit) parts->push_back(std::move(part));
  }
  if (part != nullptr) parts->push_back(std::move(part));
}

}  // namespace

Parts SplitUpdate(std::shared_ptr<v1::WatchUpdate> update) {
  Parts parts = {update};
  if (update->slots_size() <= kSlotsPerPart && update->nodes_size() <= kNodesPerPart) return parts;
  MoveInto(
      update, kSlotsPerPart, [](v1::WatchUpdate* of) { return of->mutable_slots(); }, &parts);
  MoveInto(
      update, kNodesPerPart, [](v1::WatchUpdate* of) { return of->mutable_nodes(); }, &parts);
  return parts;
}

}  // namespace millrace::dashboard
