// File: testing/schedules/rank_coordinator.h
//
// What the coordinator does for ranks that are to get equally many batches
// (docs/feed_protocol.md, section 11): core/coordinator/state/equal_feeds.h, on a thread of its
// own, with as much of a ledger as it needs. Test only.
//
// Defines: RankCoordinator.

#ifndef TESTING_SCHEDULES_RANK_COORDINATOR_H_
#define TESTING_SCHEDULES_RANK_COORDINATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/coordinator/state/equal_feeds.h"
#include "feed/feeder/partition_progress.h"
#include "feed/receiver/equal_steps.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: Join(), Counts(), Rows().
class RankCoordinator {
 public:
  // `deliver` is called from the thread, in the order of the decisions. `partitions`: of each call,
  // all epochs together.
  RankCoordinator(std::map<int, std::string> ranks, int64_t partitions,
                  std::function<void(const EqualGrant&)> deliver);
  // Ends the thread.
  ~RankCoordinator();
  RankCoordinator(const RankCoordinator&) = delete;
  RankCoordinator& operator=(const RankCoordinator&) = delete;

  [[nodiscard]] absl::Status Join(int rank, const std::string& queue, const EqualReading& reading);
  void Tell(int rank, const ReceiverRows& rows);
  // The rank's process was killed, and another one will come.
  void Died(int rank);
  void Report(const PartitionProgress& report);
  // As the coordinator counts when the call is over. Waits for what the ranks have yet to tell.
  [[nodiscard]] std::vector<EqualCounts> Counts(const std::string& feed_id);
  // The call is over for its feeder.
  void Close(const std::string& feed_id);
  // As Coordinator::EqualRows. Blocks for the events before it.
  [[nodiscard]] std::map<std::string, int64_t> Rows(const std::string& feed_id);

 private:
  struct Partition {
    int rank = -1;
    uint32_t attempt = 0;
    bool received = false;
    bool done = false;
  };

  void Post(std::function<void()> event);
  void Run();
  void Refresh();

  const int64_t num_partitions_;
  const std::function<void(const EqualGrant&)> deliver_;
  // Of the thread.
  const std::map<int, std::string> ranks_;
  EqualFeeds feeds_;
  std::map<int, uint32_t> attempts_;
  std::map<std::string, std::map<std::pair<int64_t, int64_t>, Partition>>
      partitions_;  // by call; by epoch and number

  Mutex mu_;
  CondVar posted_;
  std::deque<std::function<void()>> events_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace millrace

#endif  // TESTING_SCHEDULES_RANK_COORDINATOR_H_
