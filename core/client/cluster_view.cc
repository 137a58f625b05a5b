#include "core/client/cluster_view.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::Status ClusterView::Reserve(int executor_id) {
  if (executor_id < 0 || executor_id >= kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("an update names executor ", executor_id, ", outside of 0..", kMaxSlots - 1));
  }
  const size_t size = static_cast<size_t>(executor_id) + 1;
  for (size_t i = slots_.size(); i < size; ++i) {
    slots_.emplace_back().set_executor_id(static_cast<int>(i));
    nodes_.emplace_back().set_executor_id(static_cast<int>(i));
  }
  return absl::OkStatus();
}

absl::Status CheckFollows(const v1::WatchUpdate& update, uint64_t seq,
                          absl::string_view incarnation) {
  if (update.snapshot() || (seq != 0 && update.incarnation() == incarnation)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("an update follows on what is not there");
}

absl::Status ClusterView::Apply(const v1::WatchUpdate& update) {
  MILLRACE_RETURN_IF_ERROR(CheckFollows(update, seq_, incarnation_));
  if (update.snapshot()) {
    ClusterView fresh;
    fresh.dropped_metrics_ = dropped_metrics_;
    fresh.dropped_events_ = dropped_events_;
    fresh.dropped_log_lines_ = dropped_log_lines_;
    fresh.incarnation_ = update.incarnation();
    *this = std::move(fresh);
  } else if (update.seq() < seq_) {
    return absl::OkStatus();
  }
  for (const v1::SlotStatus& slot : update.slots()) {
    MILLRACE_RETURN_IF_ERROR(Reserve(slot.executor_id()));
    slots_[slot.executor_id()] = slot;
  }
  for (const v1::WatchUpdate::Node& node : update.nodes()) {
    MILLRACE_RETURN_IF_ERROR(Reserve(node.executor_id()));
    nodes_[node.executor_id()] = node;
  }
  for (const v1::SpecUpdate& change : update.membership()) {
    MILLRACE_RETURN_IF_ERROR(ApplySpecUpdate(change, &spec_epoch_, &spec_));
  }
  if (update.has_cluster()) cluster_ = update.cluster();
  for (const v1::FeedInfo& feed : update.feeds()) feeds_[feed.feed_id()] = feed;
  for (const std::string& feed_id : update.removed_feeds()) feeds_.erase(feed_id);
  for (const v1::Event& event : update.events()) {
    // An event that is there already comes again only by a mistake of the sender.
    if (!events_.empty() && event.number() <= events_.back().number()) continue;
    events_.push_back(event);
  }
  while (events_.size() > kMaxEvents) events_.pop_front();
  dropped_metrics_ += update.dropped_metrics();
  dropped_events_ += update.dropped_events();
  dropped_log_lines_ += update.dropped_log_lines();
  seq_ = update.seq();
  time_ = TimeFromProto(update.time());
  return absl::OkStatus();
}

const v1::SlotStatus* ClusterView::FindSlot(absl::string_view node) const {
  int id = 0;
  if (absl::SimpleAtoi(node, &id)) {
    return id >= 0 && static_cast<size_t>(id) < slots_.size() ? &slots_[id] : nullptr;
  }
  for (const v1::SlotStatus& slot : slots_) {
    if (NodeName(slot) == node) return &slot;
  }
  return nullptr;
}

std::string NodeName(const v1::SlotStatus& slot) {
  return absl::StrCat(slot.job_name(), ":", slot.task_index());
}

absl::string_view SlotStateText(v1::SlotState state) {
  switch (state) {
    case v1::SLOT_STATE_REQUESTED:
      return "requested";
    case v1::SLOT_STATE_STARTED:
      return "started";
    case v1::SLOT_STATE_CONNECTED:
      return "connected";
    case v1::SLOT_STATE_REGISTERED:
      return "registered";
    case v1::SLOT_STATE_READY:
      return "ready";
    case v1::SLOT_STATE_RUNNING:
      return "running";
    case v1::SLOT_STATE_DRAINING:
      return "draining";
    case v1::SLOT_STATE_FINISHED:
      return "finished";
    case v1::SLOT_STATE_FAILED:
      return "failed";
    case v1::SLOT_STATE_LOST:
      return "lost";
    default:
      return "unknown";
  }
}

absl::string_view PhaseText(v1::ClusterInfo::Phase phase) {
  switch (phase) {
    case v1::ClusterInfo::PHASE_RESERVING:
      return "reserving";
    case v1::ClusterInfo::PHASE_RUNNING:
      return "running";
    case v1::ClusterInfo::PHASE_STOPPING:
      return "stopping";
    case v1::ClusterInfo::PHASE_ENDED:
      return "ended";
    case v1::ClusterInfo::PHASE_FAILED:
      return "failed";
    default:
      return "unknown";
  }
}

absl::string_view LogSourceText(v1::LogLines::Source source) {
  switch (source) {
    case v1::LogLines::SOURCE_STDOUT:
      return "stdout";
    case v1::LogLines::SOURCE_STDERR:
      return "stderr";
    default:
      return "agent";
  }
}

}  // namespace millrace
