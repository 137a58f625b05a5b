// File: core/node/node_context.h
//
// What a node program knows of its place in the cluster, and what it can ask of it. `RunNode`
// (run_node.h) makes one and hands it to the program.
//
// Defines: NodeContext, NodeKeyValue.
//
//   millrace::RunNode(argc, argv, [](millrace::NodeContext& ctx) -> absl::Status {
//     auto feed = ctx.GetDataFeed();
//     MILLRACE_RETURN_IF_ERROR(ctx.kv().Set("store", ctx.address()));
//     MILLRACE_RETURN_IF_ERROR(ctx.Barrier("warm"));
//     ...
//   });
#ifndef CORE_NODE_NODE_CONTEXT_H_
#define CORE_NODE_NODE_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "core/cluster_spec/cluster_spec.h"
#include "core/node/control_client.h"
#include "core/node/node_config.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receiver.h"

namespace millrace {

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
  explicit NodeKeyValue(ControlClient* control) : control_(control) {}

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
  ControlClient* control_;  // not owned
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
  // The agent is gone, or breaks the protocol. Runs on the channel's thread, at most once, and not
  // after Finish().
  using AgentGoneFn = std::function<void(const absl::Status& why)>;

  // Takes the place that `config` describes, the node's end of the channel, and the descriptor of
  // the reserved port if the config has one. Announces the node (hello), starts its receiver if it
  // is fed, and publishes where it can be fed (ready). Returns FAILED_PRECONDITION if a descriptor
  // is not what it should be, DEADLINE_EXCEEDED or UNAVAILABLE if the agent does not answer, its
  // error, or the receiver's (which the agent is told). Programs call RunNode instead.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NodeContext>> Create(
      NodeConfig config, UniqueFd control_fd, AgentGoneFn on_agent_gone);
  ~NodeContext();
  NodeContext(const NodeContext&) = delete;
  NodeContext& operator=(const NodeContext&) = delete;

  // ---- who this is ------------------------------------------------------------------------------
  [[nodiscard]] const std::string& cluster_id() const { return config_.cluster_id; }
  [[nodiscard]] int executor_id() const { return config_.executor_id; }
  [[nodiscard]] const std::string& job_name() const { return config_.job_name; }
  [[nodiscard]] int task_index() const { return config_.task_index; }
  // "worker:1".
  [[nodiscard]] std::string name() const;
  // 0 at first; one more each time this role is started again.
  [[nodiscard]] int attempt() const { return config_.attempt; }
  // Fed roles: chief or master and the workers.
  [[nodiscard]] int num_workers() const { return config_.num_workers; }
  // Rank among the fed roles, chief or master first; -1 for a ps or an evaluator.
  [[nodiscard]] int rank() const { return config_.rank.value_or(-1); }
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
  // kv() or Barrier(). Takes the place of the function before, which may be in a last call still.
  // Empty: none.
  using MembershipFn =
      std::function<void(uint64_t epoch, const std::vector<MembershipChange>& changes)>;
  void OnMembershipChange(MembershipFn fn);

  // ---- where this is ----------------------------------------------------------------------------
  [[nodiscard]] const std::string& default_fs() const { return config_.default_fs; }
  [[nodiscard]] const std::string& working_dir() const { return config_.working_dir; }
  [[nodiscard]] const std::string& log_dir() const { return config_.log_dir; }
  // The address peers know this node by, host:port. The port is reserved for this program.
  [[nodiscard]] const std::string& address() const { return config_.address; }
  // The node's certificate and key: secret. Empty texts if the agent gave none.
  [[nodiscard]] const NodeTls& tls() const { return config_.tls; }
  // What `path` means here: TFNode.hdfs_path (absolute_path.h).
  [[nodiscard]] std::string AbsolutePath(absl::string_view path) const;

  // The inherited socket of the reserved port, bound and not listening, where release_port is
  // false; -1 otherwise. It stays the context's, and is close-on-exec: a child of this program that
  // shall listen on it gets it by dup2 between fork and exec.
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
  // Gives some of gpus() back: nothing of this process may use them any more. Returns NOT_FOUND,
  // and gives back none, if one is not this node's.
  absl::Status ReleaseGpus(const std::vector<std::string>& ids);

  // ---- data -------------------------------------------------------------------------------------
  // The rows that the cluster feeds to this node (feed/receiver/data_feed.h). Never null: an
  // unknown queue, a queue that is read in the other mode, or a node that is not fed end the
  // program as if it had returned the error (line on stderr, exit code 1, destructors do not run),
  // since no program can go on from there. TryGetDataFeed returns the error.
  [[nodiscard]] std::unique_ptr<DataFeed> GetDataFeed(const DataFeedOptions& options = {});
  // Returns FAILED_PRECONDITION if this node is not fed (InputMode DIRECT, ps, evaluator),
  // otherwise as FeedReceiver::GetDataFeed.
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
  [[nodiscard]] NodeKeyValue& kv() { return kv_; }
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
  [[nodiscard]] bool stop_requested() const { return stop_.HasBeenNotified(); }
  // Blocks until that, at most `timeout`. Returns stop_requested().
  bool WaitForStop(absl::Duration timeout = absl::InfiniteDuration()) const;

  // The program's outcome, told to feeders and agent: RunNode calls it last. Returns what the node
  // ends with: `outcome`, or FAILED_PRECONDITION if that is OK but inference rows were left without
  // results. From here on the agent may go. Blocks a few seconds at most; does nothing the second
  // time.
  absl::Status Finish(const absl::Status& outcome);

 private:
  NodeContext(NodeConfig config, AgentGoneFn on_agent_gone);
  [[nodiscard]] absl::Status StartReceiver();
  [[nodiscard]] absl::Status Connect(UniqueFd control_fd);
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Claim(const Json& params);

  // On the channel's thread.
  void OnPush(ControlClient& control, const Json& frame);
  [[nodiscard]] absl::Status OnSpec(const Json& frame);
  [[nodiscard]] absl::Status OnFeedEnd(const Json& frame);
  [[nodiscard]] absl::Status OnEndFeed(const Json& frame);
  [[nodiscard]] absl::Status OnFeederKeys(const Json& frame);
  void SendSample(ControlClient& control);

  const NodeConfig config_;
  const std::string user_;  // whose home relative paths lie in
  const AgentGoneFn on_agent_gone_;
  std::unique_ptr<FeedReceiver> receiver_;  // null if this node is not fed; set once, in Create
  Notification stop_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> warned_of_metric_{false};
  mutable Mutex mu_;
  mutable CondVar epoch_changed_;
  ClusterSpec cluster_spec_ ABSL_GUARDED_BY(mu_);
  uint64_t epoch_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> gpus_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const MembershipFn> membership_fn_ ABSL_GUARDED_BY(mu_);  // null: none
  bool port_held_ ABSL_GUARDED_BY(mu_);  // by the agent too, as far as is known here
  UniqueFd port_fd_ ABSL_GUARDED_BY(mu_);
  // After everything that its thread uses: closed first. Never reset() before: callbacks of the
  // program on that thread may still use it (ReportMetric) while it ends.
  std::unique_ptr<ControlClient> control_;
  NodeKeyValue kv_{nullptr};
};

}  // namespace millrace

#endif  // CORE_NODE_NODE_CONTEXT_H_
