// File: core/coordinator/view/view_store.h
//
// What readers of a cluster may see: the newest value of every slot, node and feed with the number
// of its last change, and bounded rings of what happened (events, metrics, log lines).
//
// Defines: ViewLimits, ViewCursor, LogCursor, ViewStore.
//
//   ViewStore store({.num_slots = 4, .incarnation = RandomHex(8)});
//   store.SetSlot(slot);                                  // the control plane, at any rate
//   ViewCursor cursor = store.Resume({.level = v1::WATCH_LEVEL_ALL});
//   v1::WatchUpdate update = store.Next(&cursor);         // a snapshot; then what changed since
//
// A reader is nothing but its cursor, so there may be many, they may be slow, and what they miss
// costs nobody anything: values are coalesced, and what the rings have let go is counted and told.

#ifndef CORE_COORDINATOR_VIEW_VIEW_STORE_H_
#define CORE_COORDINATOR_VIEW_VIEW_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/sample.pb.h"
#include "core/proto/watch.pb.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {

// What is kept at most.
struct ViewLimits {
  size_t log_bytes = size_t{64} << 20;  // of all nodes' lines, what they cost besides included
  size_t log_lines_per_node = 1000;
  size_t events = 2048;
  size_t metrics = 32768;
  size_t removed_feeds = 4096;                // older cursors get a snapshot
  size_t membership_changes = 1024;           // older cursors get the whole spec
  size_t checkpoints = 16384;                 // updates that may be resumed after
  size_t update_log_bytes = size_t{4} << 20;  // of one update
  size_t update_metrics = 32768;
};

// Where a Watch reader is. Made by ViewStore::Resume(), moved by Next().
struct ViewCursor {
  v1::WatchLevel level = v1::WATCH_LEVEL_ALL;
  size_t log_lines = 0;  // of each node in a snapshot; 0: no lines, and none later
  uint64_t seq = 0;      // 0: nothing has been seen
  // How many of each there had been at `seq`.
  uint64_t lines = 0;
  uint64_t metrics = 0;
  uint64_t events = 0;
};

// Where a ReadLogs reader is. Made by ViewStore::BeginLogs(), moved by NextLogs().
struct LogCursor {
  std::vector<int> nodes;       // sorted
  std::vector<uint64_t> lines;  // of each of `nodes`: how many of its lines have been passed
  uint64_t seq = 0;             // of the last line in the order of all; once all have begun
  size_t beginning = 0;         // the node in `nodes` whose first lines come next
  bool follow = false;
};

// Every change may be made with a lock held: nothing blocks for longer than it takes to set a few
// pointers, and nothing is called out.
// Thread safety: thread-safe. Blocking: only Wait().
class ViewStore {
 public:
  struct Options {
    int num_slots = 0;
    std::string incarnation;
    ViewLimits limits;
    Clock* clock = RealClock();  // not owned
  };
  explicit ViewStore(Options options);

  ViewStore(const ViewStore&) = delete;
  ViewStore& operator=(const ViewStore&) = delete;

  // ---- changes; unknown executor ids are ignored ----

  // `change` sets fields; num_slots and by_state are kept here.
  void UpdateCluster(absl::FunctionRef<void(v1::ClusterInfo*)> change);
  // Returns the status before.
  std::shared_ptr<const SlotStatus> SetSlot(const SlotStatus& slot);
  // Ignored if it is of an earlier attempt than the slot's.
  void SetSample(int executor_id, v1::NodeSample sample);
  void SetEndpoints(int executor_id, const std::map<std::string, std::string>& endpoints);
  void SetSpec(const ClusterSpec& spec, uint64_t epoch);
  // One change of the spec, `epoch` the one after the last. Ignored before SetSpec().
  void ChangeSpec(const NodeRole& role, const std::string& address, uint32_t attempt,
                  uint64_t epoch);
  void SetFeed(const FeedSummary& feed);
  void SetLedger(int executor_id, const std::vector<QueueLedger>& queues);
  void RemoveFeed(absl::string_view feed_id);
  void AddMetric(int executor_id, uint32_t attempt, std::string name, int64_t step, double value,
                 absl::Time time);
  // Sets number and time. Returns the event as it is kept.
  std::shared_ptr<const v1::Event> AddEvent(v1::Event event);
  // `dropped` lines were lost before these, on their way here.
  void AddLog(int executor_id, uint32_t attempt, v1::LogLines::Source source,
              std::vector<std::string> lines, uint64_t dropped);

  // ---- Watch ----

  struct Request {
    v1::WatchLevel level = v1::WATCH_LEVEL_ALL;
    size_t log_lines = 0;
    uint64_t resume_after = 0;
    std::string incarnation;
  };
  // Where the reader was, if that is known still; otherwise its next update is a snapshot.
  [[nodiscard]] ViewCursor Resume(const Request& request);
  // Something has changed that this reader sees.
  [[nodiscard]] bool HasNews(const ViewCursor& cursor) const;
  // What changed, and moves the cursor. Without content if nothing did.
  [[nodiscard]] v1::WatchUpdate Next(ViewCursor* cursor);

  // ---- ReadLogs ----

  // `nodes`: executor ids that exist; empty: all.
  [[nodiscard]] LogCursor BeginLogs(std::vector<int> nodes, size_t lines, bool follow) const;
  [[nodiscard]] bool HasLogs(const LogCursor& cursor) const;
  // The next lines of one node; nullopt: there are none now, and without `follow` none will be.
  [[nodiscard]] std::optional<v1::LogBatch> NextLogs(LogCursor* cursor) const;

  // ---- waiting: one thread ----

  // What a waiting reader wants to hear of: a sum of the bits below.
  static constexpr uint32_t kClusterNews = 1;  // cluster, feeds, events
  static constexpr uint32_t kNodeNews = 2;     // slots, nodes, membership
  static constexpr uint32_t kMetricNews = 4;
  static constexpr uint32_t kLogNews = 8;
  [[nodiscard]] static uint32_t NewsOf(const ViewCursor& cursor);
  // Blocks until something of `news` changes after the state of `seq`, Wake() is called, or
  // `timeout` has passed.
  void Wait(uint32_t news, uint64_t seq, absl::Duration timeout);
  void Wake();

  [[nodiscard]] uint64_t seq() const;
  [[nodiscard]] int num_slots() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] const std::string& incarnation() const { return options_.incarnation; }
  // Of the lines that are kept.
  [[nodiscard]] size_t log_bytes() const;

 private:
  struct LogEntry {
    uint64_t seq = 0;
    int executor_id = 0;
    uint32_t attempt = 0;
    v1::LogLines::Source source = v1::LogLines::SOURCE_UNSPECIFIED;
    absl::Time time;
    uint64_t dropped = 0;
    uint64_t first = 0;      // how many lines of all nodes came before
    uint64_t first_own = 0;  // how many lines of this node came before
    std::vector<std::string> lines;
    size_t bytes = 0;
  };
  using LogList = std::list<std::shared_ptr<const LogEntry>>;
  struct NodeLogs {
    std::deque<LogList::iterator> entries;  // into logs_, in order
    size_t kept = 0;                        // lines in them
    uint64_t total = 0;                     // lines ever
  };
  struct Node {
    std::shared_ptr<const SlotStatus> slot;
    uint64_t slot_seq = 0;
    std::shared_ptr<const v1::NodeSample> sample;
    absl::Time received;
    std::shared_ptr<const std::map<std::string, std::string>> endpoints;
    std::shared_ptr<const std::vector<v1::QueueLedger>> ledger;
    uint64_t node_seq = 0;
    std::unique_ptr<NodeLogs> logs;  // null: never wrote
  };
  struct Feed {
    std::shared_ptr<const v1::FeedInfo> info;
    uint64_t seq = 0;
  };
  template <typename T>
  struct Numbered {
    uint64_t seq = 0;
    T value;
  };
  struct Checkpoint {
    uint64_t seq = 0;
    uint64_t lines = 0;
    uint64_t metrics = 0;
    uint64_t events = 0;
  };
  // What an update consists of, by reference: made into a message without the lock.
  struct Gathered;

  // Counts a change of this kind and wakes who waits for it.
  uint64_t Changed(uint32_t news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] uint64_t LastOf(uint32_t news) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Node* Find(int executor_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropLog(LogList::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MarkCheckpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Gather(const ViewCursor& cursor, bool snapshot, Gathered* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GatherNodes(uint64_t after, Gathered* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GatherSpec(uint64_t after, Gathered* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GatherRings(const ViewCursor& cursor, bool snapshot, Gathered* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GatherLastLogs(size_t lines, uint64_t seen, Gathered* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GatherNewLogs(uint64_t seen, uint64_t after, Gathered* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<const v1::SpecUpdate> WholeSpec(const Gathered& gathered);

  const Options options_;
  Clock* const clock_;

  mutable Mutex mu_;
  CondVar news_;
  uint64_t seq_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<uint64_t, 4> last_ ABSL_GUARDED_BY(mu_) = {};  // seq of the last news of each bit
  uint32_t waits_for_ ABSL_GUARDED_BY(mu_) = 0;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;

  v1::ClusterInfo cluster_ ABSL_GUARDED_BY(mu_);
  uint64_t cluster_seq_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Node> nodes_;  // elements guarded by mu_; never resized
  ClusterSpec spec_ ABSL_GUARDED_BY(mu_);
  uint64_t spec_epoch_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t spec_seq_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Numbered<v1::SpecUpdate>> spec_changes_ ABSL_GUARDED_BY(mu_);
  uint64_t spec_floor_ ABSL_GUARDED_BY(mu_) = 0;  // changes up to here are not in spec_changes_
  std::shared_ptr<const v1::SpecUpdate> whole_spec_ ABSL_GUARDED_BY(mu_);  // null or of its epoch
  std::map<std::string, Feed, std::less<>> feeds_ ABSL_GUARDED_BY(mu_);
  std::deque<Numbered<std::string>> removed_feeds_ ABSL_GUARDED_BY(mu_);
  uint64_t removed_floor_ ABSL_GUARDED_BY(mu_) = 0;  // removals up to here are forgotten
  std::deque<Numbered<std::shared_ptr<const v1::MetricPoint>>> metrics_ ABSL_GUARDED_BY(mu_);
  uint64_t num_metrics_ ABSL_GUARDED_BY(mu_) = 0;  // ever
  std::deque<Numbered<std::shared_ptr<const v1::Event>>> events_ ABSL_GUARDED_BY(mu_);
  uint64_t num_events_ ABSL_GUARDED_BY(mu_) = 0;  // ever
  LogList logs_ ABSL_GUARDED_BY(mu_);             // in the order of seq
  size_t log_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t nodes_with_logs_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_lines_ ABSL_GUARDED_BY(mu_) = 0;              // ever
  std::deque<Checkpoint> checkpoints_ ABSL_GUARDED_BY(mu_);  // in the order of seq
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_VIEW_VIEW_STORE_H_
