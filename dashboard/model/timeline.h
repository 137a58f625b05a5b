// File: dashboard/model/timeline.h
//
// What happened, with the first cause of a failure on top of what followed from it.
//
// Defines: TimelineEvent, PhaseSpan, EpochMark, StateChange, MarkKind, TimelineMark, FormatMark(),
// Timeline.
//
//   for (const TimelineMark& mark : timeline.Marks(from, to, (to - from) / 200)) Draw(mark);
//
// Thread safety: not thread-safe; const methods may run concurrently.

#ifndef DASHBOARD_MODEL_TIMELINE_H_
#define DASHBOARD_MODEL_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/proto/watch.pb.h"

namespace millrace::dashboard {

struct TimelineEvent {
  uint64_t number = 0;  // as the coordinator counts
  absl::Time time;
  std::string kind;  // "cluster", "slot", ... (docs/observability.md)
  v1::Event::Severity severity = v1::Event::SEVERITY_INFO;
  int executor_id = -1;  // -1: nobody's
  uint32_t attempt = 0;
  std::string text;
  bool first_cause = false;
  // It follows from the first cause: an event that says so, or a node's failure after it.
  bool folded = false;
};

struct PhaseSpan {
  v1::ClusterInfo::Phase phase = v1::ClusterInfo::PHASE_UNSPECIFIED;
  absl::Time from;
  absl::Time to = absl::InfiniteFuture();  // InfiniteFuture(): goes on
};

struct EpochMark {
  uint64_t epoch = 0;
  absl::Time time;
};

// A node reached a state.
struct StateChange {
  absl::Time time;
  int executor_id = 0;
  uint32_t attempt = 0;
  v1::SlotState state = v1::SLOT_STATE_UNSPECIFIED;
};

// What a plot is marked with, in the order of what matters more.
enum class MarkKind { kJoin, kRestart, kFailure };

// What fell upon about the same time.
struct TimelineMark {
  absl::Time time;
  MarkKind kind = MarkKind::kJoin;
  int count = 1;                         // events
  const TimelineEvent* event = nullptr;  // the one that matters most; valid until another comes
};

// "10:41:07.3  worker:3 ... was killed by SIGKILL (and 4 more)", of at most `max_bytes` of text.
[[nodiscard]] std::string FormatMark(const TimelineMark& mark, absl::TimeZone zone,
                                     size_t max_bytes = 400);

class Timeline {
 public:
  static constexpr size_t kMaxEvents = 20'000;
  static constexpr size_t kMaxMarks = 4'096;
  static constexpr size_t kMaxStates = 200'000;

  // An event that is there already changes nothing.
  void Add(const v1::Event& event);
  void SetPhase(v1::ClusterInfo::Phase phase, absl::Time time);
  void SetEpoch(uint64_t epoch, absl::Time time);
  void AddState(const StateChange& change);
  void Clear();

  // By number. The oldest go first, the first cause never.
  [[nodiscard]] const std::deque<TimelineEvent>& events() const { return events_; }
  [[nodiscard]] const TimelineEvent* Find(uint64_t number) const;
  // The failure that was first; nullptr if there is none.
  [[nodiscard]] const TimelineEvent* first_cause() const;
  // Events that are folded under it.
  [[nodiscard]] size_t folded() const { return folded_; }
  [[nodiscard]] const std::vector<PhaseSpan>& phases() const { return phases_; }
  [[nodiscard]] const std::vector<EpochMark>& epochs() const { return epochs_; }
  // In the order in which they were told, the newest kMaxStates.
  [[nodiscard]] const std::deque<StateChange>& states() const { return states_; }
  // Failures, restarts and joins in [from, to], by time. Those less than `gap` apart are one: the
  // worst of them.
  [[nodiscard]] std::vector<TimelineMark> Marks(absl::Time from, absl::Time to,
                                                absl::Duration gap) const;
  // Changes with every Add(), SetPhase() and SetEpoch() that changed something.
  [[nodiscard]] uint64_t version() const { return version_; }

 private:
  void TakeFirstCause(TimelineEvent* event);

  std::deque<TimelineEvent> events_;
  std::vector<PhaseSpan> phases_;
  std::vector<EpochMark> epochs_;
  std::deque<StateChange> states_;
  struct Marked {
    absl::Time time;
    uint64_t number = 0;
    MarkKind kind = MarkKind::kJoin;
  };
  std::deque<Marked> marked_;  // the events that are marks
  uint64_t last_number_ = 0;
  bool any_ = false;
  int64_t first_cause_number_ = -1;
  size_t folded_ = 0;
  uint64_t version_ = 0;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_TIMELINE_H_
