#include "dashboard/model/timeline.h"

#include <algorithm>

#include "core/proto/time_proto.h"

namespace millrace::dashboard {
namespace {

bool IsFailure(const TimelineEvent& event) {
  return event.kind == "failure" && event.executor_id >= 0;
}

}  // namespace

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
  if (events_.size() <= kMaxEvents) return;
  const auto oldest = static_cast<int64_t>(events_.front().number) == first_cause_number_
                          ? events_.begin() + 1
                          : events_.begin();
  if (oldest->folded) --folded_;
  events_.erase(oldest);
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
