// File: core/cluster/ledger_observer.h
//
// Writes what a job reports of its partitions into the coordinator's ledger, where readers see it.
#ifndef CORE_CLUSTER_LEDGER_OBSERVER_H_
#define CORE_CLUSTER_LEDGER_OBSERVER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/cluster/progress.h"
#include "core/coordinator/coordinator.h"
#include "feed/feeder/train_job.h"

namespace millrace {

// One feed. Partitions of later epochs are counted on: partition p of epoch e is e * partitions +
// p.
//
// `progress` is nullptr for feeds that are not shown at the terminal.
// Thread safety: all methods. Lifetime: coordinator and progress, not owned, outlive it.
class LedgerObserver : public TrainObserver {
 public:
  LedgerObserver(Coordinator* coordinator, Progress* progress, std::string feed_id,
                 int num_partitions, int64_t num_epochs)
      : coordinator_(coordinator),
        progress_(progress),
        feed_id_(std::move(feed_id)),
        num_partitions_(num_partitions),
        num_epochs_(num_epochs) {}
  // Closes the feed in the ledger.
  ~LedgerObserver() override;

  // Before the job runs. `done`: rows by partition, of those that a driver before had done.
  // Returns as FeedLedger::Open.
  absl::Status Open(absl::string_view queue, const std::map<int64_t, int64_t>& done = {});

  void OnPartition(const PartitionProgress& report) override;
  [[nodiscard]] absl::Status FeedEnd(const std::string& feed_id, bool aborted) override;

 private:
  Coordinator* const coordinator_;
  Progress* const progress_;
  const std::string feed_id_;
  const int num_partitions_;
  const int64_t num_epochs_;

  struct Session {
    uint64_t count = 0;        // of the partition's sessions, the present one included
    bool next = false;         // the next report begins another
    std::string refed_reason;  // with `next`: why rows are sent again; empty: none are
  };

  Mutex mu_;
  std::map<int64_t, Session> sessions_ ABSL_GUARDED_BY(mu_);  // of partitions that were fed again
  int64_t rows_ ABSL_GUARDED_BY(mu_) = 0;  // acknowledged, of partitions that are done
  int64_t partitions_done_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // CORE_CLUSTER_LEDGER_OBSERVER_H_
