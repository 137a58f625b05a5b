#include "testing/schedules/feed_world.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/inference_job.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/partition_progress.h"
#include "feed/feeder/train_job.h"
#include "feed/receiver/data_feed.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "testing/schedules/feed_wire.h"
#include "testing/schedules/rank_coordinator.h"

namespace millrace {
namespace {

constexpr absl::Duration kFeedTimeout = absl::Seconds(60);
// More than anything takes that goes as it should: what waits for no good reason waits as long.
constexpr absl::Duration kSlack = absl::Milliseconds(600);
constexpr int64_t kPartitionIds = 1'000'000;
constexpr int64_t kEpochIds = 1'000'000'000;

int64_t RowId(int64_t epoch, int64_t partition, int64_t row) {
  return epoch * kEpochIds + partition * kPartitionIds + row;
}

int64_t Random(int64_t limit) {
  return static_cast<int64_t>(ThreadScheduler::Random(static_cast<uint64_t>(limit)));
}

RecordBatch Rows(int64_t epoch, int64_t partition, int64_t first, int64_t rows) {
  std::vector<int64_t> ids;
  for (int64_t row = first; row < first + rows; ++row) ids.push_back(RowId(epoch, partition, row));
  return *BatchBuilder().AddColumn("id", std::move(ids)).Build();
}

// As ClusterDirectory, with what ranks have told.
class Directory final : public NodeDirectory {
 public:
  FakeNodeDirectory& nodes() { return nodes_; }
  void SetRanks(RankCoordinator* ranks) {
    ranks_ = ranks;
    nodes_.SetEqual();
  }

  std::vector<std::string> fed_nodes() override { return nodes_.fed_nodes(); }
  absl::StatusOr<FeedTarget> Lookup(const std::string& node) override {
    return nodes_.Lookup(node);
  }
  bool IsEqual(const std::string& queue) override { return nodes_.IsEqual(queue); }
  absl::Status Cause(const std::string& node) override { return nodes_.Cause(node); }
  std::map<std::string, int64_t> EqualRows(const std::string& feed_id) override {
    return ranks_ == nullptr ? std::map<std::string, int64_t>() : ranks_->Rows(feed_id);
  }

 private:
  FakeNodeDirectory nodes_;
  RankCoordinator* ranks_ = nullptr;
};

// The cluster of one run.
class World final : public TrainObserver {
 public:
  explicit World(const FeedPlan& plan) : plan_(plan) {
    if (plan_.equal != FeedPlan::Equal::kOff) {
      std::map<int, std::string> names;
      for (int i = 0; i < plan_.nodes; ++i) names[i] = absl::StrCat("worker:", i);
      ranks_ = std::make_unique<RankCoordinator>(
          std::move(names), static_cast<int64_t>(plan_.rows.size()) * plan_.epochs,
          [this](const EqualGrant& grant) { Grant(grant); });
      directory_.SetRanks(ranks_.get());
    }
    steps_.resize(static_cast<size_t>(plan_.nodes));
    for (int i = 0; i < plan_.nodes; ++i) attempts_.push_back(Begin(i, 0));
    fate_ = Thread("fate", [this] { BringFaults(); });
  }

  // One call after the other. A rank may still take its last steps of one when the next begins.
  void Train(FeedOutcome* outcome) {
    const absl::Duration began = RealClock()->SteadyNow();
    TrainTally tally;
    for (int64_t call = 0; call < plan_.calls; ++call) {
      const GeneratorSource source = Source(/*first_epoch=*/call * plan_.epochs);
      const std::string feed_id = absl::StrCat("f", call);
      TrainJob job(&wire_, &directory_, &source, this,
                   {.feed_id = feed_id,
                    .num_epochs = plan_.epochs,
                    .feed_timeout = kFeedTimeout,
                    .batch_bytes = plan_.batch_bytes,
                    .keep_bytes = plan_.keep_bytes});
      Thread canceller = Canceller([&job](const absl::Status& status) { job.Cancel(status); });
      const absl::StatusOr<TrainTally> result = job.Run();
      const bool last = call + 1 == plan_.calls || !result.ok() || result->terminated;
      if (last) Ended(began, result.status(), &canceller, outcome);
      if (!result.ok()) break;
      if (ranks_ != nullptr) CountEqual(feed_id);
      tally.terminated = result->terminated;
      for (const auto& [node, rows] : result->rows_by_node) tally.rows_by_node[node] += rows;
      tally.refed.insert(tally.refed.end(), result->refed.begin(), result->refed.end());
      if (last) break;
    }
    End(outcome);
    if (!outcome->status.ok()) return;
    if (ranks_ != nullptr) CheckEqual(outcome);
    CheckTrain(tally, outcome);
  }

  void Infer(FeedOutcome* outcome) {
    const GeneratorSource source = Source(/*first_epoch=*/0);
    std::vector<int64_t> next(plan_.rows.size());
    const absl::Duration began = RealClock()->SteadyNow();
    {
      InferenceJob job(&wire_, &directory_, &source, /*observer=*/nullptr,
                       {.feed_id = "f",
                        .feed_timeout = kFeedTimeout,
                        .batch_bytes = plan_.batch_bytes,
                        .window_bytes = plan_.budget_bytes,
                        .max_unread_bytes = 4 * plan_.batch_bytes});
      Thread canceller = Canceller([&job](const absl::Status& status) { job.Cancel(status); });
      const absl::Status status = job.Collect([&](int partition, const RecordBatch& results) {
        int64_t& row = next[static_cast<size_t>(partition)];
        if (!results.Equals(Rows(0, partition, row, results.num_rows()))) {
          outcome->broken.push_back(
              absl::StrCat("results of partition ", partition, " from row ", row, " are others"));
        }
        row += results.num_rows();
        return absl::OkStatus();
      });
      Ended(began, status, &canceller, outcome);
    }
    End(outcome);
    for (size_t p = 0; p < next.size(); ++p) {
      if (next[p] > plan_.rows[p] || (outcome->status.ok() && next[p] != plan_.rows[p])) {
        outcome->broken.push_back(
            absl::StrCat(next[p], " results for the ", plan_.rows[p], " rows of partition ", p));
      }
    }
  }

  void OnPartition(const PartitionProgress& report) override {
    if (ranks_ != nullptr) ranks_->Report(report);
    MutexLock lock(&mu_);
    if (report.state == PartitionProgress::State::kRefeeding) refed_seen_ += report.rows_refed;
    if (report.state == PartitionProgress::State::kAcknowledged) ++acknowledged_;
  }

  // As the coordinator tells the nodes, which hear of it one after the other.
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    std::vector<std::shared_ptr<Attempt>> attempts;
    {
      MutexLock lock(&mu_);
      ended_feeds_[feed_id] = aborted;
      attempts = attempts_;
    }
    for (const std::shared_ptr<Attempt>& attempt : attempts) {
      attempt->node->core()->FeedEnd(feed_id, aborted);
    }
    return absl::OkStatus();
  }

 private:
  struct Attempt {
    std::shared_ptr<WiredNode> node;
    absl::Status ended;              // the program's
    std::atomic<bool> left = false;  // it wanted no more
    Thread program;
  };

  GeneratorSource Source(int64_t first_epoch) {
    return **GeneratorSource::Create(
        Rows(0, 0, 0, 1).schema(), static_cast<int>(plan_.rows.size()),
        [this, first_epoch](int partition, int64_t epoch,
                            int64_t batch) -> absl::StatusOr<std::optional<RecordBatch>> {
          PauseSource();
          const int64_t first = batch * plan_.source_rows;
          const int64_t left = plan_.rows[static_cast<size_t>(partition)] - first;
          if (left <= 0) return std::optional<RecordBatch>();
          return std::optional(
              Rows(first_epoch + epoch, partition, first, std::min(left, plan_.source_rows)));
        },
        plan_.deterministic);
  }

  void PauseSource() {
    if (plan_.source_pause <= absl::ZeroDuration() || ThreadScheduler::Random(4) != 0) return;
    const absl::Duration pause = absl::Nanoseconds(static_cast<int64_t>(ThreadScheduler::Random(
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(plan_.source_pause)))));
    {
      MutexLock lock(&mu_);
      source_pauses_ += pause;
    }
    ThreadScheduler::Sleep(pause);
  }

  Thread Canceller(std::function<void(const absl::Status&)> cancel) {
    if (!plan_.cancel_after.has_value()) return {};
    return Thread("canceller", [this, cancel = std::move(cancel)] {
      if (called_.WaitForNotificationWithTimeout(*plan_.cancel_after)) return;
      cancelled_ = true;
      cancel(absl::CancelledError("by the test"));
    });
  }

  // The call has returned.
  void Ended(absl::Duration began, const absl::Status& status, Thread* canceller,
             FeedOutcome* outcome) {
    outcome->status = status;
    outcome->took = RealClock()->SteadyNow() - began;
    outcome->excused = ThreadScheduler::Idle() + wire_.delays();
    {
      MutexLock lock(&mu_);
      outcome->excused += source_pauses_;
    }
    called_.Notify();
    canceller->Join();
  }

  bool AllLeave() const {
    return plan_.equal == FeedPlan::Equal::kOff &&
           std::all_of(plan_.stop_after.begin(), plan_.stop_after.end(),
                       [](int64_t rows) { return rows > 0; });
  }

  std::shared_ptr<Attempt> Begin(int index, uint32_t number) {
    auto attempt = std::make_shared<Attempt>();
    attempt->node = std::make_shared<WiredNode>(
        &wire_, absl::StrCat("worker:", index), index, number, plan_.budget_bytes,
        [this, index](const ReceiverRows& rows) { ranks_->Tell(index, rows); });
    wire_.Add(attempt->node);
    {
      MutexLock lock(&mu_);
      all_.push_back(attempt);
      for (const auto& [feed_id, aborted] : ended_feeds_) {
        attempt->node->core()->FeedEnd(feed_id, aborted);
      }
    }
    attempt->program = Thread(
        absl::StrCat("program ", index, "/", number),
        [this, attempt = attempt.get(), index] { attempt->ended = RunProgram(attempt, index); });
    if (!attempt->left) directory_.nodes().Set(attempt->node->target());
    return attempt;
  }

  void Grant(const EqualGrant& grant) {
    std::shared_ptr<Attempt> attempt;
    {
      MutexLock lock(&mu_);
      for (const std::shared_ptr<Attempt>& each : all_) {
        if (each->node->target().executor_id == grant.executor_id) attempt = each;
      }
    }
    if (attempt == nullptr) return;
    attempt->node->core()->Grant({.queue = grant.queue,
                                  .feed_id = grant.feed_id,
                                  .generation = grant.generation,
                                  .steps = grant.steps,
                                  .last = grant.last,
                                  .question = grant.question,
                                  .error = grant.error,
                                  .fatal = grant.fatal});
  }

  // Reads until no rows will come.
  absl::Status RunProgram(Attempt* attempt, int index) {
    WiredNode* const node = attempt->node.get();
    const int64_t stop_after = plan_.stop_after[static_cast<size_t>(index)];
    int64_t had = 0;
    DataFeedOptions options{.train_mode = plan_.call == FeedPlan::Call::kTrain};
    if (ranks_ != nullptr) {
      const bool pad = plan_.equal == FeedPlan::Equal::kPad;
      MILLRACE_RETURN_IF_ERROR(node->core()->SetEqual("input", plan_.most_rows, pad));
      MILLRACE_RETURN_IF_ERROR(
          ranks_->Join(index, "input", {.batch_rows = plan_.most_rows, .pad = pad}));
      options.equal = pad ? EqualRanks::kPad : EqualRanks::kDrop;
      options.batch_rows = plan_.most_rows;
    }
    const FeedMode mode =
        plan_.call == FeedPlan::Call::kTrain ? FeedMode::kTrain : FeedMode::kInference;
    MILLRACE_ASSIGN_OR_RETURN(const size_t queue, node->core()->OpenReader("input", mode));
    const std::unique_ptr<DataFeed> feed = MakeDataFeed(node->core(), queue, options);
    const absl::Duration most_pause = plan_.pause[static_cast<size_t>(index)];
    while (!feed->ShouldStop()) {
      const int64_t rows = ranks_ != nullptr ? plan_.most_rows : 1 + Random(plan_.most_rows);
      absl::StatusOr<Batch> next = feed->NextBatch(rows);
      // Another rank was started again: the batches of all are counted anew.
      if (ranks_ != nullptr && absl::IsAborted(next.status())) {
        steps_[static_cast<size_t>(index)] = 0;
        continue;
      }
      MILLRACE_RETURN_IF_ERROR(next.status());
      const Batch& batch = *next;
      if (batch.empty()) continue;
      had += batch.num_rows();
      ++steps_[static_cast<size_t>(index)];
      {
        MutexLock lock(&mu_);
        if (node->dead()) return absl::OkStatus();
        for (const int64_t id : batch.column<int64_t>("id")) ++handed_[id];
      }
      if (most_pause > absl::ZeroDuration()) {
        ThreadScheduler::Sleep(absl::Nanoseconds(static_cast<int64_t>(
            ThreadScheduler::Random(static_cast<uint64_t>(absl::ToInt64Nanoseconds(most_pause))))));
      }
      {
        MutexLock lock(&mu_);
        if (node->dead()) return absl::OkStatus();
        for (const int64_t id : batch.column<int64_t>("id")) used_.insert(id);
      }
      if (mode == FeedMode::kInference) {
        MILLRACE_RETURN_IF_ERROR(feed->BatchResults(batch.record_batch()));
      }
      if (stop_after > 0 && had >= stop_after) {
        attempt->left = true;
        MILLRACE_RETURN_IF_ERROR(feed->Terminate());
        MILLRACE_RETURN_IF_ERROR(node->core()->Finish(absl::OkStatus()));
        directory_.nodes().SetState(node->target().node, FeedTarget::State::kFinished);
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  void BringFaults() {
    std::vector<uint32_t> numbers(static_cast<size_t>(plan_.nodes));
    for (const FeedPlan::Fault& fault : plan_.faults) {
      if (over_.WaitForNotificationWithTimeout(fault.after)) return;
      const auto at = static_cast<size_t>(fault.node);
      std::shared_ptr<Attempt> attempt;
      {
        MutexLock lock(&mu_);
        attempt = attempts_[at];
      }
      if (attempt->left) continue;
      if (fault.kind == FeedPlan::Fault::Kind::kBreak) {
        wire_.Break(attempt->node.get());
        continue;
      }
      directory_.nodes().SetState(attempt->node->target().node, FeedTarget::State::kRestarting);
      attempt->node->Kill();
      if (ranks_ != nullptr) ranks_->Died(fault.node);
      if (over_.WaitForNotificationWithTimeout(fault.down)) return;
      std::shared_ptr<Attempt> next = Begin(fault.node, ++numbers[at]);
      MutexLock lock(&mu_);
      attempts_[at] = std::move(next);
    }
  }

  // Ends the cluster, and looks at what it leaves.
  void End(FeedOutcome* outcome) {
    over_.Notify();
    fate_.Join();
    for (const std::shared_ptr<Attempt>& attempt : all_) attempt->node->core()->EndAllFeeds();
    for (const std::shared_ptr<Attempt>& attempt : all_) {
      attempt->program.Join();
      if (!attempt->node->dead() && !attempt->ended.ok() && outcome->status.ok()) {
        outcome->broken.push_back(absl::StrCat(attempt->node->target().nonce, ": the program got ",
                                               attempt->ended.ToString()));
      }
    }
    for (const std::shared_ptr<Attempt>& attempt : all_) {
      attempt->node->Leave();
    }
    wire_.Stop();
    if (wire_.num_sessions() > 0) {
      outcome->broken.push_back(
          absl::StrCat("the feeder has ", wire_.num_sessions(), " sessions after the call"));
    }
    for (const std::string& fault : wire_.faults()) outcome->broken.push_back(fault);
    for (const std::shared_ptr<Attempt>& attempt : all_) {
      const FeedReceiverStats stats = attempt->node->core()->stats();
      // A batch that is larger than the budget goes alone.
      if (stats.peak_committed_bytes > std::max(stats.budget_bytes, LargestBatch())) {
        outcome->broken.push_back(
            absl::StrCat(attempt->node->target().nonce, ": ", stats.peak_committed_bytes,
                         " bytes were committed of a budget of ", stats.budget_bytes));
      }
    }
    // A call that fails although all came back in time was not to fail.
    if (!outcome->status.ok() && !(cancelled_ && absl::IsCancelled(outcome->status))) {
      outcome->broken.push_back(absl::StrCat("the call failed: ", outcome->status.ToString()));
    }
    const absl::Duration longest = Longest() + outcome->excused;
    if (outcome->took > longest) {
      outcome->broken.push_back(absl::StrCat("the call took ", absl::FormatDuration(outcome->took),
                                             ", and at most ", absl::FormatDuration(longest),
                                             " were to be expected"));
    }
  }

  // What ranks did not get, or got once more, so that all have as much.
  void CountEqual(const std::string& feed_id) {
    for (const EqualCounts& counts : ranks_->Counts(feed_id)) {
      dropped_ += counts.dropped;
      repeated_ += counts.repeated;
      equal_complete_ = equal_complete_ && counts.complete;
    }
    ranks_->Close(feed_id);
  }

  bool AnyoneIsKilled() const {
    return std::any_of(plan_.faults.begin(), plan_.faults.end(), [](const FeedPlan::Fault& fault) {
      return fault.kind == FeedPlan::Fault::Kind::kKill;
    });
  }

  void CheckEqual(FeedOutcome* outcome) {
    if (AnyoneIsKilled()) return;  // a rank that was given nothing since does not hear of it
    if (std::set<int64_t>(steps_.begin(), steps_.end()).size() > 1) {
      outcome->broken.push_back(
          absl::StrCat("ranks have taken ", absl::StrJoin(steps_, ", "), " steps"));
    }
  }

  int64_t LargestBatch() const { return 8 * plan_.batch_bytes + 4096; }

  // What the slowest node alone would need for all rows, fed once more after each fault.
  absl::Duration Longest() const {
    // The feed is kept open so long for what may move to another node.
    const absl::Duration slack = plan_.nodes > 1 && plan_.call == FeedPlan::Call::kTrain
                                     ? kSlack + absl::Seconds(1)
                                     : kSlack;
    int64_t rows = 0;
    for (const int64_t each : plan_.rows) rows += each * plan_.epochs * plan_.calls;
    const absl::Duration pause = *std::max_element(plan_.pause.begin(), plan_.pause.end());
    absl::Duration longest = slack + pause * rows;
    for (const FeedPlan::Fault& fault : plan_.faults) {
      longest += fault.after + fault.down + slack + pause * rows;
    }
    return longest;
  }

  void CheckTrain(const TrainTally& tally, FeedOutcome* outcome) {
    MutexLock lock(&mu_);
    int64_t rows = 0;
    int64_t lost = 0;
    for (int64_t epoch = 0; epoch < plan_.calls * plan_.epochs; ++epoch) {
      for (size_t p = 0; p < plan_.rows.size(); ++p) {
        for (int64_t row = 0; row < plan_.rows[p]; ++row, ++rows) {
          const int64_t id = RowId(epoch, static_cast<int64_t>(p), row);
          if (used_.count(id) == 0) {
            ++lost;
            handed_.erase(id);  // a program that was killed may have had it
            continue;
          }
          outcome->rows_again += handed_[id] - 1;
          handed_.erase(id);
        }
      }
    }
    if (lost > dropped_ && !tally.terminated && equal_complete_) {
      outcome->broken.push_back(
          absl::StrCat(lost, " rows were used nowhere, and ", dropped_, " are said to be dropped"));
    }
    outcome->rows_refed = tally.rows_refed();
    std::vector<std::string>& broken = outcome->broken;
    // Of a rank that dies before it has told it is not known.
    if (!equal_complete_ && !tally.terminated && !AnyoneIsKilled()) {
      broken.push_back("nobody died, and what ranks have dropped and repeated is not known");
    }
    if (tally.terminated) {
      if (!AllLeave()) broken.push_back("some nodes read on, and the call was terminated");
      return;
    }
    if (!handed_.empty()) broken.push_back("rows came that nobody has fed");
    if (outcome->rows_again > tally.rows_refed() + repeated_ && equal_complete_) {
      broken.push_back(absl::StrCat(outcome->rows_again, " rows came again, and ",
                                    tally.rows_refed(), " are said to be fed again"));
    }
    if (tally.rows() < rows || tally.rows() > rows + tally.rows_refed()) {
      broken.push_back(absl::StrCat(tally.rows(), " rows are said to be used of ", rows));
    }
    if (refed_seen_ != tally.rows_refed()) {
      broken.push_back(absl::StrCat("the observer saw ", refed_seen_, " rows fed again, and ",
                                    tally.rows_refed(), " are said to be"));
    }
    const auto partitions = static_cast<int64_t>(plan_.rows.size()) * plan_.epochs * plan_.calls;
    if (acknowledged_ != partitions) {
      broken.push_back(
          absl::StrCat(acknowledged_, " partitions are said to be acknowledged of ", partitions));
    }
  }

  const FeedPlan& plan_;
  FeedWire wire_;
  Directory directory_;
  Notification called_;  // the call has returned
  Notification over_;
  std::atomic<bool> cancelled_ = false;
  Mutex mu_;
  std::vector<std::shared_ptr<Attempt>> attempts_ ABSL_GUARDED_BY(mu_);  // the present ones
  std::vector<std::shared_ptr<Attempt>> all_;  // by the constructor and "fate"
  std::map<std::string, bool> ended_feeds_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, int64_t> handed_ ABSL_GUARDED_BY(mu_);  // how often, by id
  std::set<int64_t> used_ ABSL_GUARDED_BY(mu_);             // those of whom it is known
  absl::Duration source_pauses_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> steps_;  // of each node: of its program's thread, and then of this one
  int64_t dropped_ = 0;
  int64_t repeated_ = 0;
  bool equal_complete_ = true;  // there are no others
  int64_t refed_seen_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<RankCoordinator> ranks_;
  Thread fate_;
};

}  // namespace

FeedPlan MakeFeedPlan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  FeedPlan plan;
  plan.seed = seed;
  plan.call = pick(0, 2) == 0 ? FeedPlan::Call::kInference : FeedPlan::Call::kTrain;
  plan.nodes = static_cast<int>(pick(1, 3));
  const int64_t partitions = pick(1, 5);
  for (int64_t p = 0; p < partitions; ++p) plan.rows.push_back(pick(0, 60));
  plan.epochs = plan.call == FeedPlan::Call::kTrain ? pick(1, 2) : 1;
  plan.source_rows = pick(1, 30);
  plan.batch_bytes = pick(50, 1000);
  plan.budget_bytes = pick(1, 2) == 1 ? pick(200, 3000) : 1'000'000;
  plan.keep_bytes = pick(0, 1) * 1'000'000;
  plan.deterministic = plan.call == FeedPlan::Call::kInference || pick(0, 3) != 0;
  plan.most_rows = pick(1, 40);
  for (int i = 0; i < plan.nodes; ++i) {
    const int64_t kind = pick(0, 3);
    plan.pause.push_back(kind == 0  ? absl::ZeroDuration()
                         : kind < 3 ? absl::Microseconds(pick(1, 2000))
                                    : absl::Milliseconds(pick(5, 200)));
  }
  for (int i = 0; i < plan.nodes; ++i) {
    const bool stops = plan.call == FeedPlan::Call::kTrain && pick(0, 5) == 0;
    plan.stop_after.push_back(stops ? pick(1, 60) : 0);
  }
  if (pick(0, 3) == 0) plan.source_pause = absl::Milliseconds(pick(1, 400));
  if (pick(0, 7) == 0) plan.cancel_after = absl::Microseconds(pick(0, 300'000));
  if (plan.call == FeedPlan::Call::kTrain && pick(0, 3) == 0) {
    plan.equal = pick(0, 1) == 0 ? FeedPlan::Equal::kDrop : FeedPlan::Equal::kPad;
    plan.stop_after.assign(plan.stop_after.size(), 0);  // the others could not go on
    // A rank pads with rows that it has had.
    while (plan.equal == FeedPlan::Equal::kPad &&
           plan.rows.size() < static_cast<size_t>(plan.nodes)) {
      plan.rows.push_back(0);
    }
    if (plan.equal == FeedPlan::Equal::kPad) {
      for (int64_t& rows : plan.rows) rows = std::max<int64_t>(rows, 1);
    }
  }
  const int64_t faults = pick(0, 3);
  for (int64_t i = 0; i < faults; ++i) {
    FeedPlan::Fault fault;
    fault.kind = pick(0, 2) == 0 ? FeedPlan::Fault::Kind::kKill : FeedPlan::Fault::Kind::kBreak;
    fault.node = static_cast<int>(pick(0, plan.nodes - 1));
    fault.after =
        pick(0, 1) == 0 ? absl::Microseconds(pick(0, 2000)) : absl::Milliseconds(pick(0, 300));
    fault.down = absl::Milliseconds(pick(0, 500));
    plan.faults.push_back(fault);
  }
  if (plan.call == FeedPlan::Call::kTrain && !plan.cancel_after.has_value()) {
    plan.calls = std::max<int64_t>(1, pick(-1, 3));
  }
  return plan;
}

std::string FeedPlan::ToString() const {
  std::string text = absl::StrCat(
      call == Call::kTrain ? "train" : "inference", " of ", absl::StrJoin(rows, "+"), " rows, ",
      epochs, " epochs, ", calls, " calls, ", nodes, " nodes, batches of ", batch_bytes, " bytes (",
      source_rows, " rows of the source), budget ", budget_bytes, ", up to ", most_rows,
      " rows a call", deterministic ? "" : ", not deterministic");
  for (const absl::Duration each : pause) {
    absl::StrAppend(&text, ", pause ", absl::FormatDuration(each));
  }
  if (equal != Equal::kOff) absl::StrAppend(&text, equal == Equal::kPad ? ", padded" : ", dropped");
  for (const int64_t each : stop_after) {
    if (each > 0) absl::StrAppend(&text, ", a node wants ", each, " rows");
  }
  if (source_pause > absl::ZeroDuration()) {
    absl::StrAppend(&text, ", the source pauses for ", absl::FormatDuration(source_pause));
  }
  if (cancel_after.has_value()) {
    absl::StrAppend(&text, ", cancelled after ", absl::FormatDuration(*cancel_after));
  }
  for (const Fault& fault : faults) {
    absl::StrAppend(&text, "; ", absl::FormatDuration(fault.after), " later worker:", fault.node,
                    fault.kind == Fault::Kind::kBreak
                        ? "'s connection breaks"
                        : absl::StrCat(" is killed for ", absl::FormatDuration(fault.down)));
  }
  return text;
}

FeedOutcome RunFeed(const FeedPlan& plan) {
  FeedOutcome outcome;
  outcome.schedule = ThreadScheduler::Run({.seed = plan.seed}, [&] {
    World world(plan);
    if (plan.call == FeedPlan::Call::kTrain) {
      world.Train(&outcome);
    } else {
      world.Infer(&outcome);
    }
  });
  return outcome;
}

}  // namespace millrace
