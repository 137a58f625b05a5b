#include "testing/schedules/rank_coordinator.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/thread_scheduler.h"
#include "feed/receiver/used_rows.h"

namespace millrace {
namespace {

constexpr int kMostLooks = 100;
constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

}  // namespace

RankCoordinator::RankCoordinator(std::map<int, std::string> ranks, int64_t partitions,
                                 std::function<void(const EqualGrant&)> deliver)
    : num_partitions_(partitions),
      deliver_(std::move(deliver)),
      ranks_(std::move(ranks)),
      feeds_(ranks_),
      thread_("coordinator", [this] { Run(); }) {}

RankCoordinator::~RankCoordinator() {
  MutexLock lock(&mu_);
  stop_ = true;
  posted_.Signal();
}

void RankCoordinator::Post(std::function<void()> event) {
  MutexLock lock(&mu_);
  events_.push_back(std::move(event));
  posted_.Signal();
}

void RankCoordinator::Run() {
  while (true) {
    std::function<void()> event;
    {
      MutexLock lock(&mu_);
      while (events_.empty() && !stop_) posted_.Wait(&mu_);
      if (events_.empty()) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    event();
    for (const EqualGrant& grant : feeds_.TakeGrants()) deliver_(grant);
  }
}

absl::Status RankCoordinator::Join(int rank, const std::string& queue,
                                   const EqualReading& reading) {
  absl::Status joined;
  Notification done;
  Post([&] {
    // What its process has missed, which in a cluster it is told as soon as its agent is there.
    for (const EqualGrant& grant : feeds_.GrantsOf(rank)) deliver_(grant);
    joined = feeds_.Join(rank, queue, reading);
    Refresh();
    done.Notify();
  });
  done.WaitForNotification();
  return joined;
}

void RankCoordinator::Tell(int rank, const ReceiverRows& rows) {
  Post([this, rank, rows] {
    feeds_.Tell(rank, rows.queue, rows.feed_id,
                {.generation = rows.generation,
                 .answer = rows.answer,
                 .rows = rows.rows,
                 .dropped = rows.dropped,
                 .repeated = rows.repeated,
                 .can_repeat = rows.can_repeat});
    Refresh();
  });
}

void RankCoordinator::Died(int rank) {
  Post([this, rank] {
    ++attempts_[rank];
    feeds_.Ended(rank, absl::AbortedError(absl::StrCat(ranks_.at(rank), " was killed")),
                 /*another=*/true);
    Refresh();
  });
}

void RankCoordinator::Report(const PartitionProgress& report) {
  Post([this, report] {
    Partition& partition =
        partitions_[std::string(CallOf(report.feed_id))][{report.data_epoch, report.partition}];
    partition = {.rank = report.executor_id,
                 .attempt = report.node_attempt,
                 .received = report.state == PartitionProgress::State::kReceived,
                 .done = report.state == PartitionProgress::State::kAcknowledged};
    Refresh();
  });
}

void RankCoordinator::Close(const std::string& feed_id) {
  Post([this, feed_id] {
    feeds_.Close(feed_id);
    Refresh();
  });
}

std::vector<EqualCounts> RankCoordinator::Counts(const std::string& feed_id) {
  std::vector<EqualCounts> counts;
  bool settled = false;
  for (int looks = 0; looks < kMostLooks && !settled; ++looks) {
    Notification done;
    Post([&] {
      counts = feeds_.Counts(feed_id, &settled).value_or(std::vector<EqualCounts>());
      done.Notify();
    });
    done.WaitForNotification();
    if (!settled) ThreadScheduler::Sleep(kLookAgain);
  }
  return counts;
}

std::map<std::string, int64_t> RankCoordinator::Rows(const std::string& feed_id) {
  std::map<std::string, int64_t> rows;
  Notification done;
  Post([&] {
    for (const auto& [rank, name] : ranks_) rows[name] = feeds_.RowsOf(feed_id, rank);
    done.Notify();
  });
  done.WaitForNotification();
  return rows;
}

// As FeedControl::RefreshFed.
void RankCoordinator::Refresh() {
  for (const auto& [call, partitions] : partitions_) {
    const bool all_given = static_cast<int64_t>(partitions.size()) == num_partitions_;
    std::set<int> unfed;
    for (const auto& [key, partition] : partitions) {
      if (partition.done) continue;
      const auto attempt = attempts_.find(partition.rank);
      const bool present = partition.attempt == (attempt == attempts_.end() ? 0 : attempt->second);
      if (!partition.received || !present) unfed.insert(partition.rank);
    }
    for (const auto& [rank, name] : ranks_) {
      feeds_.SetFed(call, rank, all_given && unfed.count(rank) == 0);
    }
  }
}

}  // namespace millrace
