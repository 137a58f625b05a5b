// The part of ReceiverCore that the node's program calls, through its DataFeeds, and the node's
// control channel.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/receiver/receiver_core.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using Stage = ReceiveSession::Stage;

// Nothing in this file depends on it being short: a waiting NextBatch is woken.
constexpr absl::Duration kRecheck = absl::Seconds(10);

size_t Index(FeedMode mode) { return static_cast<size_t>(mode); }

}  // namespace

// ---------------------------------------------------------------------------------- The program

absl::Status ReceiverCore::NoQueue(absl::string_view queue) const {
  return absl::NotFoundError(absl::StrCat("no queue \"", queue, "\" at ", options_.node_name,
                                          "; there are: ", absl::StrJoin(options_.queues, ", ")));
}

absl::StatusOr<size_t> ReceiverCore::OpenReader(absl::string_view queue, FeedMode mode) {
  {
    MutexLock lock(&mu_);
    MILLRACE_RETURN_IF_ERROR(broken_);
    if (finished_) return absl::UnavailableError("the node has finished");
    Slot* slot = FindSlot(queue);
    if (slot == nullptr) return NoQueue(queue);
    const FeedMode other = mode == FeedMode::kTrain ? FeedMode::kInference : FeedMode::kTrain;
    if (slot->queue.mode() == other && slot->readers[Index(other)] > 0 &&
        !slot->queue.Stopped(other)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the queue \"", queue, "\" is being read for ", FeedModeName(other),
                       ": destroy that DataFeed, or read it until ShouldStop()"));
    }
    ++slot->readers[Index(mode)];
    slot->queue.SetMode(mode);
    Refill(slot);
  }
  wake_();
  const auto it = std::find(options_.queues.begin(), options_.queues.end(), queue);
  return static_cast<size_t>(it - options_.queues.begin());
}

void ReceiverCore::CloseReader(size_t queue, FeedMode mode) {
  MutexLock lock(&mu_);
  --slots_[queue]->readers[Index(mode)];
}

absl::Status ReceiverCore::SetEqual(absl::string_view queue, int64_t batch_rows, bool pad) {
  MutexLock lock(&mu_);
  Slot* slot = FindSlot(queue);
  if (slot == nullptr) return NoQueue(queue);
  return slot->queue.SetEqual(batch_rows, pad);
}

std::shared_ptr<EqualSteps> ReceiverCore::equal(absl::string_view queue) {
  MutexLock lock(&mu_);
  Slot* slot = FindSlot(queue);
  return slot == nullptr ? nullptr : slot->queue.equal();
}

QueueReader* ReceiverCore::reader(size_t queue, FeedMode mode) {
  return &slots_[queue]->reader[Index(mode)];
}

void ReceiverCore::WaitForOutcome(Slot* slot, uint64_t ask) {
  const auto waits = [&] {
    mu_.AssertHeld();
    return slot->ask == ask && !slot->outcome.has_value() && broken_.ok();
  };
  // A lone thread fetches its rows itself. Of several none does: each would go on at its own pace,
  // and the others' rows would wait for that.
  const bool alone = ++waiting_ == 1;
  if (alone && serve_ != nullptr && waits()) {
    mu_.Unlock();
    serve_([&] {
      MutexLock lock(&mu_);
      if (waits()) return AfterTurn::kGoOn;
      return waiting_ > 1 ? AfterTurn::kYield : AfterTurn::kLeave;
    });
    mu_.Lock();
  }
  while (waits()) slot->changed.WaitWithTimeout(&mu_, kRecheck);
  --waiting_;
}

absl::StatusOr<std::optional<Delivery>> ReceiverCore::Next(size_t queue, FeedMode mode,
                                                           int64_t rows,
                                                           std::optional<TakenRows> current) {
  Slot& slot = *slots_[queue];
  // Holds what Ask() lets go, so that large memory is freed without the lock.
  std::optional<TakenRows> keep = current;
  bool wake = false;
  std::optional<Delivery> delivery;
  {
    MutexLock lock(&mu_);
    MILLRACE_RETURN_IF_ERROR(broken_);
    if (slot.queue.mode() != mode) {
      if (finished_ || slot.queue.Stopped(mode)) return std::optional<Delivery>();
      return absl::FailedPreconditionError(
          absl::StrCat("the queue \"", slot.queue.name(), "\" is read in the other mode now"));
    }
    const uint64_t ask = ++slot.ask;
    slot.reading.Set(true, options_.clock->SteadyNow());
    slot.outcome.reset();
    slot.queue.Ask(rows, std::move(current));
    Refill(&slot);
    if (slot.outcome == ReceiveQueue::State::kError) return slot.queue.equal()->TakeError();
    if (slot.outcome == ReceiveQueue::State::kReady) {
      delivery = slot.queue.Take();
      wake = !budget_.Grants(QueuesForBudget(options_.clock->SteadyNow())).empty();
    }
    if (!slot.outcome.has_value()) {
      mu_.Unlock();
      wake_();  // the feeders shall know what is used before this thread sleeps
      mu_.Lock();
      slot.waiting.Set(true, options_.clock->SteadyNow());
      WaitForOutcome(&slot, ask);
      slot.waiting.Set(false, options_.clock->SteadyNow());
      MILLRACE_RETURN_IF_ERROR(broken_);
      if (slot.ask == ask && slot.outcome == ReceiveQueue::State::kError) {
        return slot.queue.equal()->TakeError();
      }
      if (slot.ask == ask && slot.outcome == ReceiveQueue::State::kReady) {
        delivery = slot.queue.Take();
      }
    }
    if (!delivery.has_value()) slot.reading.Set(false, options_.clock->SteadyNow());
  }
  if (wake) wake_();
  return delivery;
}

bool ReceiverCore::Stopped(size_t queue, FeedMode mode) {
  Slot& slot = *slots_[queue];
  if (!slot.may_stop.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  if (!broken_.ok()) return false;  // NextBatch says why
  return finished_ || slot.queue.Stopped(mode);
}

FeedPosition ReceiverCore::Position(size_t queue) {
  MutexLock lock(&mu_);
  return slots_[queue]->queue.Position();
}

absl::Status ReceiverCore::Resume(size_t queue, const FeedPosition& position) {
  MutexLock lock(&mu_);
  return slots_[queue]->queue.Resume(position);
}

absl::StatusOr<ReceiveQueue::ResultPlace> ReceiverCore::PlaceResults(size_t queue, int64_t rows) {
  absl::StatusOr<ReceiveQueue::ResultPlace> place;
  {
    MutexLock lock(&mu_);
    MILLRACE_RETURN_IF_ERROR(broken_);
    place = slots_[queue]->queue.PlaceResults(rows);
    if (place.ok() && place->session != nullptr && place->session->shared.results) {
      place->segment = place->session->shared.segment;
    }
    Refill(slots_[queue].get());
  }
  if (!place.ok()) wake_();
  return place;
}

void ReceiverCore::AddResults(size_t queue, const SessionPtr& session, int64_t rows,
                              std::vector<OutgoingFrame> frames) {
  {
    MutexLock lock(&mu_);
    if (session->stage == Stage::kEnded) {
      session->result_row += rows;  // counted as answered, though the session is over
      return;
    }
    for (OutgoingFrame& frame : frames) {
      if (frame.header.type == FrameType::kResult) {
        frame.body_bytes = static_cast<int64_t>(frame.metadata.size());
        for (const BodyPart& part : frame.body) {
          frame.body_bytes += static_cast<int64_t>(part.size);
        }
      }
      session->result_unsent_bytes += frame.body_bytes;
      session->results.push_back(std::move(frame));
    }
    slots_[queue]->queue.ResultsAdded(session, rows);
    Refill(slots_[queue].get());
  }
  wake_();
  MutexLock lock(&mu_);
  ++sending_;
  while (session->stage != Stage::kEnded && !session->ResultsFit() && broken_.ok()) {
    collected_.WaitWithTimeout(&mu_, kRecheck);
  }
  --sending_;
}

absl::Status ReceiverCore::Terminate(size_t queue, FeedMode mode) {
  absl::Status result;
  {
    MutexLock lock(&mu_);
    ReceiveQueue& of = slots_[queue]->queue;
    result = of.Terminate(
        mode, absl::StrCat(options_.node_name, " called Terminate(\"", of.name(), "\")"));
    slots_[queue]->reading.Set(false, options_.clock->SteadyNow());
    slots_[queue]->may_stop = true;
    Refill(slots_[queue].get());
  }
  wake_();
  return result;
}

// ---------------------------------------------------------------------------------- The control

void ReceiverCore::FeedEnd(absl::string_view feed_id, bool aborted) {
  {
    MutexLock lock(&mu_);
    for (const auto& slot : slots_) slot->queue.FeedEnd(feed_id, aborted);
    RefillAll();
  }
  wake_();
}

void ReceiverCore::Grant(const ReceiverGrant& grant) {
  {
    MutexLock lock(&mu_);
    Slot* slot = FindSlot(grant.queue);
    if (slot == nullptr || slot->queue.equal() == nullptr) return;
    slot->queue.equal()->Grant(grant);
    Refill(slot);
  }
  wake_();
}

bool ReceiverCore::EndFeed(absl::string_view queue) {
  {
    MutexLock lock(&mu_);
    Slot* slot = FindSlot(queue);
    if (slot == nullptr) return false;
    const FeedMode mode = slot->queue.mode().value_or(FeedMode::kTrain);
    slot->queue.EndFeed(mode, absl::StrCat("the feed of \"", queue, "\" has ended"));
    slot->may_stop = true;
    Refill(slot);
  }
  wake_();
  return true;
}

void ReceiverCore::EndAllFeeds() {
  {
    MutexLock lock(&mu_);
    for (const auto& slot : slots_) {
      slot->queue.EndFeed(FeedMode::kTrain, "the cluster is shutting down");
      slot->queue.EndFeed(FeedMode::kInference, "the cluster is shutting down");
      slot->may_stop = true;
    }
    RefillAll();
  }
  wake_();
}

absl::Status ReceiverCore::Finish(const absl::Status& program_status) {
  absl::Status unanswered;
  {
    MutexLock lock(&mu_);
    if (std::exchange(finished_, true)) return unanswered;
    finished_well_ = program_status.ok();
    for (const auto& slot : slots_) {
      unanswered.Update(slot->queue.Finish(program_status));
      slot->reading.Set(false, options_.clock->SteadyNow());
      slot->may_stop = true;
    }
    RefillAll();
  }
  wake_();
  return unanswered;
}

FeedReceiverStats ReceiverCore::stats() {
  MutexLock lock(&mu_);
  FeedReceiverStats stats;
  const absl::Duration now = options_.clock->SteadyNow();
  for (const auto& slot : slots_) {
    FeedQueueStats& queue = stats.queues.emplace_back(slot->queue.stats());
    queue.wait_time = slot->waiting.Total(now);
    queue.compute_time = std::max(absl::ZeroDuration(), slot->reading.Total(now) - queue.wait_time);
    queue.full_time = slot->full.Total(now);
    queue.queued_time = slot->queued.Total(now);
  }
  stats.budget_bytes = options_.budget_bytes;
  stats.committed_bytes = Committed();
  stats.peak_committed_bytes = peak_committed_;
  stats.poisoned_principals = poisoned_;
  stats.refused_sessions = refused_;
  stats.why_not_shared = why_not_shared_;
  stats.dropped_frames = dropped_frames_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace millrace
