// File: millrace/node.h
//
// A node program: what one process of a cluster is, knows and can ask for.
//
// Defines: RunNode(), NodeContext, NodeKeyValue, MembershipChange, NodeTls, and includes what a
// node program reads its rows with:
//
//   millrace/data_feed.h     DataFeed: the rows that the cluster feeds to this node
//   millrace/batch.h         Batch: rows by columns;  BatchBuilder: results
//   millrace/cluster_spec.h  ClusterSpec: the members of the cluster
//
//   int main(int argc, char** argv) {
//     return millrace::RunNode(argc, argv, [](millrace::NodeContext& ctx) -> absl::Status {
//       std::printf("I am %s of %d workers\n", ctx.name().c_str(), ctx.num_workers());
//       std::unique_ptr<millrace::DataFeed> feed = ctx.GetDataFeed();
//       while (!feed->ShouldStop()) {
//         MILLRACE_ASSIGN_OR_RETURN(millrace::Batch batch, feed->NextBatch(64));
//         ...
//       }
//       return absl::OkStatus();
//     });
//   }

#ifndef MILLRACE_NODE_H_
#define MILLRACE_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/batch.h"
#include "millrace/cluster_spec.h"
#include "millrace/data_feed.h"
#include "millrace/status_macros.h"

namespace millrace {

class NodeContext;

namespace internal {
class NodeContextImpl;
}

// Runs `body` as the node that the environment describes, and returns the exit code for main():
//   0   body returned OK: everything it was handed is acknowledged; training sessions still open
//       count as terminated
//   1   body returned an error, or OK with inference rows left without results
//       (FAILED_PRECONDITION)
//   2   this process could not take its place: not started by an agent, by one of another version,
//       or the feed's receiver did not start
// With 1 and 2 one line on stderr says why; agent and feeders are told too. If the agent dies
// before `body` has returned, the process ends at once with 70, without destructors.
//
// From here on SIGPIPE is ignored, also in programs that this one starts, and the descriptors of
// the control channel and of the reserved port are close-on-exec; the environment stays as it is. A
// child of a node is no node: RunNode ends with 2 there. Call it once, from the main thread. `argc`
// and `argv` are the program's own; nothing is taken from them.
int RunNode(int argc, char** argv, const std::function<absl::Status(NodeContext&)>& body);

// The node's leaf certificate and what to check peers with; PEM texts.
struct NodeTls {
  std::string ca;
  std::string certificate;
  std::string key;  // secret
};

// The cluster's key-value store: small values by which nodes find each other (rendezvous of Gloo or
// NCCL, a checkpoint's name). Kept by the coordinator; it outlives every node. Keys are UTF-8,
// values any bytes.
//
// Thread safety: all methods. Blocking: one round trip to the coordinator, Get() as long as it
// waits. Errors of all methods: UNAVAILABLE if the agent is gone, or the coordinator was lost
// before it answered (whether Add and Delete took effect is unknown then); DEADLINE_EXCEEDED if
// there was no answer for 30 s; CANCELLED, of a Get() that waits, if the node is asked to stop;
// INVALID_ARGUMENT for a key that is empty, over 1,024 bytes or not UTF-8, or a value over 1 MiB;
// RESOURCE_EXHAUSTED when the store is full or 1,024 calls of this node wait.
class NodeKeyValue {
 public:
  NodeKeyValue(const NodeKeyValue&) = delete;
  NodeKeyValue& operator=(const NodeKeyValue&) = delete;

  absl::Status Set(absl::string_view key, absl::string_view value);
  // Waits until the key exists, at most `timeout`; zero does not wait. Returns NOT_FOUND, or
  // DEADLINE_EXCEEDED if it waited.
  [[nodiscard]] absl::StatusOr<std::string> Get(absl::string_view key,
                                                absl::Duration timeout = absl::ZeroDuration());
  // Adds to a counter that starts at 0 and returns its new value. Returns INVALID_ARGUMENT if the
  // key holds something that is no number.
  [[nodiscard]] absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta);
  // Returns NOT_FOUND.
  absl::Status Delete(absl::string_view key);

 private:
  friend class internal::NodeContextImpl;
  explicit NodeKeyValue(internal::NodeContextImpl* node) : node_(node) {}

  internal::NodeContextImpl* const node_;
};

// One task of the cluster that was started again, came or went.
struct MembershipChange {
  std::string job_name;
  int task_index = 0;
  std::string old_address;  // empty: the task is new
  std::string new_address;  // empty: it is gone. May be as before: a new process at the old address
  // Of the process that has the address now: what it had in memory before is lost. -1: unknown,
  // after the agent had lost its coordinator for a while.
  int attempt = -1;

  friend bool operator==(const MembershipChange&, const MembershipChange&) = default;
};

// A node's view of its cluster.
//
// Ownership: made and owned by RunNode. Lifetime: nothing of it may be called once RunNode has
// returned. Thread safety: all methods, from any thread. Blocking: as each says, otherwise never.
class NodeContext {
 public:
  ~NodeContext();
  NodeContext(const NodeContext&) = delete;
  NodeContext& operator=(const NodeContext&) = delete;

  // ---- who this is ------------------------------------------------------------------------------
  [[nodiscard]] const std::string& cluster_id() const;
  [[nodiscard]] int executor_id() const;
  [[nodiscard]] const std::string& job_name() const;
  [[nodiscard]] int task_index() const;
  // "worker:1".
  [[nodiscard]] std::string name() const;
  // 0 at first; one more each time this role is started again.
  [[nodiscard]] int attempt() const;
  // Fed roles: chief or master and the workers.
  [[nodiscard]] int num_workers() const;
  // Rank among the fed roles, chief or master first; -1 for a ps or an evaluator.
  [[nodiscard]] int rank() const;
  // True for chief and master, and for worker:0 of a cluster that has neither.
  [[nodiscard]] bool is_chief() const;
  // The members now; changes when one was replaced.
  [[nodiscard]] ClusterSpec cluster_spec() const;
  // Grows with each change of the members.
  [[nodiscard]] uint64_t epoch() const;
  // Blocks until epoch() is at least `epoch`, at most `timeout`. Returns whether it is.
  bool WaitForEpoch(uint64_t epoch, absl::Duration timeout = absl::InfiniteDuration()) const;
  // Calls `fn` for every later change of the members, with the epoch that it made, on the channel's
  // thread, one call at a time, after cluster_spec() has it; `fn` must not block and must not call
  // kv() or Barrier(). Replaces the function set before, whose last call may still be running.
  // Empty: none.
  using MembershipFn =
      std::function<void(uint64_t epoch, const std::vector<MembershipChange>& changes)>;
  void OnMembershipChange(MembershipFn fn);

  // ---- where this is ----------------------------------------------------------------------------
  [[nodiscard]] const std::string& default_fs() const;
  [[nodiscard]] const std::string& working_dir() const;
  [[nodiscard]] const std::string& log_dir() const;
  // The address peers know this node by, host:port. The port is reserved for this program.
  [[nodiscard]] const std::string& address() const;
  // The node's certificate and key: secret. Empty texts if the agent gave none.
  [[nodiscard]] const NodeTls& tls() const;
  // What `path` means here, as for TensorFlowOnSpark's hdfs_path: with a scheme it stays as it is;
  // an absolute one gets default_fs() in front; a relative one lies in the user's home on hdfs and
  // viewfs, in working_dir() on file, and at the root of any other file system.
  [[nodiscard]] std::string AbsolutePath(absl::string_view path) const;

  // The inherited socket of the reserved port, bound and not listening, if release_port is false;
  // -1 otherwise. It belongs to the context and is close-on-exec: pass it to a child of this
  // program that is to listen on it by dup2 between fork and exec.
  [[nodiscard]] int port_fd() const;
  // Closes the reserved port here and at the agent: call it when the program listens on it by
  // itself. Does nothing after it has succeeded, or where no port is held. Blocks for one round
  // trip to the agent; returns its error.
  absl::Status ReleasePort();

  // UUIDs of the GPUs that are this node's alone (docs/gpus.md), in order: those it was started
  // with, which CUDA_VISIBLE_DEVICES names too, and those claimed since.
  [[nodiscard]] std::vector<std::string> gpus() const;
  // Claims more: `num_gpus` free ones, or those that `ids` names (indices of the host, UUIDs, MIG
  // instances). Returns the new UUIDs. CUDA reads CUDA_VISIBLE_DEVICES once, at its first call in
  // the process: set it before that. Blocks until the agent knows the GPUs, a minute at most.
  // Returns RESOURCE_EXHAUSTED, naming who holds the others, if too few are free;
  // FAILED_PRECONDITION if the host has none or the node may use none; NOT_FOUND and
  // INVALID_ARGUMENT for ids.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> ClaimGpus(int num_gpus);
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> ClaimGpus(
      const std::vector<std::string>& ids);
  // Gives some of gpus() back: no part of this process may use them any more. Returns NOT_FOUND,
  // and gives back none, if one of them is not this node's.
  absl::Status ReleaseGpus(const std::vector<std::string>& ids);

  // ---- data -------------------------------------------------------------------------------------
  // The rows that the cluster feeds to this node (millrace/data_feed.h). Never null: an
  // unknown queue, a queue that is read in the other mode, or a node that is not fed end the
  // program as if it had returned the error (line on stderr, exit code 1, destructors do not run),
  // since no program can go on from there. TryGetDataFeed returns the error.
  [[nodiscard]] std::unique_ptr<DataFeed> GetDataFeed(const DataFeedOptions& options = {});
  // Returns FAILED_PRECONDITION if this node is not fed (InputMode DIRECT, a ps, an evaluator),
  // or a DataFeed reads the queue in the other mode and has not come to its end; NOT_FOUND, naming
  // the queues there are.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<DataFeed>> TryGetDataFeed(
      const DataFeedOptions& options = {});

  // Writes a model once: on the chief, `write` fills a new directory beside `path`, which then
  // takes `path`'s name in one step (what was there before is removed). Other nodes return OK at
  // once. `path` goes through AbsolutePath. Returns UNIMPLEMENTED if that is not a local file
  // system, or the error of `write`, or of the file system; `path` is then as it was. Blocks: disk
  // I/O.
  absl::Status ExportModel(absl::string_view path,
                           const std::function<absl::Status(const std::string& directory)>& write);

  // ---- the others -------------------------------------------------------------------------------
  [[nodiscard]] NodeKeyValue& kv();
  // Waits until every fed node has come to the barrier of that name. Returns DEADLINE_EXCEEDED
  // naming who did not, ABORTED naming a node that has ended, CANCELLED if this one is asked to
  // stop, FAILED_PRECONDITION on a ps or an evaluator, INVALID_ARGUMENT and UNAVAILABLE as kv().
  absl::Status Barrier(absl::string_view name, absl::Duration timeout = absl::Minutes(10));
  // Tells the driver and its observers. Never blocks. A report that cannot be sent (the agent does
  // not keep up, `value` is infinite or NaN) is dropped; the first time the log says so.
  void ReportMetric(absl::string_view name, int64_t step, double value);

  // ---- the end ----------------------------------------------------------------------------------
  // The cluster asked this node to end: the end of a ps or an evaluator, or an early one of a
  // worker.
  [[nodiscard]] bool stop_requested() const;
  // Blocks until that, at most `timeout`. Returns stop_requested().
  bool WaitForStop(absl::Duration timeout = absl::InfiniteDuration()) const;

 private:
  friend class internal::NodeContextImpl;
  explicit NodeContext(std::unique_ptr<internal::NodeContextImpl> impl);

  const std::unique_ptr<internal::NodeContextImpl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_NODE_H_
