// File: core/coordinator/coordinator.h
//
// The reservation server of a cluster: agents dial it, get a role, run their node and report; the
// driver waits here, stops the cluster here and learns here why it failed.
//
// Defines: Coordinator. Its options and observer are in coordinator_options.h, included here.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::vector<NodeRole> roles, DealRoles({.num_executors = 4}));
//   CoordinatorOptions options;
//   options.roles = std::move(roles);
//   options.node.program = "/opt/app/train";
//   MILLRACE_ASSIGN_OR_RETURN(auto coordinator, Coordinator::Start(std::move(options)));
//   launcher.StartAgents(coordinator->address(), coordinator->ca_pem(),
//                        coordinator->tokens().agent);
//   MILLRACE_RETURN_IF_ERROR(coordinator->WaitRunning());
//   ...
//   coordinator->Stop(NodeFilter::kAll, "the driver is done");
//   MILLRACE_RETURN_IF_ERROR(coordinator->WaitEnded(NodeFilter::kAll, absl::Minutes(1)));
//   coordinator->Shutdown();
//
// Codes of failures, as first_cause() and the waits return them:
//   ABORTED            a node exited with a code other than 0, was killed, or was stopped by a
//                      signal for longer than stop_timeout
//   the program's own  a node whose RunNode returned a Status: that code
//   NOT_FOUND, PERMISSION_DENIED, ...
//                      the program could not be started: as its agent reports it
//   UNAVAILABLE        the agent or its host is gone
//   the launcher's own an agent that could not be started or failed: the code of ReportAgentExit
//   DEADLINE_EXCEEDED  reservation_timeout passed: names each missing slot, the step at which it
//                      stopped, for how long, and its last log lines
//   CANCELLED          Cancel() or Shutdown() ended the wait

#ifndef CORE_COORDINATOR_COORDINATOR_H_
#define CORE_COORDINATOR_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/cluster_spec/cluster_spec.h"
#include "core/coordinator/server/access_tokens.h"
#include "core/coordinator/state/cluster_status.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/process/exit_status.h"

namespace millrace {

// Ownership: owns its server, threads and CA; the CA's key never leaves memory.
// Thread safety: thread-safe, except that Shutdown() and the destructor come last.
// Blocking: Start (binds a port, hashes a shipped program), the Wait functions, KvGet with a
// timeout, Shutdown. Nothing else blocks.
// Lifetime: the destructor is Shutdown(). Agents end their nodes when their coordinator is gone.
class Coordinator {
 public:
  // Returns INVALID_ARGUMENT if an option makes no sense (naming it), NOT_FOUND or
  // PERMISSION_DENIED if a shipped program cannot be read, UNAVAILABLE if the address cannot be
  // bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      CoordinatorOptions options);
  virtual ~Coordinator() = default;

  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // What an agent or a reader needs to reach this coordinator.
  [[nodiscard]] virtual std::string address() const = 0;  // host:port
  [[nodiscard]] virtual int port() const = 0;
  [[nodiscard]] virtual const std::string& ca_pem() const = 0;
  // A client certificate, signed by itself, with its key, in PEM: without one of the two nobody
  // gets through the TLS handshake. One for agents and feeders, one for viewers and operators.
  // Secrets.
  [[nodiscard]] virtual const std::string& agent_identity_pem() const = 0;
  [[nodiscard]] virtual const std::string& viewer_identity_pem() const = 0;
  [[nodiscard]] virtual const CoordinatorTokens& tokens() const = 0;
  [[nodiscard]] virtual const std::string& cluster_id() const = 0;

  // Blocks until every node has been running (it may have finished since), at most `timeout` and
  // the rest of reservation_timeout. Returns the first cause if the cluster failed,
  // DEADLINE_EXCEEDED that names each missing slot, CANCELLED after Cancel() or Shutdown().
  [[nodiscard]] virtual absl::Status WaitRunning(
      absl::Duration timeout = absl::InfiniteDuration()) = 0;

  // Blocks until every fed node has published a feed endpoint. Returns the first cause,
  // FAILED_PRECONDITION if a node ended without publishing one, DEADLINE_EXCEEDED that names who
  // did not and what is likely, CANCELLED.
  [[nodiscard]] virtual absl::Status WaitFedEndpoints(absl::Duration timeout) = 0;

  // Blocks until no node of `filter` runs. Returns OK also if they failed (see first_cause());
  // DEADLINE_EXCEEDED that names who still runs; CANCELLED after Shutdown(). Slots that no agent
  // ever took count as ended once they were asked to stop.
  [[nodiscard]] virtual absl::Status WaitEnded(NodeFilter filter, absl::Duration timeout) = 0;

  // Waits until the observer has taken all output of nodes (NodeOptions::output_window_bytes) whose
  // agents can be heard. Returns DEADLINE_EXCEEDED, or CANCELLED after Stop() of all nodes at once.
  virtual absl::Status WaitOutput(absl::Duration timeout) = 0;
  // Blocks until the cluster has failed (returns the first cause), `timeout` passes (returns OK),
  // or Cancel() or Shutdown() (CANCELLED).
  [[nodiscard]] virtual absl::Status WaitFailure(absl::Duration timeout) = 0;

  // Makes WaitRunning, WaitFedEndpoints and WaitFailure return CANCELLED with this reason, those
  // that wait now and those to come. WaitEnded goes on.
  virtual void Cancel(absl::string_view reason) = 0;

  // CANCELLED, with the reason, once an operator has asked for the end of the cluster
  // (StopCluster); OK before. From then on the waits above return it too, and the nodes are ending.
  [[nodiscard]] virtual absl::Status stop_request() const = 0;

  [[nodiscard]] virtual ClusterStatus Snapshot() const = 0;
  // The latest spec; without jobs before all have registered (epoch 0).
  [[nodiscard]] virtual ClusterSpec spec() const = 0;
  // Why the cluster failed (codes above); OK if it has not.
  [[nodiscard]] virtual absl::Status first_cause() const = 0;

  // The feed directory. Unknown executor ids are NOT_FOUND, roles that are not fed
  // FAILED_PRECONDITION.
  [[nodiscard]] virtual std::vector<int> fed_nodes() const = 0;  // executor ids, ascending
  [[nodiscard]] virtual absl::StatusOr<FeedRoute> LookupFeed(int executor_id) const = 0;
  // The node that a feeder outside of the driver is sent to with this partition: the same one as
  // long as it reads, otherwise the one with the least open partitions, those on `host` first.
  // Where none reads now, the route has executor_id -1 and the state of what may come (one that
  // failed has its id). NOT_FOUND for an unknown feed, FAILED_PRECONDITION for a closed one,
  // INVALID_ARGUMENT for a partition that cannot be.
  [[nodiscard]] virtual absl::StatusOr<FeedRoute> ChooseFeed(absl::string_view feed_id,
                                                             int64_t partition,
                                                             absl::string_view host) = 0;
  // Announces a feeder's CURVE key (Z85) to every fed node; as FeedGateway.Announce.
  virtual absl::Status AnnounceFeeder(absl::string_view principal, absl::string_view curve_key) = 0;
  // Why this node failed or was lost. OK while it has not.
  [[nodiscard]] virtual absl::Status Cause(int executor_id) const = 0;
  // What the program published by name besides its feed (NodeEndpoints.other).
  [[nodiscard]] virtual absl::StatusOr<std::map<std::string, std::string>> PublishedEndpoints(
      int executor_id) const = 0;

  // Tells every fed node that all rows of the feed are received (or, aborted, that the call
  // failed). Nodes that attach again hear it again (the last 64 feeds are kept).
  virtual void FeedEnd(absl::string_view feed_id, bool aborted) = 0;
  // Tells every fed node that no more rows come on `queue` ("": on all). Nodes that attach later
  // hear it too.
  virtual void EndFeed(absl::string_view queue) = 0;

  // The ledger (core/coordinator/state/feed_ledger.h says what each does).
  virtual absl::Status OpenFeed(absl::string_view feed_id, absl::string_view queue,
                                int64_t num_partitions) = 0;
  virtual absl::Status ReportPartition(absl::string_view feed_id,
                                       const PartitionReport& report) = 0;
  virtual void CloseFeed(absl::string_view feed_id) = 0;
  [[nodiscard]] virtual absl::StatusOr<FeedSummary> FeedSummaryOf(
      absl::string_view feed_id) const = 0;
  [[nodiscard]] virtual std::vector<FeedSummary> FeedSummaries() const = 0;
  [[nodiscard]] virtual absl::StatusOr<PartitionRecord> FeedPartition(absl::string_view feed_id,
                                                                      int64_t partition) const = 0;
  [[nodiscard]] virtual std::vector<int64_t> UnfinishedPartitions(absl::string_view feed_id,
                                                                  int executor_id,
                                                                  uint32_t node_attempt) const = 0;

  // The cluster's key-value store, that of NodeContext::kv(). Keys have 1 to 1,024 bytes of UTF-8,
  // values up to 1 MiB of any: INVALID_ARGUMENT for others, RESOURCE_EXHAUSTED where the store is
  // full, CANCELLED after Shutdown().

  // Waits for the key at most `timeout`, then DEADLINE_EXCEEDED; NOT_FOUND with zero or less.
  [[nodiscard]] virtual absl::StatusOr<std::string> KvGet(absl::string_view key,
                                                          absl::Duration timeout) = 0;
  virtual absl::Status KvSet(absl::string_view key, absl::string_view value) = 0;
  // Adds to a decimal counter that starts at 0, and returns it. INVALID_ARGUMENT if the key holds
  // something else, OUT_OF_RANGE if the sum is no 64-bit number.
  virtual absl::StatusOr<int64_t> KvAdd(absl::string_view key, int64_t delta) = 0;
  // Returns what the key held; NOT_FOUND.
  virtual absl::StatusOr<std::string> KvDelete(absl::string_view key) = 0;

  struct KeyList {
    struct Entry {
      std::string key;
      size_t value_bytes = 0;
    };
    std::vector<Entry> entries;  // by key
    bool more = false;           // than `limit`
  };
  [[nodiscard]] virtual KeyList KvList(absl::string_view prefix, size_t limit) const = 0;

  // From the launcher, which is the parent of the agents (or watches their pods). Unknown executor
  // ids are ignored.
  virtual void ReportAgentStarted(int executor_id, int64_t pid) = 0;

  struct AgentExit {
    ExitStatus exit;      // how the agent process ended; kUnknown if it never started
    absl::Status status;  // why, if the launcher knows better; its code is then the failure's code
    std::vector<std::string> stderr_tail;
    // The launcher will start another agent for this slot: not a failure of the cluster by itself.
    bool replacement_coming = false;
    // The agent_pid that ended; 0: the one that was there. A report about an agent that is not the
    // slot's any more is ignored.
    int64_t pid = 0;
  };
  // Proven death: its slot may be taken at once.
  virtual void ReportAgentExit(int executor_id, const AgentExit& exit) = 0;

  // Asks the nodes to end (now: kills them at once). Idempotent; `now` after a first call hardens
  // it. New agents are turned away from these slots.
  virtual void Stop(NodeFilter filter, absl::string_view reason, bool now = false) = 0;

  // Ends a running node and starts it again as its next attempt, which is returned; no restart
  // budget is used for it. One that waits for its restart is started at once. Does not wait for
  // either. Returns NOT_FOUND for an unknown executor id, FAILED_PRECONDITION if the node is not
  // running or was asked to stop.
  virtual absl::StatusOr<uint32_t> RestartNode(int executor_id, absl::string_view reason) = 0;

  // Lets dashboard and CLI on this host find the cluster (core/client/cluster_file.h) until
  // Shutdown(). Once. A file that cannot be written is a warning in the log. Blocks: disk I/O.
  virtual void PublishClusterFile() = 0;

  // Ends all streams (CANCELLED), closes the port, joins every thread. Idempotent. Blocks for at
  // most a few seconds. Not from an observer.
  virtual void Shutdown() = 0;

 protected:
  Coordinator() = default;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_COORDINATOR_H_
