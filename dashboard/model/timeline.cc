#include "dashboard/model/timeline.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/proto/time_proto.h"
#include "dashboard/model/format.h"

namespace millrace::dashboard {
namespace {

bool IsFailure(const TimelineEvent& event) {
  return event.kind == "failure" && event.executor_id >= 0;
}

std::optional<MarkKind> KindOf(const TimelineEvent& event) {
  if (event.kind == "failure") return MarkKind::kFailure;
  if (event.kind == "restart") return MarkKind::kRestart;
  if (event.kind == "membership") return MarkKind::kJoin;
  return std::nullopt;
}

}  // namespace

std::string FormatMark(const TimelineMark& mark, absl::TimeZone zone, size_t max_bytes) {
  std::string text = absl::StrCat(FormatClock(mark.event->time, zone), "  ",
                                  Ellipsize(mark.event->text, max_bytes));
  if (mark.count > 1) absl::StrAppend(&text, " (and ", mark.count - 1, " more)");
  return text;
}

// The coordinator waits a moment before it names a first cause, and names it in an event of the
// cluster: the node's own failure stands before it, among those that came at the same time.
void Timeline::TakeFirstCause(TimelineEvent* event) {
  event->first_cause = false;
  if (first_cause_number_ >= 0) return;
  TimelineEvent* cause = event;
  for (TimelineEvent& earlier : events_) {
    if (IsFailure(earlier) && earlier.executor_id == event->executor_id &&
        earlier.attempt == event->attempt) {
      cause = &earlier;
    }
  }
  if (cause->folded) {
    cause->folded = false;
    --folded_;
  }
  cause->first_cause = true;
  first_cause_number_ = static_cast<int64_t>(cause->number);
  for (TimelineEvent& earlier : events_) {
    if (&earlier == cause || !IsFailure(earlier) || earlier.folded || earlier.time < cause->time) {
      continue;
    }
    earlier.folded = true;
    ++folded_;
  }
}

void Timeline::Add(const v1::Event& proto) {
  if (any_ && proto.number() <= last_number_) return;
  any_ = true;
  last_number_ = proto.number();
  ++version_;
  TimelineEvent& event = events_.emplace_back();
  event.number = proto.number();
  event.time = TimeFromProto(proto.time());
  event.kind = proto.kind();
  event.severity = proto.severity();
  event.executor_id = proto.executor_id();
  event.attempt = proto.attempt();
  event.text = proto.text();
  event.first_cause = proto.first_cause();
  event.folded = proto.folded();
  if (event.first_cause) {
    TakeFirstCause(&event);
  } else if (IsFailure(event) && first_cause_number_ >= 0) {
    event.folded = true;
  }
  if (event.folded) ++folded_;
  if (const std::optional<MarkKind> kind = KindOf(event); kind.has_value()) {
    marked_.push_back({event.time, event.number, *kind});
  }
  if (events_.size() <= kMaxEvents) return;
  const auto oldest = static_cast<int64_t>(events_.front().number) == first_cause_number_
                          ? events_.begin() + 1
                          : events_.begin();
  if (oldest->folded) --folded_;
  std::erase_if(marked_, [&](const Marked& mark) { return mark.number == oldest->number; });
  events_.erase(oldest);
}

std::vector<TimelineMark> Timeline::Marks(absl::Time from, absl::Time to,
                                          absl::Duration gap) const {
  std::vector<Marked> within;
  for (const Marked& mark : marked_) {
    if (mark.time >= from && mark.time <= to) within.push_back(mark);
  }
  const auto before = [](const Marked& a, const Marked& b) { return a.time < b.time; };
  if (!std::is_sorted(within.begin(), within.end(), before)) {
    std::stable_sort(within.begin(), within.end(), before);
  }
  const auto rank = [this](uint64_t number, MarkKind kind) {
    return static_cast<int>(kind) + (static_cast<int64_t>(number) == first_cause_number_ ? 1 : 0);
  };
  std::vector<TimelineMark> marks;
  std::vector<uint64_t> numbers;
  absl::Time begin;  // of what falls together
  for (const Marked& mark : within) {
    if (marks.empty() || mark.time - begin >= gap) {
      begin = mark.time;
      marks.push_back({.time = mark.time, .kind = mark.kind});
      numbers.push_back(mark.number);
      continue;
    }
    TimelineMark& last = marks.back();
    ++last.count;
    if (rank(mark.number, mark.kind) <= rank(numbers.back(), last.kind)) continue;
    last.time = mark.time;
    last.kind = mark.kind;
    numbers.back() = mark.number;
  }
  for (size_t i = 0; i < marks.size(); ++i) marks[i].event = Find(numbers[i]);
  return marks;
}

void Timeline::AddState(const StateChange& change) {
  states_.push_back(change);
  if (states_.size() > kMaxStates) states_.pop_front();
}

void Timeline::SetPhase(v1::ClusterInfo::Phase phase, absl::Time time) {
  if (!phases_.empty() && phases_.back().phase == phase) return;
  if (!phases_.empty()) phases_.back().to = std::max(time, phases_.back().from);
  if (phases_.size() >= kMaxMarks) phases_.erase(phases_.begin());
  phases_.push_back({phase, time});
  ++version_;
}

void Timeline::SetEpoch(uint64_t epoch, absl::Time time) {
  if (epoch == 0 || (!epochs_.empty() && epochs_.back().epoch >= epoch)) return;
  if (epochs_.size() >= kMaxMarks) epochs_.erase(epochs_.begin());
  epochs_.push_back({epoch, time});
  ++version_;
}

void Timeline::Clear() {
  const uint64_t version = version_;
  *this = Timeline();
  version_ = version + 1;
}

const TimelineEvent* Timeline::Find(uint64_t number) const {
  const auto found =
      std::lower_bound(events_.begin(), events_.end(), number,
                       [](const TimelineEvent& event, uint64_t at) { return event.number < at; });
  return found != events_.end() && found->number == number ? &*found : nullptr;
}

const TimelineEvent* Timeline::first_cause() const {
  return first_cause_number_ < 0 ? nullptr : Find(static_cast<uint64_t>(first_cause_number_));
}

}  // namespace millrace::dashboard
