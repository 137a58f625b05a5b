#include "feed/receiver/receiver_segments.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Each takes a descriptor, and address space.
constexpr size_t kMaxSegments = 64;

}  // namespace

absl::StatusOr<SessionSegment> ReceiverSegments::Get(uint64_t connection,
                                                     absl::string_view principal) {
  if (const auto it = segments_.find(connection); it != segments_.end()) {
    const Entry& entry = it->second;
    if (entry.mapped == false) return SessionSegment();
    return SessionSegment{.segment = entry.segment,
                          .mapped = entry.mapped == true,
                          .results = entry.mapped == true && entry.results};
  }
  if (segments_.size() >= kMaxSegments) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxSegments, " other feeders share memory with the node already"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<NodeSegment> segment,
                            NodeSegment::Create(bytes_, rooms_));
  segments_[connection] = {.principal = std::string(principal), .segment = segment};
  return SessionSegment{.segment = std::move(segment)};
}

bool ReceiverSegments::OnMapped(uint64_t connection, const MappedFrame& mapped) {
  const auto it = segments_.find(connection);
  if (it == segments_.end()) return false;
  it->second.mapped = mapped.reason.empty();
  it->second.results = mapped.results;
  return true;
}

absl::StatusOr<SharedBytes> ReceiverSegments::Use(uint64_t connection, uint64_t session,
                                                  Room body) {
  const auto it = segments_.find(connection);
  if (it == segments_.end()) return absl::InvalidArgumentError("PLACED without a segment");
  return it->second.segment->Use(session, body);
}

bool ReceiverSegments::Vacate(uint64_t connection, uint64_t session) {
  const auto it = segments_.find(connection);
  if (it == segments_.end()) return false;
  it->second.segment->Vacate(session);
  return true;
}

bool ReceiverSegments::Leave(uint64_t connection, uint64_t session) {
  if (!Vacate(connection, session)) return false;
  segments_.at(connection).segment->TakeBack(session, INT64_MAX);
  return true;
}

void ReceiverSegments::DropAllOf(absl::string_view principal) {
  absl::erase_if(segments_,
                 [principal](const auto& entry) { return entry.second.principal == principal; });
}

}  // namespace millrace
