// File: feed/feeder/train_job.h
//
// One Train call: every partition of a source, once per epoch, to the nodes that read a queue,
// until every row is acknowledged.
//
// Defines: BegunPartition, TrainResume, TrainJobOptions, RefedRows, TrainTally, TrainObserver,
// TrainJob.
//
//   TrainJob job(feeder, directory, &source, &observer,
//                {.feed_id = RandomHex(8), .num_epochs = 3});
//   MILLRACE_ASSIGN_OR_RETURN(TrainTally tally, job.Run());
//
// How it goes: feeding threads, by default one per node, each take the next (epoch, partition),
// give it to the running node that will be done with it first, by its pace so far
// (core/balance/node_load.h), and go on once the node has received all of it. Once none are left,
// what a slow node has not begun, or the rest of what it has, is taken back for a node that will be
// done sooner. When all partitions of all epochs are received, and none is to be moved any more,
// the observer's FeedEnd() is called (NextBatch then returns the short tail); the call is over when
// every row is acknowledged.
//
// A thread that waits for the source's next row does not see that its session has ended. Another
// one takes its partition over then, and feeds what was read without waiting for that row, which
// the waiting thread adds to it when it comes.
//
// Where programs read so that all nodes get equally many batches (docs/feed_protocol.md, section
// 11), a partition goes to the node that was given the fewest rows, which has no other one under
// way, and stays there. So nodes differ by the rows of one partition at most. What a node is to be
// fed again waits in the same way, without a thread. A node that stops reading ends the call, since
// the others cannot go on without it.
//
// What happens when a session ends before its time:
//
//   connection lost, same process      again from the first row not acknowledged, if the source is
//                                      deterministic; otherwise from row 0
//   node was restarted                 again from row 0, after waiting for it at most feed_timeout
//   taken back from a slow node        the rest goes to another one, from the first row that the
//                                      program was not given; of a source that is not deterministic
//                                      only what was not begun is taken back
//   program stopped reading, exit 0    the rest goes to other nodes, as in the first line; when no
//                                      node reads any more the call ends with `terminated`, and
//                                      readers of the source are cancelled
//   node failed, ERROR, bad frames     the call fails with that cause
//
// Rows that are sent again though the node may have used them are re-fed and counted: none after
// TERMINATED or when it was taken back, otherwise all that were sent and are not before the row
// where the next session begins. So a row reaches programs once, or the count says that it may have
// been more. A partition that is fed again after FeedEnd() was called travels under a new feed_id,
// "<feed_id>.<n>", with a FeedEnd() of its own: a node has closed the earlier feed.

#ifndef FEED_FEEDER_TRAIN_JOB_H_
#define FEED_FEEDER_TRAIN_JOB_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "feed/feeder/change_signal.h"
#include "feed/feeder/feeder_nodes.h"
#include "feed/feeder/feeder_partition.h"
#include "feed/feeder/feeder_session.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/partition_progress.h"
#include "millrace/option_defaults.h"
#include "millrace/source.h"

namespace millrace {

// The last session of a partition that is not done, of a feeder that is gone.
struct BegunPartition {
  std::string node;
  uint32_t node_attempt = 0;
  int64_t first_row = 0;  // rows before it are used
  // As of PartitionProgress, of the sessions up to that one.
  int refed_all = 0;
  int64_t refed_from = 0;
};

// How far a call had come whose feeder is gone. Partitions are those of all epochs: epoch *
// partitions + partition.
struct TrainResume {
  int64_t rounds = 0;  // for which FeedEnd() was called
  std::map<int64_t, BegunPartition> begun;
  std::map<int64_t, int64_t> done;  // their rows
};

struct TrainJobOptions {
  std::string feed_id;  // new for every call, but one that goes on
  std::string queue = kDefaultQueue;
  int64_t num_epochs = 1;
  // The longest time without progress, and the longest wait for a node that restarts.
  absl::Duration feed_timeout = kDefaultFeedTimeout;
  // Partitions that are fed at a time. Absent: one per fed node; at most 256.
  std::optional<int> max_feeding_threads;
  int64_t batch_bytes = kDefaultBatchBytes;  // size that batches are cut to
  // Batches that were sent and are not acknowledged are kept, up to this size in all, to be sent
  // again; beyond it the source is read again. Only of a deterministic source.
  int64_t keep_bytes = int64_t{256} << 20;
  int64_t feeder_attempt = 0;
  // Goes on where a feeder before this one left off: partitions that are done are left out, and
  // those that were begun go to the node that had them, behind the rows that its program was given.
  TrainResume resume;
};

// Rows that were sent again, though the node that had them may have used them.
struct RefedRows {
  int64_t partition = 0;
  int64_t data_epoch = 0;
  int64_t rows = 0;
  std::string node;  // the one that had them
  std::string reason;
};

// What a job did, as it counts its sessions. What users are told is the ledger's (TrainResult).
struct TrainTally {
  // No node reads the queue any more; rows may be unread.
  bool terminated = false;
  // Rows that each node's program has used; those that were used twice count twice.
  std::map<std::string, int64_t> rows_by_node;
  std::vector<RefedRows> refed;
  // Times that a partition, or the rest of one, was taken back from one node for another.
  int64_t moved = 0;
  absl::Duration elapsed;

  [[nodiscard]] int64_t rows() const;
  [[nodiscard]] int64_t rows_refed() const;
};

// Thread safety: as PartitionObserver. Blocking: FeedEnd() for a round trip.
class TrainObserver : public PartitionObserver {
 public:
  // Every partition of the feed is received, or (`aborted`) the call has failed: to be pushed to
  // the nodes as feed_end. An error fails the call.
  [[nodiscard]] virtual absl::Status FeedEnd(const std::string& feed_id, bool aborted) = 0;
};

// Thread safety: Run() is for one thread, once; Cancel() for any thread at any time.
// Lifetime: everything passed in outlives it.
class TrainJob {
 public:
  TrainJob(SessionOpener* feeder, NodeDirectory* directory, const PartitionedSource* source,
           TrainObserver* observer, TrainJobOptions options);
  TrainJob(const TrainJob&) = delete;
  TrainJob& operator=(const TrainJob&) = delete;

  // Blocks until the call is over and its threads are joined. Returns
  //   INVALID_ARGUMENT     num_epochs < 1, no feed_id, no fed node, options out of range
  //   DEADLINE_EXCEEDED    a node made no progress for feed_timeout; names node, partition, queue
  //   UNAUTHENTICATED      a node refuses the key
  //   UNAVAILABLE          a node does not answer, or did not come back within feed_timeout
  //   DATA_LOSS            a node broke the protocol
  //   the cause            of a node that failed; an ERROR that a node sent; an error of the
  //                        source or of the observer; what Cancel() was given
  [[nodiscard]] absl::StatusOr<TrainTally> Run();

  // Ends Run() with `status`, which must not be OK, as soon as no thread is inside the source
  // (whose readers are cancelled) or the observer any more; without those, at once.
  void Cancel(const absl::Status& status);

 private:
  // A partition that is not over yet. Held by one thread at a time. A deposed one, which it was
  // taken over from, may still be inside `rows`, and looks at nothing else of it.
  struct Work {
    Work(const PartitionedSource* source, int partition, int64_t epoch, int64_t batch_bytes,
         KeepBudget* keep)
        : partition(partition),
          epoch(epoch),
          rows(source, partition, epoch, batch_bytes, source->deterministic() ? keep : nullptr) {}
    const int partition;
    const int64_t epoch;
    FeederPartition rows;
    int64_t first_row = 0;                 // where the next session begins
    std::shared_ptr<FeedSession> session;  // the last one
    int breaks = 0;        // lost connections in a row without a row acknowledged in between
    bool claimed = false;  // its node counts it as under way: see NextWork()
    std::optional<std::string> first_node;  // the same of one that was not fed yet, if it is known
    std::optional<BegunPartition> begun;    // by a feeder before this one; until it has a session
    // The next session, or the last one as long as its node has not said where it begins, goes on
    // for one of a feeder before this one.
    bool resumed = false;
    int refed_all = 0;               // as of PartitionProgress
    int64_t refed_from = 0;          // with refed_all
    std::string refed_reason;        // with refed_all
    std::optional<RefedRows> refed;  // to be counted when the next session begins
    absl::Duration reported;         // steady time of the last report
  };
  using WorkPtr = std::shared_ptr<Work>;

  absl::Status Validate() const;
  // Feeding threads.
  void FeedLoop();
  WorkPtr TakeWork();
  // nullptr if there is none now.
  WorkPtr NextWork(const std::map<std::string, int64_t>& told) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The next fresh partition is one that neither is done nor was begun.
  void SkipKnown() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Feed(WorkPtr& work);
  absl::StatusOr<std::optional<FeedTarget>> NextTarget(Work& work);
  // Where what was begun by a feeder before this one goes.
  absl::StatusOr<std::optional<FeedTarget>> ResumedTarget(Work& work);
  // From where its node says, once it has.
  absl::Status TakeUp(Work& work);
  // Nobody knows how much of it a node had: all from `row` on is sent again, and counted so.
  void FeedAllAgain(Work& work, int64_t row, absl::string_view reason);
  // What a node gets that was not fed anywhere yet.
  absl::StatusOr<std::optional<FeedTarget>> FirstTarget();
  // The node that was given the fewest rows, as soon as it has no partition under way.
  absl::StatusOr<std::optional<FeedTarget>> LevelTarget();
  // Rows that each node has had, holds, or will be fed again. Once a node was started again, which
  // begins without rows, only those that are not acknowledged: what they wait for shows in these.
  // A lost connection may have taken the acknowledgements of rows that a node has had; what `told`
  // says of them, which nodes tell the coordinator, is right as soon as the others wait for it.
  std::map<std::string, int64_t> Levels(const std::map<std::string, int64_t>& told)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Those that are missing to feed `count` partitions at a time, or as many as before.
  absl::Status StartThreads(int count);
  absl::StatusOr<bool> OpenSession(const FeedTarget& target, const WorkPtr& work);
  absl::Status Stream(Work& work);
  // The thread of Run().
  void Watch();
  void CollectOutstanding();
  void Balance(bool equal);
  bool MayStillMove();
  // Whether all nodes are to get equally many rows. Once true, always.
  bool CheckEqual();
  void TakeOverWaiting();
  // Every partition is or was with a thread.
  bool AllGiven();
  bool AllReceived();
  absl::Duration NextDeadline();
  void CheckTimeouts();
  void EndThreads();
  TrainTally TakeTally(absl::Duration began);

  void Fail(const absl::Status& status);
  // Nobody reads any more.
  void EndTerminated();
  void CancelReading();
  void Count(const Work& work);  // the rows that its session, which is over, has fed
  void PrepareRefeed(Work& work, const Recovery& recovery);
  void Report(PartitionProgress::State state, Work& work, int64_t rows_refed = 0,
              absl::string_view reason = "");
  // If the last report was kPartitionReportInterval ago.
  void ReportInTime(PartitionProgress::State state, Work& work);
  // Of a partition whose last session has ended, since the call is over.
  void ReportEnd(Work& work);

  SessionOpener* const feeder_;
  NodeDirectory* const directory_;
  const PartitionedSource* const source_;
  TrainObserver* const observer_;
  const TrainJobOptions options_;
  FeederNodes nodes_;
  KeepBudget keep_;
  const std::shared_ptr<ChangeSignal> signal_ = std::make_shared<ChangeSignal>();  // wakes Watch()

  Mutex mu_;
  CondVar work_cv_;  // there may be work for a thread, or a node for its work
  std::map<int64_t, BegunPartition> begun_ ABSL_GUARDED_BY(mu_);  // that no thread has taken
  // Fresh work: the next (epoch, partition).
  int64_t next_epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int next_partition_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<WorkPtr> again_ ABSL_GUARDED_BY(mu_);       // to be fed again; goes first
  int in_hand_ ABSL_GUARDED_BY(mu_) = 0;                 // held by feeding threads
  int max_in_hand_ ABSL_GUARDED_BY(mu_) = 0;             // only grows
  int deposed_ ABSL_GUARDED_BY(mu_) = 0;                 // threads whose work was taken over
  std::list<WorkPtr> outstanding_ ABSL_GUARDED_BY(mu_);  // received, not acknowledged
  // Works in hand, by their sessions.
  std::map<std::shared_ptr<FeedSession>, WorkPtr, SessionOrder> feeding_ ABSL_GUARDED_BY(mu_);
  bool equal_ ABSL_GUARDED_BY(mu_) = false;                            // what CheckEqual() said
  std::map<std::string, std::string> processes_ ABSL_GUARDED_BY(mu_);  // last nonces, by node
  bool restarted_ ABSL_GUARDED_BY(mu_) = false;  // some node was started again
  // Of the works that feeding threads hold or, once deposed, held.
  std::multiset<std::shared_ptr<SourceCancel>> reading_ ABSL_GUARDED_BY(mu_);
  std::string feed_id_ ABSL_GUARDED_BY(mu_);
  int round_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Duration> feed_ended_ ABSL_GUARDED_BY(mu_);  // steady time; of feed_id_
  // Of partitions that were fed to the end.
  int64_t done_partitions_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t done_rows_ ABSL_GUARDED_BY(mu_) = 0;
  bool over_ ABSL_GUARDED_BY(mu_) = false;     // feeding threads are to end
  absl::Status failure_ ABSL_GUARDED_BY(mu_);  // the first; implies over_
  TrainTally tally_ ABSL_GUARDED_BY(mu_);
  // Of the thread of Run().
  bool more_moves_ = false;     // some will be worth it later
  bool ended_in_hand_ = false;  // a session, whose thread does not wait for the source now
  int64_t acked_rows_ = 0;      // by all nodes, when Balance() looked last
  absl::Duration acked_at_{};   // steady time when that grew last
  std::vector<Thread> threads_;
};

}  // namespace millrace

#endif  // FEED_FEEDER_TRAIN_JOB_H_
