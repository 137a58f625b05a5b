// File: cluster.h
//
// A cluster of node programs, from a driver's point of view.
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
#ifndef CORE_CLUSTER_CLUSTER_H_
#define CORE_CLUSTER_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/cluster/launcher.h"
#include "core/cluster/node_program.h"
#include "core/cluster/stop_request.h"
#include "core/coordinator/state/cluster_status.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/restart_policy.h"
#include "core/coordinator/state/sidecar.h"
#include "feed/feeder/train_job.h"
#include "millrace/cluster_spec.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {

// InputMode (core/coordinator/state/coordinator_options.h): kDirect, nodes read their own data
// (TensorFlowOnSpark: TENSORFLOW); kFeed, the driver feeds chief, master and workers
// (TensorFlowOnSpark: SPARK).

// Zero never means "no limit" here; absl::InfiniteDuration() does.
struct ClusterOptions {
  // Nodes in all: ps, master, evaluator and workers. At least 1.
  int num_executors = 1;
  // The first executor ids are parameter servers.
  int num_ps = 0;
  // "chief" or "master": the role of the first executor after the ps. Empty: worker:0 is first.
  std::string master_node;
  // The executor after that evaluates.
  bool eval_node = false;
  InputMode input_mode = InputMode::kDirect;
  // Names that Train, Inference and GetDataFeed may use.
  std::vector<std::string> queues = {"input", "output", "error"};
  // Where nodes' output and metrics go, and events.jsonl. Empty: a temporary directory, gone with
  // the cluster, and no events.jsonl. "file:///x" is /x; other URLs are refused.
  std::string log_dir;
  // Default file system of AbsolutePath.
  std::string default_fs = "file://";
  // Where nodes run. Empty: the driver's working directory, or, where agents were adopted, theirs.
  std::string working_dir;
  // Close a node's reserved port just before it starts. Otherwise it inherits the socket.
  bool release_port = true;
  // GPUs that are claimed for each node, so that no two nodes of a host share one (docs/gpus.md). A
  // ps gets none. With 0 and no gpus_by_job GPUs are left alone.
  int gpus_per_node = 0;
  // Other numbers for some jobs: {{"evaluator", 1}, {"ps", 0}}. A node with 0 sees no GPU.
  std::map<std::string, int> gpus_by_job;
  // "9000-9100": ports of the TCP endpoints where nodes are fed, two a node. Empty: any.
  std::string feed_port_range;
  // Feed nodes of this host over CURVE too, as those of other hosts are (docs/security.md). Slower.
  bool feed_curve_only = false;
  // Where the coordinator listens, as above.
  std::string coordinator_port_range;
  // How long all slots may take to be registered.
  absl::Duration reservation_timeout = absl::Seconds(600);
  // What one node may hold of the feed, in bytes.
  int64_t feed_budget_bytes = int64_t{256} << 20;
  // How long a node that was asked to stop may take.
  absl::Duration stop_grace = absl::Seconds(5);
  // How long a node may stay stopped by a signal before it counts as failed.
  absl::Duration stop_timeout = absl::Seconds(10);
  // How often a node that failed, or whose agent was lost, is started again before that is the
  // cluster's failure: by default never. Of every role, and of the jobs that differ ("worker").
  RestartPolicy restart;
  std::map<std::string, RestartPolicy> restarts;
  QuarantinePolicy quarantine;

  // Write ~/.millrace/clusters/<id>.json, by which dashboard and CLI find the cluster
  // (core/client/cluster_file.h); it is gone with the cluster.
  bool cluster_file = true;

  // What happens, told from one thread, in order. All optional; they must not call the cluster.
  std::function<void(const SlotStatus&)> on_slot;
  std::function<void(absl::string_view node, absl::string_view line)> on_log;
  // As on_log, with where the line comes from, and without a line for those that were left out:
  // `dropped` counts them.
  std::function<void(absl::string_view node, LogSource source,
                     const std::vector<std::string>& lines, uint64_t dropped)>
      on_output;
  // Everything that nodes write, byte for byte; empty at the end of a node's attempt. Nothing of it
  // is dropped: a node waits while its output is not taken. `taken` is to be called once, from any
  // thread; Shutdown waits for it, unless the nodes are killed at once (StopRequest).
  std::function<void(absl::string_view node, LogSource source, std::string bytes,
                     const std::function<void()>& taken)>
      on_bytes;
  // An operator has asked to stop the cluster.
  std::function<void()> on_operator_stop;
  // Once: what the cluster's error is about. Called before Shutdown, or Run that fails, returns it.
  std::function<void(const NodeFailure&)> on_failure;
  // A node failed and is started again. Unset: a warning in the log (RestartText()).
  std::function<void(const NodeRestart&)> on_restart;
  std::function<void(absl::string_view node, absl::string_view name, int64_t step, double value)>
      on_metric;
  // The ladder and rows/s on stderr. Unset: if stderr is a terminal.
  std::optional<bool> progress;

  // TensorBoard on log_dir beside the chief, or worker:0 where there is none
  // (TensorBoardSidecar()).
  bool tensorboard = false;
  // More programs beside nodes.
  std::vector<Sidecar> sidecars;
  // What each node's output may bring to on_log and on_output; log_dir has all of it. 0: 64 KiB/s.
  int64_t log_bytes_per_second = 0;
  // Ends the cluster from another thread. Not owned; null: nobody does.
  StopRequest* stop_request = nullptr;
};

struct TrainOptions {
  // How often the data is fed. Zero is INVALID_ARGUMENT.
  int num_epochs = 1;
  // The longest time without progress: no row received or acknowledged.
  absl::Duration feed_timeout = absl::Seconds(600);
  std::string queue = "input";
  // The queue ends after this call, as if by EndFeed.
  bool end_of_feed = false;
  // Rows' bytes per batch.
  int64_t batch_bytes = int64_t{1} << 20;
  // Ends this call from another thread, with CANCELLED and its reason; the cluster goes on. Rows
  // that programs have not used are given up. Not owned; null: nobody does.
  StopRequest* stop_request = nullptr;
};

struct InferenceOptions {
  absl::Duration feed_timeout = absl::Seconds(600);
  std::string queue = "input";
  int64_t batch_bytes = int64_t{1} << 20;
  StopRequest* stop_request = nullptr;  // as of TrainOptions; of each call of the result
};

struct ShutdownOptions {
  // FEED: time for workers to end by themselves after the end of their data (saving a model); after
  // it they are asked to stop. DIRECT: workers end when their work is done, in `timeout`; from then
  // on this is the time of an evaluator for its last evaluation (infinite: none). The peer's
  // grace_secs.
  absl::Duration grace = absl::InfiniteDuration();
  // The longest time for all of it; then everything is stopped, and killed after
  // ClusterOptions::stop_grace.
  absl::Duration timeout = absl::Hours(72);
};

// Results of one inference call; lazy: no row is fed before something is asked for. Results are 1:1
// with rows and in their order within each partition.
//
// Thread safety: single-threaded. Lifetime: must not outlive its Cluster.
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
// CANCELLED, an operator stopped the cluster (ClusterClient::StopCluster), with his reason.
class Cluster {
 public:
  // Starts the agents, waits until every node runs, and returns. An error leaves nothing behind.
  // Returns INVALID_ARGUMENT for options that make no sense, DEADLINE_EXCEEDED naming the slots
  // that did not come within reservation_timeout and why, or the failure of a node.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Cluster>> Run(Launcher& launcher,
                                                                    const NodeProgram& program,
                                                                    ClusterOptions options = {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Feeds every row of `source` to the fed nodes, `num_epochs` times, and returns when all are
  // acknowledged, or every node has stopped reading (Terminate). Blocks. Returns
  // FAILED_PRECONDITION in InputMode DIRECT or after the queue's end, NOT_FOUND for an unknown
  // queue, INVALID_ARGUMENT for bad options or data, DEADLINE_EXCEEDED without progress for
  // feed_timeout, or a node's failure.
  absl::StatusOr<TrainResult> Train(const std::shared_ptr<PartitionedSource>& source,
                                    const TrainOptions& options = {});
  // Feeds `source` when results are asked for (InferenceResult), whose calls return errors as Train
  // does, and FAILED_PRECONDITION naming the rows if a program's results do not cover them once.
  [[nodiscard]] absl::StatusOr<InferenceResult> Inference(
      const std::shared_ptr<PartitionedSource>& source, const InferenceOptions& options = {});
  // Ends what nodes do with a queue now, training or inference: ShouldStop() turns true once what
  // was fed is read. A program that has trained may serve inference on it afterwards; training does
  // not come back. Returns as Train for a wrong queue or mode.
  absl::Status EndFeed(absl::string_view queue = "input");

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
  explicit Cluster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // CORE_CLUSTER_CLUSTER_H_
