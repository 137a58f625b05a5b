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
//   options.program.path = "/opt/app/train";
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

#include <atomic>
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
#include "core/balance/feed_target.h"
#include "core/coordinator/server/access_tokens.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/equal_feeds.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/coordinator/state/saved_train.h"
#include "millrace/agent_exit.h"
#include "millrace/agent_ticket.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {

namespace v1 {
class StateHead;
}

class CertificateAuthority;
class ClusterRecorder;
class ControlPlane;
class CoordinatorServer;
class EventLog;
class ProgramSource;
class StateJournal;
class ViewStore;
class WatchHub;

// Ownership: owns its server, threads and CA, whose key never leaves memory, but for a
// state_folder. Thread safety: thread-safe, except that Shutdown() and the destructor come last.
// Blocking: Start (binds a port, hashes a shipped program), the Wait functions, Shutdown. Nothing
// else blocks. Lifetime: the destructor is Shutdown(). Agents end their nodes when their
// coordinator is gone.
class Coordinator {
 public:
  // Returns INVALID_ARGUMENT if an option makes no sense (naming it), NOT_FOUND or
  // PERMISSION_DENIED if a shipped program cannot be read, UNAVAILABLE if the address cannot be
  // bound; with a state_folder also the errors of StateJournal (core/coordinator/journal), and
  // FAILED_PRECONDITION if what is to be resumed was another cluster.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      CoordinatorOptions options);
  ~Coordinator();

  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // What an agent or a reader needs to reach this coordinator.
  [[nodiscard]] std::string address() const { return address_; }  // host:port
  [[nodiscard]] int port() const;
  [[nodiscard]] const std::string& ca_pem() const;
  // A client certificate, signed by itself, with its key, in PEM: without one of the two nobody
  // gets through the TLS handshake. One for agents and feeders, one for viewers and operators.
  // Secrets.
  [[nodiscard]] const std::string& agent_identity_pem() const { return agent_identity_pem_; }
  [[nodiscard]] const std::string& viewer_identity_pem() const { return viewer_identity_pem_; }
  [[nodiscard]] const CoordinatorTokens& tokens() const { return tokens_.values(); }
  [[nodiscard]] const std::string& cluster_id() const { return cluster_id_; }

  // Blocks until every node has been running (it may have finished since), at most `timeout` and
  // the rest of reservation_timeout. Returns the first cause if the cluster failed,
  // DEADLINE_EXCEEDED that names each missing slot, CANCELLED after Cancel() or Shutdown().
  [[nodiscard]] absl::Status WaitRunning(absl::Duration timeout = absl::InfiniteDuration());

  // Blocks until every fed node has published a feed endpoint. Returns the first cause,
  // FAILED_PRECONDITION if a node ended without publishing one, DEADLINE_EXCEEDED that names who
  // did not and what is likely, CANCELLED; also CANCELLED once `given_up`, if not null, is true:
  // whoever sets it calls Wake().
  [[nodiscard]] absl::Status WaitFedEndpoints(absl::Duration timeout,
                                              const std::atomic<bool>* given_up = nullptr);
  void Wake();

  // Blocks until no node of `filter` runs. Returns OK also if they failed (see first_cause());
  // DEADLINE_EXCEEDED that names who still runs; CANCELLED after Shutdown(). Slots that no agent
  // ever took count as ended once they were asked to stop.
  [[nodiscard]] absl::Status WaitEnded(NodeFilter filter, absl::Duration timeout);

  // Waits until the observer has taken all output of nodes
  // (CoordinatorOptions::output_window_bytes) whose agents can be heard. Returns DEADLINE_EXCEEDED,
  // or CANCELLED after Stop() of all nodes at once.
  absl::Status WaitOutput(absl::Duration timeout);
  // Blocks until the cluster has failed (returns the first cause), `timeout` passes (returns OK),
  // or Cancel() or Shutdown() (CANCELLED).
  [[nodiscard]] absl::Status WaitFailure(absl::Duration timeout);

  // Makes WaitRunning, WaitFedEndpoints, WaitFeed and WaitFailure return CANCELLED with this
  // reason, those that wait now and those to come. WaitEnded goes on.
  void Cancel(absl::string_view reason);

  // CANCELLED, with the reason, once an operator has asked for the end of the cluster
  // (StopCluster); OK before. From then on the waits above return it too, and the nodes are ending.
  [[nodiscard]] absl::Status stop_request() const;

  [[nodiscard]] ClusterStatus Snapshot() const;
  // The latest spec; without jobs before all have registered (epoch 0).
  [[nodiscard]] ClusterSpec spec() const;
  // Why the cluster failed (codes above); OK if it has not.
  [[nodiscard]] absl::Status first_cause() const;

  // The feed directory. Unknown executor ids are NOT_FOUND, roles that are not fed
  // FAILED_PRECONDITION.
  [[nodiscard]] std::vector<int> fed_nodes() const;  // executor ids, ascending
  [[nodiscard]] absl::StatusOr<FeedTarget> LookupFeed(int executor_id) const;
  // Announces a feeder's CURVE key (Z85) to every fed node; as FeedGateway.Announce.
  absl::Status AnnounceFeeder(absl::string_view principal, absl::string_view curve_key);
  // Why this node failed or was lost. OK while it has not.
  [[nodiscard]] absl::Status Cause(int executor_id) const;
  // What the program published by name besides its feed (NodeEndpoints.other).
  [[nodiscard]] absl::StatusOr<std::map<std::string, std::string>> PublishedEndpoints(
      int executor_id) const;

  // Tells every fed node that all rows of the feed are received (or, aborted, that the call
  // failed). Nodes that attach again hear it again (the last 64 feeds are kept).
  void FeedEnd(absl::string_view feed_id, bool aborted);
  // Tells every fed node that no more rows come on `queue` ("": on all). Nodes that attach later
  // hear it too.
  void EndFeed(absl::string_view queue);

  // A Train call begins. Where another driver may take over, it is written down, and a call that
  // the driver before had begun says how far that came; it then goes on under the feed_id that it
  // had. Returns FAILED_PRECONDITION if that was a call with other data.
  [[nodiscard]] absl::StatusOr<SavedTrain> BeginTrain(const TrainCall& call);
  // What the call of this feed_id is about to return.
  void EndTrain(absl::string_view feed_id, const TrainOutcome& outcome);

  // The ledger (core/coordinator/state/feed_ledger.h says what each does).
  absl::Status OpenFeed(absl::string_view feed_id, absl::string_view queue, int64_t num_partitions);
  absl::Status ReportPartition(absl::string_view feed_id, const PartitionReport& report);
  void CloseFeed(absl::string_view feed_id);
  [[nodiscard]] absl::StatusOr<FeedSummary> FeedSummaryOf(absl::string_view feed_id) const;
  [[nodiscard]] std::vector<FeedSummary> FeedSummaries() const;
  // Blocks until `done` partitions of the feed are done, another number of them than `failed` has
  // failed, or it is closed, `timeout` at most; returns the ledger's counts as they are then. Also
  // returns the first cause if the cluster failed, CANCELLED after Cancel() or Shutdown(), and
  // NOT_FOUND for an unknown feed.
  [[nodiscard]] absl::StatusOr<FeedSummary> WaitFeed(absl::string_view feed_id, int64_t done,
                                                     int64_t failed, absl::Duration timeout);
  [[nodiscard]] std::vector<int64_t> UnfinishedPartitions(absl::string_view feed_id,
                                                          int executor_id,
                                                          uint32_t node_attempt) const;

  // Some program reads the queue so that all ranks get equally many batches (section 11 of
  // docs/feed_protocol.md).
  [[nodiscard]] bool IsEqual(absl::string_view queue) const;
  // By executor id: the rows that each rank has of such a call, as it has told since the last
  // rank's death.
  [[nodiscard]] std::map<int, int64_t> EqualRows(absl::string_view feed_id) const;
  // What each rank has dropped and repeated of such a call whose rows are all acknowledged; waits
  // for their last words, `timeout` at most; `*settled`, unless null: they have come. Empty, and
  // settled, if the call was none.
  std::vector<EqualCounts> WaitEqualCounts(absl::string_view feed_id, absl::Duration timeout,
                                           bool* settled = nullptr) const;

  // From the launcher, which is the parent of the agents (or watches their pods). Unknown executor
  // ids are ignored.
  void ReportAgentStarted(int executor_id, int64_t pid);
  // Where the slot's agent is, in its launcher's words: PlaceOf() of the next driver's coordinator.
  void ReportAgentFound(int executor_id, absl::string_view place);

  // Proven death: its slot may be taken at once.
  void ReportAgentExit(const AgentExit& exit);
  // The slot has no agent, and the launcher looks for one: not a failure of the cluster by itself.
  // WaitRunning() names `why` where it has to name the slot.
  void ReportAgentAwaited(int executor_id, absl::string_view why);

  // Asks the nodes to end (now: kills them at once). Idempotent; `now` after a first call hardens
  // it. New agents are turned away from these slots.
  void Stop(NodeFilter filter, absl::string_view reason, bool now = false);

  // Whether a state folder holds a cluster that has not ended. The system's error if that cannot be
  // seen.
  [[nodiscard]] static absl::StatusOr<bool> HoldsCluster(const std::string& state_folder);
  // As the driver before left this slot, for whoever starts agents; kNew where there was none. The
  // slot must exist.
  [[nodiscard]] AgentTicket::Standing StandingOf(int executor_id) const;
  // What ReportAgentFound() was told last, by a driver before; empty: nothing.
  [[nodiscard]] std::string PlaceOf(int executor_id) const;
  // With which id the slot's agent had registered, under a driver before; empty: none had.
  [[nodiscard]] std::string AgentIdOf(int executor_id) const;
  // Where what another driver needs is written; null if none can take over.
  [[nodiscard]] StateJournal* journal() const { return journal_.get(); }
  // There is nothing to take over any more: the cluster has ended.
  void GiveUpState();
  // OK while this coordinator has its cluster; ABORTED once another driver has taken it over, and
  // after Leave() what that was told: it decides nothing any more, and its waits return this.
  [[nodiscard]] absl::Status fenced() const;
  // Leaves the cluster as it is for another driver, as if this one had been killed: agents look for
  // that one, and fenced() is `why`, not OK. Nothing happens where it is not OK already.
  void Leave(const absl::Status& why);
  // This driver's number among those that the cluster has had, from 1; 0: none can take it over.
  [[nodiscard]] uint64_t driver_epoch() const;

  // Lets dashboard and CLI on this host find the cluster (core/client/cluster_file.h) until
  // Shutdown(). Once. A file that cannot be written is a warning in the log. Blocks: disk I/O.
  void PublishClusterFile();

  // Ends all streams (CANCELLED), closes the port, joins every thread. Idempotent. Blocks for at
  // most a few seconds. Not from an observer.
  void Shutdown();

 private:
  friend class CoordinatorPeer;  // of tests
  Coordinator();
  [[nodiscard]] absl::Status Open(CoordinatorOptions options);
  // The CA, tokens and client certificates: new ones, or those that are to be resumed.
  [[nodiscard]] absl::Status MakeIdentity(const CoordinatorOptions& options);
  [[nodiscard]] absl::Status ResumeIdentity(const CoordinatorOptions& options);
  // What the next driver gets, and has to agree with.
  [[nodiscard]] absl::StatusOr<v1::StateHead> MakeHead(const CoordinatorOptions& options) const;
  void WithdrawClusterFile();

  // In the order in which they need each other; destroyed in reverse.
  // What is said to be constant here is so once Start() has returned.
  std::unique_ptr<StateJournal> journal_;  // null: nobody takes over
  std::string cluster_id_;                 // constant
  AccessTokens tokens_;                    // constant
  std::unique_ptr<CertificateAuthority> ca_;
  std::string agent_identity_pem_;
  std::string viewer_identity_pem_;
  std::unique_ptr<ProgramSource> program_;  // null: nothing is shipped
  std::unique_ptr<EventLog> events_;        // null: none is written
  std::unique_ptr<ViewStore> view_;
  std::unique_ptr<ClusterRecorder> recorder_;
  std::unique_ptr<WatchHub> hub_;
  std::unique_ptr<ControlPlane> plane_;
  std::unique_ptr<CoordinatorServer> server_;
  std::string address_;
  std::string name_;
  std::string program_path_;
  std::string command_;
  std::string log_dir_;
  std::string cluster_file_;  // its path; empty: there is none
  absl::Time published_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_COORDINATOR_H_
