// File: core/client/cluster_view.h
//
// A cluster as a reader knows it: the updates of ClusterView.Watch folded into values.
//
// Defines: ClusterView, CheckFollows().
//
//   ClusterView view;
//   MILLRACE_RETURN_IF_ERROR(view.Apply(update));   // for each update, in order
//   for (const v1::SlotStatus& slot : view.slots()) Print(slot);
//
// Metrics and log lines pass by: they are in the updates, and how much of them to keep is the
// reader's business.
//
// Thread safety: const methods may run concurrently. A copy is independent; it copies everything.

#ifndef CORE_CLIENT_CLUSTER_VIEW_H_
#define CORE_CLIENT_CLUSTER_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/watch.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// Whether `update` can be taken by a reader that has had the update `seq` of `incarnation`, or none
// (0): a snapshot always can. Else FAILED_PRECONDITION, and a snapshot is needed.
[[nodiscard]] absl::Status CheckFollows(const v1::WatchUpdate& update, uint64_t seq,
                                        absl::string_view incarnation);

class ClusterView {
 public:
  static constexpr size_t kMaxEvents = 2048;
  // Of slots; an update that names a greater executor id is refused.
  static constexpr int kMaxSlots = 1 << 20;

  // Takes one update; a snapshot replaces everything, a sequence number that is there already
  // changes nothing. Returns FAILED_PRECONDITION if it cannot follow on what is there (another
  // incarnation, membership of a later epoch): a snapshot is needed; INVALID_ARGUMENT if it makes
  // no sense. The view may then hold a part of the update.
  [[nodiscard]] absl::Status Apply(const v1::WatchUpdate& update);

  // 0: nothing has come yet.
  [[nodiscard]] uint64_t seq() const { return seq_; }
  [[nodiscard]] const std::string& incarnation() const { return incarnation_; }
  // Of the last update, on the coordinator's clock.
  [[nodiscard]] absl::Time time() const { return time_; }

  [[nodiscard]] const v1::ClusterInfo& cluster() const { return cluster_; }
  // By executor id, without gaps once a snapshot of level NODES has come; empty before.
  [[nodiscard]] const std::vector<v1::SlotStatus>& slots() const { return slots_; }
  // By executor id, as long as slots(). A node that nothing is known of has no sample.
  [[nodiscard]] const std::vector<v1::WatchUpdate::Node>& nodes() const { return nodes_; }
  // Epoch 0: not all nodes have registered yet.
  [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
  [[nodiscard]] uint64_t spec_epoch() const { return spec_epoch_; }
  // By feed id.
  [[nodiscard]] const std::map<std::string, v1::FeedInfo>& feeds() const { return feeds_; }
  // The last ones, oldest first.
  [[nodiscard]] const std::deque<v1::Event>& events() const { return events_; }

  // The slot of "worker:1" or of an executor id in decimal; nullptr if there is none.
  [[nodiscard]] const v1::SlotStatus* FindSlot(absl::string_view node) const;

  // What this reader missed, in all.
  [[nodiscard]] uint64_t dropped_metrics() const { return dropped_metrics_; }
  [[nodiscard]] uint64_t dropped_events() const { return dropped_events_; }
  [[nodiscard]] uint64_t dropped_log_lines() const { return dropped_log_lines_; }

 private:
  absl::Status Reserve(int executor_id);

  uint64_t seq_ = 0;
  std::string incarnation_;
  absl::Time time_;
  v1::ClusterInfo cluster_;
  std::vector<v1::SlotStatus> slots_;
  std::vector<v1::WatchUpdate::Node> nodes_;
  ClusterSpec spec_;
  uint64_t spec_epoch_ = 0;
  std::map<std::string, v1::FeedInfo> feeds_;
  std::deque<v1::Event> events_;
  uint64_t dropped_metrics_ = 0;
  uint64_t dropped_events_ = 0;
  uint64_t dropped_log_lines_ = 0;
};

// "worker:1".
[[nodiscard]] std::string NodeName(const v1::SlotStatus& slot);
// "requested", ..., "running", ..., "lost"; "unknown" for a state newer than this program.
[[nodiscard]] absl::string_view SlotStateText(v1::SlotState state);
// "reserving", "running", "stopping", "ended", "failed".
[[nodiscard]] absl::string_view PhaseText(v1::ClusterInfo::Phase phase);
// Who wrote lines: "stdout", "stderr", "agent".
[[nodiscard]] absl::string_view LogSourceText(v1::LogLines::Source source);

}  // namespace millrace

#endif  // CORE_CLIENT_CLUSTER_VIEW_H_
