// File: millrace/cluster.h
//
// A cluster of node programs, from a driver's point of view. Its options are in
// millrace/cluster_options.h, the launchers that provide its agents in millrace/local_launcher.h
// and millrace/adopting_launcher.h, and the data that it is fed in millrace/source.h.
//
// Defines: TrainOptions, InferenceOptions, ShutdownOptions, InferenceResult, Cluster.
//
//   millrace::LocalLauncher launcher;
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<millrace::Cluster> cluster,
//       millrace::Cluster::Run(launcher, millrace::NodeProgram::File("digits_node"),
//                              {.num_executors = 4, .num_ps = 1, .master_node = "chief",
//                               .input_mode = millrace::InputMode::kFeed}));
//   MILLRACE_RETURN_IF_ERROR(cluster->Train(source, {.num_epochs = 5}));
//   MILLRACE_ASSIGN_OR_RETURN(millrace::InferenceResult result, cluster->Inference(held_out));
//   MILLRACE_ASSIGN_OR_RETURN(std::vector<millrace::RecordBatch> rows, result.Collect());
//   return cluster->Shutdown();
#ifndef MILLRACE_CLUSTER_H_
#define MILLRACE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster_options.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"
#include "millrace/launcher.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "millrace/option_defaults.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/stop_request.h"
#include "millrace/train_result.h"

namespace millrace {

struct TrainOptions {
  // How often the data is fed. Zero is INVALID_ARGUMENT.
  int num_epochs = 1;
  // The longest time without progress: no row received or acknowledged.
  absl::Duration feed_timeout = kDefaultFeedTimeout;
  std::string queue = kDefaultQueue;
  // The queue ends after this call, as if by EndFeed.
  bool end_of_feed = false;
  // Rows' bytes per batch.
  int64_t batch_bytes = kDefaultBatchBytes;
  // Ends this call from another thread, with CANCELLED and its reason; the cluster goes on. Rows
  // that programs have not used are given up. Not owned; null: nobody does.
  StopRequest* stop_request = nullptr;
};

struct InferenceOptions {
  absl::Duration feed_timeout = kDefaultFeedTimeout;
  std::string queue = kDefaultQueue;
  int64_t batch_bytes = kDefaultBatchBytes;
  StopRequest* stop_request = nullptr;  // as of TrainOptions; of each call of the result, to the
                                        // end of the reader that Open() returns
};

struct ShutdownOptions {
  // FEED: time for workers to end by themselves after the end of their data (saving a model); after
  // it they are asked to stop. (DIRECT: workers end when their work is done, in `timeout`.) Once
  // the workers have ended, in either mode, an evaluator has this time for its last evaluation
  // (infinite: none). It is stopped then, which is its normal end; a log line says so.
  absl::Duration grace = absl::InfiniteDuration();
  // The longest time for all of it; then everything is stopped, and killed after
  // FailureOptions::stop_grace.
  absl::Duration timeout = absl::Hours(72);
};

// The results of one inference call. It is lazy: no row is fed before results are asked for. There
// is one result for each row, in the order of the rows within each partition.
//
// Thread safety: single-threaded. Lifetime: must not outlive its Cluster; what Open() returns may.
class InferenceResult {
 public:
  ~InferenceResult();
  InferenceResult(InferenceResult&&) noexcept;
  InferenceResult& operator=(InferenceResult&&) noexcept;

  [[nodiscard]] int num_partitions() const;
  // Feeds all partitions at once to all nodes and returns the results in the order of partitions.
  // Memory: all results. Each call feeds anew. Errors as Cluster::Inference says.
  [[nodiscard]] absl::StatusOr<std::vector<RecordBatch>> Collect();
  // Feeds partition by partition, several at a time, and hands each batch of results to `consume`,
  // in order; bounded memory. An error of `consume` ends it.
  absl::Status ForEach(
      const std::function<absl::Status(int partition, const RecordBatch&)>& consume);
  // Feeds as ForEach does, while the returned reader is read, and returns when the first results
  // are there, which say what the columns are: other columns later are INVALID_ARGUMENT, and
  // without any row there are none. While nobody reads, nodes are fed until about 64 MiB of
  // results wait, and then answer no other call. Errors as ForEach, from here
  // or from the reader. Destroying the reader ends the call, and so does the end of the cluster,
  // which the reader may outlive: it returns CANCELLED, or why the cluster failed.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open();

 private:
  friend class Cluster;
  class Impl;
  explicit InferenceResult(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A running cluster.
//
// Ownership: owns coordinator and feeder; borrows the launcher, which must outlive it. Thread
// safety: all methods; Train calls on one queue run one after another. Lifetime: the destructor of
// a cluster that was not shut down ends everything at once.
//
// Failures. When a node fails, calls under way end with one error: the first cause, by node,
// attempt, host and exit status, its last stderr lines after the first line. Codes: ABORTED, a node
// exited with an error or was killed; UNAVAILABLE, a host or agent was lost; NOT_FOUND or
// PERMISSION_DENIED, the program could not be started; DEADLINE_EXCEEDED, a time limit of the call;
// CANCELLED, an operator stopped the cluster (ClusterClient::StopCluster), with the reason given.
// ABORTED also if another driver has taken a cluster over that can be resumed: this one leaves it,
// and ends nothing.
class Cluster {
 public:
  // Starts the agents, waits until every node runs, and returns. An error leaves nothing behind.
  // Returns INVALID_ARGUMENT for options that make no sense, DEADLINE_EXCEEDED naming the slots
  // that did not come within reservation_timeout and why, or the failure of a node. With
  // options.resume: FAILED_PRECONDITION where agents end with their driver, ALREADY_EXISTS if the
  // folder holds a cluster, which Resume() takes over.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Cluster>> Run(Launcher& launcher,
                                                                    const NodeProgram& program,
                                                                    ClusterOptions options = {});
  // Takes over the cluster of options.resume.state_folder, whose driver is gone: as Run() with the
  // same launcher's agents, program and options, but nodes that live go on, and nothing is started
  // twice. Nodes reach this driver at the address of the one before. Their arguments and
  // environment are what they were; those of later attempts, and all limits of time, are what is
  // given here. What nodes wrote just before the driver before was gone may be told again.
  //
  // In InputMode FEED the program makes the same calls of Train again, in the same order on each
  // queue: those that had returned return the same at once, and the one that was under way goes on
  // behind the rows that nodes were given (docs/failures.md). Inference is run anew.
  //
  // Returns NOT_FOUND if the folder holds no cluster: it has ended, or never began;
  // FAILED_PRECONDITION if another driver lives, which it names, or if the cluster's shape, mode or
  // program is another; UNAVAILABLE if the port is taken; DATA_LOSS if the folder is damaged;
  // ABORTED if another driver was faster. After these the cluster is as it was. Otherwise as Run(),
  // with the first failure of the cluster, also of those that the driver before heard of.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Cluster>> Resume(Launcher& launcher,
                                                                       const NodeProgram& program,
                                                                       ClusterOptions options);
  // Whether the folder holds a cluster that has not ended. Returns the system's error if that
  // cannot be seen.
  [[nodiscard]] static absl::StatusOr<bool> CanResume(const std::string& state_folder);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Feeds every row of `source` to the fed nodes, `num_epochs` times, and returns when all are
  // acknowledged, or every node has stopped reading (Terminate). Blocks. Returns
  // FAILED_PRECONDITION in InputMode DIRECT or after the queue's end, NOT_FOUND for an unknown
  // queue, INVALID_ARGUMENT for bad options or data, DEADLINE_EXCEEDED without progress for
  // feed_timeout, or a node's failure. After Resume() also FAILED_PRECONDITION if the same call had
  // another number of partitions or epochs under the driver before, and ABORTED if it had been
  // given up when that was killed.
  absl::StatusOr<TrainResult> Train(const PartitionedSource& source,
                                    const TrainOptions& options = {});
  // Feeds `source` when results are asked for (InferenceResult), whose calls return errors as Train
  // does, and FAILED_PRECONDITION naming the rows if a program's results do not cover them once.
  // The result reads `source` after this call has returned, and so shares its ownership: give it a
  // std::unique_ptr that nobody else needs, or a std::shared_ptr.
  [[nodiscard]] absl::StatusOr<InferenceResult> Inference(
      std::shared_ptr<const PartitionedSource> source, const InferenceOptions& options = {});
  // Ends the training or inference that nodes do on a queue: ShouldStop() turns true once they have
  // read what was fed. A program that has trained may serve inference on the queue afterwards; it
  // cannot be trained on again. Returns as Train for a wrong queue or mode.
  absl::Status EndFeed(absl::string_view queue = kDefaultQueue);

  // Ends all queues, waits for the workers, then stops ps and evaluator. Returns the first failure
  // of any node, however late, or DEADLINE_EXCEEDED naming the workers that had to be stopped and
  // the nodes that had to be killed. Idempotent: later calls return the same.
  absl::Status Shutdown(const ShutdownOptions& options = {});

  // ---- what there is ----------------------------------------------------------------------------
  [[nodiscard]] const std::string& cluster_id() const;
  [[nodiscard]] ClusterStatus Status() const;
  [[nodiscard]] ClusterSpec cluster_spec() const;
  // Of the sidecar "tensorboard"; empty until it takes connections, or where there is none.
  [[nodiscard]] std::string tensorboard_url() const;
  // Of the coordinator, host:port.
  [[nodiscard]] std::string server_address() const;
  [[nodiscard]] const ClusterOptions& options() const;

 private:
  friend class InferenceResult;  // runs on the inside of its cluster
  class Impl;
  static absl::StatusOr<std::unique_ptr<Cluster>> Start(Launcher& launcher,
                                                        const NodeProgram& program,
                                                        ClusterOptions options, bool resume);
  explicit Cluster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_H_
