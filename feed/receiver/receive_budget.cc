#include "feed/receiver/receive_budget.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"

namespace millrace {
namespace {

using Stage = ReceiveSession::Stage;

// The part of the budget that is granted before a session has said that it needs it.
constexpr int64_t kAheadPart = 4;
// The largest part of that for one session, so that the next ones find some left.
constexpr int64_t kSessionPart = 4;
// The part of a session's credit by which its limit must move before it is sent; a smaller move
// goes out with the next one.
constexpr int64_t kStepPart = 4;

}  // namespace

// How much of the budget is used.
struct ReceiveBudget::Use {
  int64_t committed = 0;
  int64_t ahead = 0;     // of it, what was promised and has not come
  int64_t serving = 0;   // sessions that send
  bool blocked = false;  // somebody is still without what it needs
};

int64_t ReceiveBudget::Committed(const ReceiveQueue& queue) {
  int64_t bytes = 0;
  for (const auto& session : queue.sessions()) bytes += session->CommittedBytes();
  return bytes;
}

std::vector<ReceiveSession*> ReceiveBudget::Blocked(std::span<const Queue> queues) {
  std::vector<ReceiveSession*> blocked;
  for (const Queue& queue : queues) {
    for (const auto& session : queue.queue->sessions()) {
      if (session->blocked()) blocked.push_back(session.get());
    }
  }
  std::sort(blocked.begin(), blocked.end(), [](const ReceiveSession* a, const ReceiveSession* b) {
    return a->blocked_order < b->blocked_order;
  });
  return blocked;
}

std::vector<ReceiveBudget::Grant> ReceiveBudget::Grants(std::span<const Queue> queues) const {
  std::vector<Grant> grants;
  Use use;
  for (const Queue& queue : queues) {
    for (const auto& session : queue.queue->sessions()) {
      use.committed += session->CommittedBytes();
      use.ahead += session->AheadBytes();
      if (session->stage == Stage::kServed) ++use.serving;
    }
  }
  if (use.serving == 0) return grants;
  GrantNeeded(queues, &use, &grants);
  for (const Queue& queue : queues) {
    for (const auto& session : queue.queue->sessions()) {
      const bool first = !session->accepted;
      if (session->stage == Stage::kServed && !session->blocked() &&
          (first || queue.queue->HasTurn(*session))) {
        GrantAhead(session.get(), &use, &grants);
      }
    }
  }
  return grants;
}

void ReceiveBudget::GrantNeeded(std::span<const Queue> queues, Use* use,
                                std::vector<Grant>* grants) const {
  absl::flat_hash_set<const ReceiveSession*> starved;
  absl::flat_hash_set<const ReceiveSession*> unread;  // their feed has lost its turn
  for (const Queue& queue : queues) {
    for (const auto& session : queue.queue->sessions()) {
      if (!queue.queue->HasTurn(*session)) {
        unread.insert(session.get());
      } else if (queue.starved && session->open.mode == queue.queue->mode()) {
        starved.insert(session.get());
      }
    }
  }
  absl::flat_hash_set<std::string> relieved;  // queues that have got something
  for (ReceiveSession* session : Blocked(queues)) {
    if (unread.contains(session)) continue;
    const int64_t size = session->needed - session->received_bytes;
    use->blocked = use->blocked || (use->committed > 0 && size > bytes_ - use->committed);
    const bool beyond = starved.contains(session) && !relieved.contains(session->open.queue);
    if (use->blocked && !beyond) continue;
    relieved.insert(session->open.queue);
    use->committed += size;
    use->ahead += size;
    grants->push_back({.session = session, .limit = session->needed});
  }
}

void ReceiveBudget::GrantAhead(ReceiveSession* session, Use* use,
                               std::vector<Grant>* grants) const {
  const int64_t limit = session->credit_sent.limit;
  const int64_t part = bytes_ / kAheadPart / std::max(kSessionPart, use->serving);
  const int64_t ahead = session->AheadBytes();
  int64_t raise = 0;
  if (!use->blocked && part >= session->largest_batch_bytes) {
    raise = std::min({part - ahead, bytes_ / kAheadPart - use->ahead, bytes_ - use->committed});
    const bool helps = ahead + raise >= session->largest_batch_bytes;
    const bool due =
        raise >= std::max<int64_t>(1, part / kStepPart) || ahead < session->largest_batch_bytes;
    if (raise <= 0 || !helps || !due) raise = 0;
  }
  if (raise == 0 && session->accepted) return;
  use->committed += raise;
  use->ahead += raise;
  grants->push_back({.session = session, .limit = limit + raise});
}

}  // namespace millrace
