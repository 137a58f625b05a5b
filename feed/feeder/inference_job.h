// File: feed/feeder/inference_job.h
//
// One Inference call: the partitions of a source go to the nodes, and a result for every row comes
// back, in order.
//
// Defines: InferenceJobOptions, InferenceReader, PartitionResults, InferenceResults, InferenceJob.
//
// Lazily, partition by partition, fed as results are pulled:
//
//   InferenceJob job(feeder, directory, &source, &observer, {.feed_id = RandomHex(8)});
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<InferenceReader> reader, job.OpenPartition(3));
//   while (true) {
//     MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> results, reader->Next());
//     if (!results.has_value()) break;   // there was one for every row
//     ...
//   }
//
// or all of them at once, as many at a time as there are nodes:
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<InferenceResults> results, job.Start());
//   while (true) {
//     MILLRACE_ASSIGN_OR_RETURN(std::optional<PartitionResults> some, results->Next());
//     if (!some.has_value()) break;   // all partitions are complete
//     ...
//   }
//
// When a session ends before its time (see feed/feeder/train_job.h for the cases) the partition is
// fed again from row 0, to the same node, its next attempt, or, if the program reads no more,
// another one. Results that arrived before are discarded; those that Next() has already returned
// are skipped the second time, row for row. That is right only for a deterministic source, so with
// another one the error is returned instead once a result was. A source that waits for its next row
// is cancelled then, since it is opened again.

#ifndef FEED_FEEDER_INFERENCE_JOB_H_
#define FEED_FEEDER_INFERENCE_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "feed/feeder/feeder_nodes.h"
#include "feed/feeder/feeder_partition.h"
#include "feed/feeder/feeder_session.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/partition_progress.h"
#include "millrace/option_defaults.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {

struct InferenceJobOptions {
  std::string feed_id;  // new for every call
  std::string queue = kDefaultQueue;
  // The longest time without progress, and the longest wait for a node that restarts.
  absl::Duration feed_timeout = kDefaultFeedTimeout;
  int64_t batch_bytes = kDefaultBatchBytes;  // size that batches are cut to
  // Rows are sent ahead of their results up to this size; further only if the program asks for more
  // before it returns any.
  int64_t window_bytes = int64_t{16} << 20;
  // Results that were not pulled yet: while there are more, nothing is sent. Of each reader, and,
  // after Start(), of all partitions together.
  int64_t max_unread_bytes = int64_t{64} << 20;
  std::optional<int> max_feeding_threads;  // Start(); absent: one per fed node; at most 256
  int64_t feeder_attempt = 0;
};

namespace inference_internal {
struct JobState;
class Collector;
class SourceWatch;
}  // namespace inference_internal

// The results of one partition.
// Thread safety: one thread at a time. Readers of one job are independent, but a node serves
// sessions one after another: a reader that was opened later may wait for one that nobody pulls.
// Lifetime: must not outlive what the job was given; may outlive the job. Destroying it before the
// end gives the partition up.
class InferenceReader {
 public:
  ~InferenceReader();
  InferenceReader(const InferenceReader&) = delete;
  InferenceReader& operator=(const InferenceReader&) = delete;

  // The next results, in row order; nullopt exactly when every row of the partition has had one.
  // Blocks, reading the source and feeding meanwhile. Returns
  //   DEADLINE_EXCEEDED    the node made no progress for feed_timeout; names node, partition, queue
  //   DATA_LOSS            results with a gap or an overlap, too few, or bytes that do not decode
  //   FAILED_PRECONDITION  no node reads the queue
  //   UNAVAILABLE          the node does not answer, did not come back within feed_timeout, or was
  //                        lost after results of a source that is not deterministic were returned
  //   the cause            of a node that failed; an ERROR that a node sent; an error of the
  //   source;
  //                        what InferenceJob::Cancel() was given
  // After an error every call returns it again.
  [[nodiscard]] absl::StatusOr<std::optional<RecordBatch>> Next();

  // Results returned so far.
  [[nodiscard]] int64_t rows() const { return delivered_; }
  [[nodiscard]] int partition() const { return partition_; }

 private:
  friend class InferenceJob;
  friend class InferenceResults;
  InferenceReader(std::shared_ptr<inference_internal::JobState> job, int partition);

  struct Outcome {
    std::optional<RecordBatch> results;
    bool end = false;
  };
  absl::StatusOr<std::optional<RecordBatch>> NextOrError();
  // Opens a session, reads the source, sends, waits, or takes a result: one of these. The outcome
  // is empty where there is more to do.
  absl::StatusOr<Outcome> Step();
  absl::Status OpenSession();
  absl::Status FillPending();
  bool MaySend(const FeedSession::Readiness& ready) const;
  absl::Status Restart(const absl::Status& status);
  std::optional<RecordBatch> Deliver(RecordBatch results);
  void EndSession(const absl::Status& status);
  // Ends the session, if one is open, and the partition before its last result.
  void GiveUp(const absl::Status& status);
  void Report(PartitionProgress::State state);
  void Tell() const;

  const std::shared_ptr<inference_internal::JobState> job_;
  const int partition_;
  FeederPartition rows_;
  std::shared_ptr<FeedSession> session_;
  std::shared_ptr<inference_internal::SourceWatch> source_watch_;  // of session_
  FeedTarget target_;                                              // of session_
  std::optional<FeedTarget> next_target_;  // where Recover() wants it; absent: anywhere
  std::optional<PreparedBatch> pending_;   // read from the source, not sent
  bool finished_ = false;                  // END_PARTITION is out
  int64_t sent_bytes_ = 0;                 // of this session
  int64_t sent_rows_ = 0;                  // of this session
  int64_t result_row_ = 0;                 // of this session: results before it were taken
  int64_t delivered_ = 0;  // rows that Next() has returned; <= rows of the partition
  int restarts_ = 0;       // since delivered_ grew
  bool ended_ = false;     // Next() has returned nullopt
  std::optional<PartitionProgress> told_;  // the last report
  absl::Duration told_at_;                 // steady time
  absl::Status error_;
};

// Some results of one partition.
struct PartitionResults {
  int partition;
  RecordBatch rows;
};

// The results of all partitions of a job, whose threads feed the nodes meanwhile.
// Thread safety: one thread at a time. Lifetime: as of an InferenceReader. Destroying it ends the
// job, also before the last result; its threads are joined then.
class InferenceResults {
 public:
  ~InferenceResults();
  InferenceResults(const InferenceResults&) = delete;
  InferenceResults& operator=(const InferenceResults&) = delete;

  // The next results: of partition 0, then 1, ..., each in row order; nullopt once every row of
  // every partition has had one. Blocks. Returns the errors of InferenceReader::Next().
  [[nodiscard]] absl::StatusOr<std::optional<PartitionResults>> Next();

 private:
  friend class InferenceJob;
  explicit InferenceResults(std::shared_ptr<inference_internal::JobState> job);
  absl::Status StartThreads();
  absl::Status RunPartition(int partition);

  const std::shared_ptr<inference_internal::JobState> job_;
  const std::unique_ptr<inference_internal::Collector> collector_;
  std::vector<Thread> threads_;  // of feed-infer-N, which use all of the above
};

// Thread safety: thread-safe.
// Lifetime: everything passed in outlives the job, its readers and its results.
class InferenceJob {
 public:
  // `observer`: nullptr if nobody is to be told; called by the threads that read results.
  InferenceJob(SessionOpener* feeder, NodeDirectory* directory, const PartitionedSource* source,
               PartitionObserver* observer, InferenceJobOptions options);
  InferenceJob(const InferenceJob&) = delete;
  InferenceJob& operator=(const InferenceJob&) = delete;

  // Nothing is sent before the first Next(). Returns INVALID_ARGUMENT if there is no such
  // partition, for options out of range and a cluster without fed nodes.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<InferenceReader>> OpenPartition(int partition);

  // Feeds all partitions, as many at a time as there are threads; once. Returns the errors of
  // OpenPartition(), and RESOURCE_EXHAUSTED or UNAVAILABLE if the system has no thread left.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<InferenceResults>> Start();

  // Start(), and all results to `sink`, one call at a time, in this thread. Blocks until the last
  // one. Returns the errors of Start(), InferenceResults::Next() and `sink`, after which the job is
  // cancelled.
  using Sink = std::function<absl::Status(int partition, RecordBatch results)>;
  [[nodiscard]] absl::Status Collect(const Sink& sink);

  // Ends every wait of readers and results with `status`, which must not be OK. Readers of the
  // source are cancelled; a thread inside a sink is not interrupted.
  void Cancel(const absl::Status& status);

 private:
  absl::Status Validate() const;

  const std::shared_ptr<inference_internal::JobState> state_;
};

}  // namespace millrace

#endif  // FEED_FEEDER_INFERENCE_JOB_H_
