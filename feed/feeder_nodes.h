// File: feed/feeder_nodes.h
//
// The nodes as one Train or Inference call sees them: which one gets the next partition, and what
// to do when a session with one ends before its time. Internal to feed/train_job.h and
// feed/inference_job.h.
//
// Defines: Recovery, FeederNodes.
//
//   FeederNodes nodes(directory, "input", feed_timeout, RealClock());
//   MILLRACE_ASSIGN_OR_RETURN(std::optional<FeedTarget> target, nodes.Acquire());
//   if (!target.has_value()) ...                                  // no node reads any more
//   ...                                                           // the session ended
//   nodes.Release(target->node);
//   MILLRACE_ASSIGN_OR_RETURN(Recovery recovery, nodes.Recover(*session));

#ifndef FEED_FEEDER_NODES_H_
#define FEED_FEEDER_NODES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "feed/feeder_session.h"
#include "feed/node_directory.h"

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

// Thread safety: thread-safe. Blocking: Acquire() and Recover() wait for nodes that restart, at
// most feed_timeout; Cancel() ends the wait.
class FeederNodes {
 public:
  // `directory` and `clock` outlive this.
  FeederNodes(NodeDirectory* directory, std::string queue, absl::Duration feed_timeout,
              Clock* clock);

  [[nodiscard]] int size() const { return static_cast<int>(names_); }

  // The running node with the fewest partitions in hand that still reads the queue, now with one
  // more; nullopt if none reads. Returns the cause if a node has failed, UNAVAILABLE if all that
  // could read have been restarting for feed_timeout, the directory's errors, Cancel()'s status.
  [[nodiscard]] absl::StatusOr<std::optional<FeedTarget>> Acquire();

  // As Acquire(), for the node of a Recovery.
  void AcquireAgain(const std::string& node);

  // The partition is received (`outstanding`: not yet acknowledged), or over.
  void Release(const std::string& node, bool outstanding = false);
  // An outstanding one is over.
  void Settle(const std::string& node);

  // What to do with the partition of a session that has ended. Returns the session's error, the
  // node's cause, or UNAVAILABLE after feed_timeout, if the call fails by it.
  [[nodiscard]] absl::StatusOr<Recovery> Recover(const FeedSession& session);

  // A session with the node got somewhere: its failures so far are forgotten.
  void Succeeded(const std::string& node);

  // The session has ended with TERMINATED: its node reads no more. Recover() notes it too; this is
  // for those who cannot wait until somebody asks.
  void NoteTerminated(const std::string& node) { StopReading(node); }
  [[nodiscard]] bool any_reading() const;

  // Shared by the sessions with this attempt of the node.
  [[nodiscard]] std::shared_ptr<FeedProgress> Progress(const FeedTarget& target);

  // Makes every wait return `status`, now and later. The first call counts.
  void Cancel(const absl::Status& status);

 private:
  struct Node {
    bool reading = true;
    int64_t active = 0;              // partitions under way
    int64_t outstanding = 0;         // received, not acknowledged
    int64_t assigned = 0;            // since the start
    int failures = 0;                // connections lost since something succeeded
    absl::Duration failing_since{};  // steady; set while failures > 0
    std::string nonce;               // of `progress`
    std::shared_ptr<FeedProgress> progress;
  };

  // The one with the least to do of those that read and are not in `tried`.
  std::optional<std::string> Choose(const std::set<std::string>& tried)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // One look at all nodes. A target, nullopt if nobody reads, or UNAVAILABLE if all are restarting.
  absl::StatusOr<std::optional<FeedTarget>> TryAcquire();
  absl::Status FailedError(const std::string& node);
  void StopReading(const std::string& node);
  // Blocks for `pause`. Returns Cancel()'s status.
  absl::Status Pause(absl::Duration pause);
  absl::StatusOr<std::optional<Recovery>> LookAgain(const FeedSession& session,
                                                    const SessionState& state);

  NodeDirectory* const directory_;
  const std::string queue_;
  const absl::Duration feed_timeout_;
  Clock* const clock_;
  size_t names_ = 0;

  mutable Mutex mu_;
  CondVar cancelled_cv_;
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Node> nodes_ ABSL_GUARDED_BY(mu_);  // the keys never change
};

}  // namespace millrace

#endif  // FEED_FEEDER_NODES_H_
