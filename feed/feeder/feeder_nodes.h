// File: feed/feeder/feeder_nodes.h
//
// The nodes as one Train or Inference call sees them: which one gets the next partition, and what
// to do when a session with one ends before its time. Internal to feed/feeder/train_job.h and
// feed/feeder/inference_job.h.
//
// Defines: Recovery, NodeReading, FeederNodes.
//
//   FeederNodes nodes(directory, "input", feed_timeout);
//   MILLRACE_ASSIGN_OR_RETURN(std::optional<FeedTarget> target, nodes.Acquire());
//   if (!target.has_value()) ...                                  // no node reads any more
//   ...                                                           // the session ended
//   nodes.Release(target->node);
//   MILLRACE_ASSIGN_OR_RETURN(Recovery recovery, nodes.Recover(*session));

#ifndef FEED_FEEDER_FEEDER_NODES_H_
#define FEED_FEEDER_FEEDER_NODES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/balance/node_load.h"
#include "core/base/mutex.h"
#include "feed/feeder/feeder_session.h"
#include "feed/feeder/node_directory.h"

namespace millrace {

// Where the rest of a partition goes.
struct Recovery {
  enum class Where {
    kSameAttempt,  // `target` is the process that had it before
    kNewAttempt,   // `target` is the same role in a new process
    kElsewhere,    // the node reads no more: Acquire() another
  };
  Where where;
  FeedTarget target;
  std::string reason;  // for people: "worker:1 was restarted"
};

// What the sessions with a node say.
struct NodeReading {
  int64_t acked_rows = 0;  // since the start of the call
  int64_t partitions = 0;  // that are not released or settled
  double rows = 0;         // of these that are not acknowledged, as far as is known
};

// Thread safety: thread-safe. Blocking: AcquireNext() waits for a node that has little to do; it,
// Acquire() and Recover() wait for nodes that restart, at most feed_timeout. Cancel() ends the
// wait.
class FeederNodes {
 public:
  // `directory` outlives this.
  FeederNodes(NodeDirectory* directory, std::string queue, absl::Duration feed_timeout);

  [[nodiscard]] int size() const { return static_cast<int>(names_.size()); }

  // The running node with the fewest partitions in hand that still reads the queue, now with one
  // more; nullopt if none reads. Returns the cause if a node has failed, UNAVAILABLE if all that
  // could read have been restarting for feed_timeout, the directory's errors, Cancel()'s status.
  [[nodiscard]] absl::StatusOr<std::optional<FeedTarget>> Acquire();

  // As Acquire(), but the node that will be done first, as soon as one of them has little to do
  // (core/balance/node_load.h). Programs may want more rows than the nodes are given so before they
  // acknowledge any: after a moment in which nobody wants more one node gets it all the same, and
  // each time four times as much ahead; twice as much one that has run dry. Where there is but one
  // node it does not wait.
  [[nodiscard]] absl::StatusOr<std::optional<FeedTarget>> AcquireNext();
  // The same for `rows` that were taken back from another node: at once, however much the best one
  // has.
  [[nodiscard]] absl::StatusOr<std::optional<FeedTarget>> AcquireForMove(double rows);

  // The node with the lowest of `levels`, which has them of all nodes, now with one partition more;
  // nullopt while it has one under way. Does not look whether it runs: AcquireClaimed() does.
  [[nodiscard]] std::optional<std::string> ClaimLowest(
      const std::map<std::string, int64_t>& levels);
  // As Acquire(), for the node that was claimed; nullopt, and it has one less, if it reads no more.
  [[nodiscard]] absl::StatusOr<std::optional<FeedTarget>> AcquireClaimed(const std::string& node);

  // What AcquireNext() goes by. `partition_rows`: of a usual partition; 0 if nobody knows.
  void Observe(const std::map<std::string, NodeReading>& readings, double partition_rows);
  // In the order of fed_nodes().
  [[nodiscard]] std::vector<NodeLoad> loads() const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  // As Acquire(), for the node of a Recovery.
  void AcquireAgain(const std::string& node);
  // The same before the Recovery, if the node has no partition under way; false otherwise.
  [[nodiscard]] bool ClaimAgain(const std::string& node);

  // The partition is received (`outstanding`: not yet acknowledged), or over.
  void Release(const std::string& node, bool outstanding = false);
  // An outstanding one is over.
  void Settle(const std::string& node);

  // What to do with the partition of a session that has ended. Returns the session's error, the
  // node's cause, or UNAVAILABLE after feed_timeout, if the call fails by it.
  [[nodiscard]] absl::StatusOr<Recovery> Recover(const FeedSession& session);

  // A session with the node got somewhere: its failures so far are forgotten.
  void Succeeded(const std::string& node);

  [[nodiscard]] bool any_reading() const;

  // Shared by the sessions with this attempt of the node.
  [[nodiscard]] std::shared_ptr<FeedProgress> Progress(const FeedTarget& target);

  // Makes every wait return `status`, now and later. The first call counts.
  void Cancel(const absl::Status& status);

 private:
  struct Node {
    bool reading = true;
    int64_t active = 0;       // partitions under way
    int64_t outstanding = 0;  // received, not acknowledged
    int64_t assigned = 0;     // since the start
    NodeReading reading_now;  // as Observe() told last
    PaceMeter pace;
    int64_t allowance = 1;           // see NodeLoad
    int failures = 0;                // connections lost since something succeeded
    absl::Duration failing_since{};  // steady; set while failures > 0
    std::string nonce;               // of `progress`
    std::shared_ptr<FeedProgress> progress;
  };

  enum class By {
    kCount,       // the one with the fewest partitions in hand
    kPace,        // the one that will be done first, of those that want more
    kPaceOfAll,   // the same, whether it wants more or not
    kPaceBeyond,  // the same, and it will want four times as much from now on
  };
  // The best one of those that read and are not in `tried`.
  std::optional<std::string> Choose(By by, std::optional<double> rows,
                                    const std::set<std::string>& tried)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<std::string> ChooseByPace(By by, std::optional<double> rows,
                                          const std::set<std::string>& tried)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False if it has a partition under way.
  bool Claim(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  NodeLoad LoadOf(const Node& node) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `rows`: what is to be done; otherwise a usual partition.
  absl::StatusOr<std::optional<FeedTarget>> Acquire(By by, std::optional<double> rows);
  // Blocks until some node wants more, or for a moment. What to choose by then.
  absl::StatusOr<By> WaitForWish();
  // One look at all nodes. A target, nullopt if nobody reads, or UNAVAILABLE if all are restarting.
  absl::StatusOr<std::optional<FeedTarget>> TryAcquire(By by, std::optional<double> rows);
  absl::Status FailedError(const std::string& node);
  void StopReading(const std::string& node);
  // Blocks for `pause`. Returns Cancel()'s status.
  absl::Status Pause(absl::Duration pause);
  absl::StatusOr<std::optional<Recovery>> LookAgain(const FeedSession& session,
                                                    const SessionState& state);

  NodeDirectory* const directory_;
  const std::string queue_;
  const absl::Duration feed_timeout_;
  std::vector<std::string> names_;

  mutable Mutex mu_;
  CondVar cancelled_cv_;
  CondVar changed_cv_;  // loads
  double partition_rows_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Node> nodes_ ABSL_GUARDED_BY(mu_);  // the keys never change
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_NODES_H_
