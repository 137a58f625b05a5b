// File: core/coordinator/state/equal_feeds.h
//
// Train calls in which every rank gets equally many batches (docs/feed_protocol.md, section 11):
// which queues are read so, by whom, which call it is, and what each rank may take of it. A pure
// state machine over core/balance/step_grants.h: what ranks are to be told comes back as values.
//
// Defines: EqualReading, EqualGrant, EqualCounts, EqualFeeds.
//
//   EqualFeeds feeds({{0, "worker:0"}, {1, "worker:1"}});
//   MILLRACE_RETURN_IF_ERROR(feeds.Join(0, "input", {.batch_rows = 64}));
//   feeds.Tell(0, "input", "feed-7", {.rows = 640});    // the queue's call is feed-7 now
//   for (const EqualGrant& grant : feeds.TakeGrants()) Send(grant.executor_id, grant);
#ifndef CORE_COORDINATOR_STATE_EQUAL_FEEDS_H_
#define CORE_COORDINATOR_STATE_EQUAL_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/balance/step_grants.h"

namespace millrace {

// How a rank reads a queue. All ranks must read it in the same way.
struct EqualReading {
  int64_t batch_rows = 0;
  bool pad = false;
  friend bool operator==(const EqualReading&, const EqualReading&) = default;
};

// What a rank may take of a call. Later ones replace earlier ones.
struct EqualGrant {
  int executor_id = 0;
  std::string queue;
  std::string feed_id;
  uint64_t generation = 0;
  int64_t steps = 0;      // batches of this generation
  bool last = false;      // there will be no more in it
  uint64_t question = 0;  // as StepGrants::question()
  // Why this generation began, if a rank has died; or why the call cannot go on.
  absl::Status error;
  bool fatal = false;  // the call cannot go on
  friend bool operator==(const EqualGrant&, const EqualGrant&) = default;
};

// Rows of one rank that were in no batch of a call, or were repeated to fill one.
struct EqualCounts {
  int executor_id = 0;
  int64_t dropped = 0;
  int64_t repeated = 0;
  bool complete = false;  // there are no others: see StepGrants::complete()
};

// Ranks are the fed nodes, all of them, by executor id. A queue is read equally from its first
// Join() on. Its call is the feed of which a rank told first, until that is closed; then the next.
//
// Bounded: by queues and ranks; 64 calls that ranks have told of and that are not closed, per
// queue; the counts of the last 64 calls. Thread safety: not thread-safe. Blocking: never.
class EqualFeeds {
 public:
  explicit EqualFeeds(std::map<int, std::string> ranks) : ranks_(std::move(ranks)) {}

  // The program of this rank reads the queue. Returns FAILED_PRECONDITION if it is no rank, or
  // another one reads the queue in another way, INVALID_ARGUMENT for less than one row.
  absl::Status Join(int executor_id, absl::string_view queue, const EqualReading& reading);
  // What a rank that has joined says of a feed.
  void Tell(int executor_id, absl::string_view queue, absl::string_view feed_id,
            const RankRows& rows);
  // What the ledger says: all that this rank will be fed of the feed is with it.
  void SetFed(absl::string_view feed_id, int executor_id, bool fed);
  // The feed has ended.
  void Close(absl::string_view feed_id);

  // The rank's process has ended; `how` says whose and how. `another`: one will take its place.
  void Ended(int executor_id, const absl::Status& how, bool another);
  // It has ended well, or its program has stopped reading the queue.
  void Left(int executor_id, absl::string_view queue);
  void Left(int executor_id);

  // What ranks are to be told since the last call.
  [[nodiscard]] std::vector<EqualGrant> TakeGrants() { return std::exchange(grants_, {}); }
  // All that this rank is to know, again.
  [[nodiscard]] std::vector<EqualGrant> GrantsOf(int executor_id) const;

  // Some rank reads the queue so.
  [[nodiscard]] bool IsEqual(absl::string_view queue) const { return queues_.contains(queue); }
  // Rows that the rank has of the call, as it has told, since the last rank's death; 0 if the feed
  // is not the call that its queue is at.
  [[nodiscard]] int64_t RowsOf(absl::string_view feed_id, int executor_id) const;
  // The calls that are under way.
  [[nodiscard]] std::vector<std::string> Calls() const;
  // nullopt: no call of equal ranks, or one that was forgotten. `*settled`: nothing will change.
  [[nodiscard]] std::optional<std::vector<EqualCounts>> Counts(absl::string_view feed_id,
                                                               bool* settled) const;

 private:
  static constexpr size_t kMaxCalls = 64;

  struct Queue {
    EqualReading reading;
    std::set<int> joined;              // ranks, in their present process
    std::set<int> left;                // ranks that read it no more
    std::deque<std::string> calls;     // told of and not closed; the first one is the call
    std::optional<StepGrants> grants;  // of it
    uint64_t generation = 0;           // never falls
    absl::Status error;                // of grants: see EqualGrant
    bool fatal = false;
    std::map<int, EqualGrant> told;  // by executor id: the last ones
  };

  void Begin(const std::string& name, Queue* queue);
  void Tell(const std::string& name, Queue* queue);
  [[nodiscard]] EqualGrant GrantOf(int executor_id, const std::string& name,
                                   const Queue& queue) const;
  [[nodiscard]] std::vector<EqualCounts> CountsOf(const Queue& queue) const;
  [[nodiscard]] std::string Names(const std::vector<int>& ranks) const;

  const std::map<int, std::string> ranks_;
  std::map<int, absl::Status> lost_;  // ranks that will not come back, and why
  std::map<std::string, Queue, std::less<>> queues_;
  std::deque<std::string> closed_;  // the last feeds that were closed
  std::deque<std::pair<std::string, std::vector<EqualCounts>>> counts_;  // of closed ones
  std::vector<EqualGrant> grants_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_EQUAL_FEEDS_H_
