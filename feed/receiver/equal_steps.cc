#include "feed/receiver/equal_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// What is not urgent is told so much later, with what has come by then.
constexpr absl::Duration kTellInterval = absl::Milliseconds(5);

}  // namespace

bool EqualSteps::TakeStep(absl::FunctionRef<bool()> hand_out) {
  MutexLock lock(&mu_);
  if (left_ == 0 || !hand_out()) return false;
  --left_;
  return true;
}

void EqualSteps::Take(int64_t repeated) {
  MutexLock lock(&mu_);
  --left_;
  repeated_ += repeated;
}

int64_t EqualSteps::InBatches() const {
  MutexLock lock(&mu_);
  return InBatchesLocked();
}

int64_t EqualSteps::InBatchesLocked() const { return (granted_ - left_) * batch_rows_ - repeated_; }

int64_t EqualSteps::Rows() const {
  const auto arrived = arrived_.find(call_);
  return (arrived == arrived_.end() ? 0 : arrived->second) - before_;
}

int64_t EqualSteps::RepeatedTooEarly() const {
  if (!last_) return 0;
  const int64_t missing = std::max<int64_t>(0, granted_ * batch_rows_ - Rows());
  return std::max<int64_t>(0, repeated_ - missing);
}

void EqualSteps::Grant(const ReceiverGrant& grant) {
  if (grant.feed_id != call_) {
    // A call is over for its feeder when all rows are used: steps that repeat some may be left.
    const bool unfinished = last_ && !aborted_ && error_.ok() && owes();
    if (unfinished && grant.error.ok()) {
      next_ = grant;
      return;
    }
    BeginCall(grant.feed_id);
    if (unfinished) SetError(grant.error);  // not all ranks will take these steps
  }
  if (aborted_) return;
  if (grant.generation != generation_) BeginGeneration(grant);
  const int64_t more = grant.steps - granted_;
  if (more > 0) {
    MutexLock lock(&mu_);
    granted_ += more;
    left_ += more;
  }
  last_ = grant.last;
  if (grant.question != question_) answered_ = false;
  question_ = grant.question;
  if (grant.fatal && !fatal_) {
    SetError(grant.error);
    fatal_ = true;
  }
}

void EqualSteps::BeginNextCall() {
  if (next_.has_value() && left() == 0) Grant(*std::exchange(next_, std::nullopt));
}

void EqualSteps::BeginCall(absl::string_view feed_id) {
  // Rows of the calls before it are of no interest any more.
  for (auto it = arrived_.begin(); it != arrived_.end();) {
    it = it->first == call_ ? arrived_.erase(it) : std::next(it);
  }
  call_ = std::string(feed_id);
  begun_.erase(call_);
  untold_.erase(call_);
  next_.reset();
  before_ = dropped_before_ = repeated_before_ = dropped_ = repeated_ = 0;
  {
    MutexLock lock(&mu_);
    left_ = granted_ = 0;
  }
  generation_ = 0;
  question_ = 0;
  repeat.clear();
  fatal_ = aborted_ = false;
  // An error of the call before stays until NextBatch has returned it.
  if (error_taken_) error_ = absl::OkStatus();
}

void EqualSteps::BeginGeneration(const ReceiverGrant& grant) {
  int64_t granted = 0;
  int64_t in_batches = 0;
  {
    MutexLock lock(&mu_);  // held for both: the program may be about to take a step
    in_batches = InBatchesLocked();
    granted = std::exchange(granted_, 0);
    left_ = 0;
  }
  // A rank that has been given nothing is in no step that another one may miss.
  if (granted > 0 && in_batches + repeated_ > 0 && !grant.error.ok()) SetError(grant.error);
  before_ += in_batches + dropped_;
  dropped_before_ += dropped_;
  repeated_before_ += repeated_;
  dropped_ = repeated_ = 0;
  generation_ = grant.generation;
  answered_ = false;
  told_.reset();
}

void EqualSteps::Abort(absl::string_view call, const absl::Status& status) {
  if (next_.has_value() && next_->feed_id == call) next_.reset();
  if (call != call_ || fatal_) return;
  const bool cut = DropSteps() > 0;
  aborted_ = true;
  if (granted_ > 0 && (cut || !last_)) SetError(status);
}

void EqualSteps::SetError(const absl::Status& error) {
  error_ = error;
  error_taken_ = false;
}

absl::Status EqualSteps::TakeError() {
  error_taken_ = true;
  return fatal_ ? error_ : std::exchange(error_, absl::OkStatus());
}

int64_t EqualSteps::DropSteps() {
  MutexLock lock(&mu_);
  const int64_t dropped = std::exchange(left_, 0);
  granted_ -= dropped;
  return dropped;
}

void EqualSteps::DropRest() { dropped_ = Rows() - InBatches(); }

void EqualSteps::Arrived(absl::string_view call, int64_t rows) {
  arrived_[std::string(call)] += rows;
  if (rows < 0 && call == call_) answered_ = false;
}

void EqualSteps::Begun(absl::string_view call) {
  if (call == call_) {
    answered_ = false;
  } else if (begun_.emplace(call).second) {
    untold_.emplace(call);
  }
}

std::optional<ReceiverRows> EqualSteps::Report(absl::Duration now,
                                               absl::FunctionRef<bool()> complete) {
  due_ = absl::InfiniteDuration();
  BeginNextCall();
  if (!untold_.empty()) {
    ReceiverRows begun;
    begun.feed_id = *untold_.begin();
    untold_.erase(untold_.begin());
    due_ = now;  // for the rest
    return begun;
  }
  if (call_.empty() || generation_ == 0) return std::nullopt;
  ReceiverRows rows = {.feed_id = call_,
                       .generation = generation_,
                       .rows = Rows(),
                       .dropped = dropped_before_ + RepeatedTooEarly(),
                       .repeated = repeated_before_ + RepeatedTooEarly()};
  const auto arrived = arrived_.find(call_);
  rows.can_repeat = !repeat.empty() || (arrived != arrived_.end() && arrived->second > 0);
  bool urgent = !told_.has_value();
  if (question_ != 0 && (answered_ || complete())) {
    rows.answer = question_;
    urgent = urgent || !answered_;
    answered_ = true;
  }
  if (!urgent && rows == *told_) return std::nullopt;
  const int64_t now_steps = rows.rows / batch_rows_;
  if (!urgent) {
    const int64_t told_steps = told_->rows / batch_rows_;
    if (now_steps <= told_steps) return std::nullopt;  // fewer come again, and were promised
    int64_t taken = 0;
    {
      MutexLock lock(&mu_);
      taken = granted_ - left_;
    }
    // Others wait for this rank only if all that it told is granted. As long as nobody is close to
    // that, more is told seldom.
    const bool awaited = granted_ >= told_steps && told_steps - taken <= (now_steps - taken) / 2;
    if (!awaited && now - told_at_ < kTellInterval) {
      due_ = told_at_ + kTellInterval;
      return std::nullopt;
    }
  }
  told_ = rows;
  told_at_ = now;
  return rows;
}

}  // namespace millrace
