// File: feed/receiver/receive_budget.h
//
// Who may send how much: the credit that a node gives out of its one budget, whatever the number of
// its sessions (docs/feed_protocol.md, section 5). Pure state, as feed/receiver/receive_queue.h.
//
// Defines: ReceiveBudget.
//
//   ReceiveBudget budget(int64_t{256} << 20);
//   for (const ReceiveBudget::Grant& grant : budget.Grants({{.queue = &queue}})) {
//     grant.session->credit_sent.limit = grant.limit;    // and CREDIT goes out
//   }
//
// The rules:
//
//   - What sessions hold and what they may still send is at most the budget.
//   - A session that has said BLOCKED uses nothing of what it was promised; it gets exactly the
//     limit that its next BATCH needs. The one that has waited longest goes first, and nobody is
//     given anything before it, so that a large BATCH is not passed by small ones for ever.
//   - What is left is promised ahead of need, a quarter of the budget at most, in equal parts (of a
//     sixteenth at most) to the sessions whose BATCHes fit into such a part. Few sessions with
//     small BATCHes never wait for an answer.
//   - A session whose feed has lost its turn gets nothing more.
//   - A BATCH that is larger than the budget comes when nothing else is there.
//   - The program must not wait for rows that nobody may send. A queue in which it does so
//     (Queue::starved) gets one BATCH beyond the budget: what other queues hold will not be read
//     meanwhile, and a session whose source stands still does not use what it was promised.

#ifndef FEED_RECEIVER_RECEIVE_BUDGET_H_
#define FEED_RECEIVER_RECEIVE_BUDGET_H_

#include <cstdint>
#include <span>
#include <vector>

#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_session.h"

namespace millrace {

// Thread safety: const, as its arguments allow.
class ReceiveBudget {
 public:
  struct Queue {
    const ReceiveQueue* queue = nullptr;
    // The program waits for rows of it, and what its sessions may send does not come.
    bool starved = false;
  };
  struct Grant {
    ReceiveSession* session = nullptr;
    int64_t limit = 0;  // equal to the old one only in the first CREDIT of a session
  };

  // At least 1 byte.
  explicit ReceiveBudget(int64_t bytes) : bytes_(bytes) {}

  // The limits to be raised now, and the first ones of sessions that are to be accepted.
  [[nodiscard]] std::vector<Grant> Grants(std::span<const Queue> queues) const;

  // What `queue`'s sessions hold and may send.
  [[nodiscard]] static int64_t Committed(const ReceiveQueue& queue);

  // Sessions that wait for credit, the one that has waited longest first.
  [[nodiscard]] static std::vector<ReceiveSession*> Blocked(std::span<const Queue> queues);

  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  struct Use;
  void GrantNeeded(std::span<const Queue> queues, Use* use, std::vector<Grant>* grants) const;
  void GrantAhead(ReceiveSession* session, Use* use, std::vector<Grant>* grants) const;

  const int64_t bytes_;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVE_BUDGET_H_
