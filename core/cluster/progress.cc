#include "core/cluster/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/process/process.h"

namespace millrace {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr absl::string_view kEraseLine = "\r\x1b[K";

// "1.23 M", "45.6 k", "789".
std::string Count(double value) {
  if (value >= 1e6) return absl::StrFormat("%.2f M", value / 1e6);
  if (value >= 1e3) return absl::StrFormat("%.1f k", value / 1e3);
  return absl::StrFormat("%.0f", value);
}

}  // namespace

Progress::Progress(bool enabled, int num_slots, std::function<void(absl::string_view)> show,
                   Clock* clock)
    : enabled_(enabled),
      num_slots_(num_slots),
      show_(std::move(show)),
      clock_(clock),
      start_(clock->SteadyNow()) {}

bool Progress::StderrIsTerminal() {
  return ::isatty(STDERR_FILENO) == 1 && EnvOr("TERM", "") != "dumb";
}

void Progress::ShowOnStderr(absl::string_view line) {
  const std::string text = absl::StrCat(kEraseLine, line);
  // A terminal that cannot be written to is no reason to stop.
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void Progress::OnSlot(const SlotStatus& slot) {
  if (!enabled_) return;
  MutexLock lock(&mu_);
  SlotState& known = slots_[slot.executor_id];
  if (known == slot.state) return;
  known = slot.state;
  if (!feeding_) Show(/*now=*/true);
}

void Progress::FeedStarted() {
  if (!enabled_) return;
  MutexLock lock(&mu_);
  feeding_ = true;
  feed_start_ = clock_->SteadyNow();
  rows_ = partitions_done_ = partitions_ = 0;
}

void Progress::OnFeed(int64_t rows, int64_t partitions_done, int64_t partitions) {
  if (!enabled_) return;
  MutexLock lock(&mu_);
  rows_ = rows;
  partitions_done_ = partitions_done;
  partitions_ = partitions;
  Show(/*now=*/partitions_done == partitions);
}

void Progress::Clear() {
  if (!enabled_) return;
  MutexLock lock(&mu_);
  if (!std::exchange(shown_, false)) return;
  show_("");
  last_shown_ = -absl::InfiniteDuration();
}

void Progress::Show(bool now) {
  const absl::Duration time = clock_->SteadyNow();
  if (!now && time - last_shown_ < kInterval) return;
  last_shown_ = time;
  shown_ = true;
  show_(feeding_ ? FeedText() : LadderText());
}

std::string Progress::LadderText() const {
  std::array<int, kNumSlotStates> counts{};
  for (const auto& [executor_id, state] : slots_) ++counts[static_cast<int>(state)];
  counts[0] += num_slots_ - static_cast<int>(slots_.size());
  std::string text =
      absl::StrFormat("%.1f s  %d node%s:", absl::ToDoubleSeconds(clock_->SteadyNow() - start_),
                      num_slots_, num_slots_ == 1 ? "" : "s");
  for (int state = 0; state < kNumSlotStates; ++state) {
    if (counts[state] == 0) continue;
    absl::StrAppend(&text, " ", counts[state], " ", SlotStateName(static_cast<SlotState>(state)));
  }
  return text;
}

std::string Progress::FeedText() const {
  const double seconds = std::max(absl::ToDoubleSeconds(clock_->SteadyNow() - feed_start_), 1e-3);
  return absl::StrFormat(
      "%.1f s  %s rows, %s rows/s, %d of %d partitions", seconds, Count(static_cast<double>(rows_)),
      Count(static_cast<double>(rows_) / seconds), partitions_done_, partitions_);
}

}  // namespace millrace
