// File: feed/receiver/equal_steps.h
//
// What a node knows of a queue that all ranks read in equally many batches (docs/feed_protocol.md,
// section 11): which Train call it is, how many batches the program may be given of it, and how
// many rows there are for them.
//
// Defines: ReceiverGrant, ReceiverRows, EqualSteps.
//
//   EqualSteps steps("worker:0", /*batch_rows=*/64, /*pad=*/false);
//   steps.Arrived("feed-7", 640);
//   steps.Grant({.queue = "input", .feed_id = "feed-7", .generation = 1, .steps = 10});
//   if (steps.left() > 0) steps.Take(/*repeated=*/0);
//   std::optional<ReceiverRows> rows = steps.Report(now, /*complete=*/false);    // to be told
#ifndef FEED_RECEIVER_EQUAL_STEPS_H_
#define FEED_RECEIVER_EQUAL_STEPS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "millrace/record_batch.h"

namespace millrace {

// What the coordinator grants (EqualGrant of core/proto/coordinator.proto).
struct ReceiverGrant {
  std::string queue;
  std::string feed_id;  // of the call
  uint64_t generation = 0;
  int64_t steps = 0;
  bool last = false;
  uint64_t question = 0;
  absl::Status error;
  bool fatal = false;
};

// What it is told (EqualRows).
struct ReceiverRows {
  std::string queue;
  std::string feed_id;
  uint64_t generation = 0;
  uint64_t answer = 0;
  int64_t rows = 0;
  int64_t dropped = 0;
  int64_t repeated = 0;
  bool can_repeat = false;
  friend bool operator==(const ReceiverRows&, const ReceiverRows&) = default;
};

// Thread safety: TakeStep() is for the reading thread, at any time; everything else under the lock
// of the ReceiverCore. Blocking: never.
class EqualSteps {
 public:
  EqualSteps(int64_t batch_rows, bool pad) : batch_rows_(batch_rows), pad_(pad) {}
  EqualSteps(const EqualSteps&) = delete;
  EqualSteps& operator=(const EqualSteps&) = delete;

  [[nodiscard]] int64_t batch_rows() const { return batch_rows_; }
  [[nodiscard]] bool pad() const { return pad_; }

  // The next batch may be given out, and `hand_out` does so; false if one of them is not so.
  bool TakeStep(absl::FunctionRef<bool()> hand_out) ABSL_LOCKS_EXCLUDED(mu_);

  // A grant of the next call waits for the steps that are left of this one, unless a rank has died.
  void Grant(const ReceiverGrant& grant);
  // The next call begins if its grant has waited, and no steps are left.
  void BeginNextCall();
  // The call has failed at its feeder.
  void Abort(absl::string_view call, const absl::Status& status);
  // What NextBatch has to return, once; and again as long as the call cannot go on.
  [[nodiscard]] bool failed() const { return !error_.ok() && !left_reading_; }
  [[nodiscard]] absl::Status TakeError();
  // It has not returned it yet, or has batches to give: the feed does not end before. Rows that are
  // repeated are in no session any more.
  [[nodiscard]] bool owes() const {
    return !left_reading_ && (error_.ok() ? left() > 0 : !error_taken_);
  }
  // The program reads no more: no error is of interest to it.
  void LeaveReading() { left_reading_ = true; }

  // The call whose batches are given out; empty before the first grant.
  [[nodiscard]] const std::string& call() const { return call_; }
  // Batches that may be given out now.
  [[nodiscard]] int64_t left() const {
    MutexLock lock(&mu_);
    return left_;
  }
  // There will be no more of them.
  [[nodiscard]] bool over() const { return last_ && left() == 0; }
  // A batch that may be given out, and has too few rows, is to be filled with others.
  [[nodiscard]] bool fills() const { return pad_ && answered_; }

  // A batch is given out; the last `repeated` rows of it are there once more.
  void Take(int64_t repeated);
  // Batches that may be given out now will not be. Returns how many there were.
  int64_t DropSteps();
  // Rows of the call that are in no batch will not be. More of them may come.
  void DropRest();

  // Rows of this call have come; or (negative) are gone again without having been given out:
  // what was answered does not hold.
  void Arrived(absl::string_view call, int64_t rows);
  // A session of this call has come: the coordinator is to know that there is such a call. One of
  // the call that is under way has more rows, be it those of a lost connection once more: what was
  // answered does not hold, and nothing is filled before they are here.
  void Begun(absl::string_view call);

  // What is to be told, if anything is by now: at once what others wait for, and what changes
  // little a moment later. `complete`: whether all sessions of the call have all their rows here.
  [[nodiscard]] std::optional<ReceiverRows> Report(absl::Duration now,
                                                   absl::FunctionRef<bool()> complete);
  // When to ask again though nothing has come.
  [[nodiscard]] absl::Duration due() const { return due_; }

  // With what batches are filled: rows of the call that the program has been given, in memory that
  // it was not given.
  std::vector<RecordBatch> repeat;

 private:
  void SetError(const absl::Status& error);
  // Rows of this generation that are in batches.
  [[nodiscard]] int64_t InBatches() const ABSL_LOCKS_EXCLUDED(mu_);
  [[nodiscard]] int64_t InBatchesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginCall(absl::string_view feed_id);
  [[nodiscard]] int64_t Rows() const;
  // Rows that were repeated, and so many others that will be dropped for them, although there are
  // enough: batches were filled before they had come.
  [[nodiscard]] int64_t RepeatedTooEarly() const;
  void BeginGeneration(const ReceiverGrant& grant);

  const int64_t batch_rows_;
  const bool pad_;

  mutable Mutex mu_;                       // taken after the core's
  int64_t left_ ABSL_GUARDED_BY(mu_) = 0;  // of granted_

  std::string call_;
  uint64_t generation_ = 0;
  int64_t granted_ = 0;
  bool last_ = false;
  std::optional<ReceiverGrant> next_;  // of the next call; left_ is not 0, or was not
  uint64_t question_ = 0;
  bool answered_ = false;  // question_, in this generation, and no session has come since
  absl::Status error_;
  bool error_taken_ = false;  // error_, at least once
  bool fatal_ = false;        // error_ stays
  bool aborted_ = false;      // the call
  bool left_reading_ = false;
  int64_t before_ = 0;  // rows of the call that were in batches, or dropped, before this generation
  int64_t dropped_ = 0;
  int64_t repeated_ = 0;
  int64_t dropped_before_ = 0;
  int64_t repeated_before_ = 0;
  std::map<std::string, int64_t, std::less<>> arrived_;  // rows, by call
  std::set<std::string, std::less<>> begun_;             // calls that are not granted yet
  std::set<std::string, std::less<>> untold_;  // those of them that the coordinator does not know
  std::optional<ReceiverRows> told_;           // of this call and generation
  absl::Duration told_at_{};
  absl::Duration due_ = absl::InfiniteDuration();
};

}  // namespace millrace

#endif  // FEED_RECEIVER_EQUAL_STEPS_H_
