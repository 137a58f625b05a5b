// What ReservationTable says to people.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/coordinator/state/reservation_table.h"

namespace millrace {
namespace {

constexpr int kMaxListedSlots = 20;

std::string Seconds(absl::Duration duration) {
  // "0 s" would say that nobody waited.
  const absl::Duration unit = absl::Milliseconds(duration < absl::Seconds(1) ? 1 : 100);
  return absl::StrCat(absl::ToDoubleSeconds(absl::Trunc(duration, unit)), " s");
}

}  // namespace

std::string ReservationTable::DescribeMissing(const Slot& slot) const {
  const absl::Duration since = clock_->Now() - slot.reached[static_cast<int>(slot.state)];
  const std::string ago = Seconds(std::max(since, absl::ZeroDuration()));
  std::string text = absl::StrCat(slot.role.ToString(), " (executor ", IdOf(slot), ") ",
                                  SlotStateName(slot.state));
  switch (slot.state) {
    case SlotState::kRequested:
      absl::StrAppend(&text, ", its agent never started",
                      slot.last_lines.empty() ? " (no free executor, pod or host for it?)" : "");
      break;
    case SlotState::kStarted:
      absl::StrAppend(
          &text, " ", ago, " ago, not connected",
          slot.last_lines.empty() ? ": can its host reach the coordinator's address?" : "");
      break;
    case SlotState::kConnected:
      absl::StrAppend(&text, " ", ago, " ago from host ", EscapeControls(slot.host),
                      ", not registered");
      break;
    case SlotState::kFailed:
    case SlotState::kLost:
      absl::StrAppend(&text, " ", ago, " ago (", EscapeControls(slot.error.message()),
                      "), no replacement came");
      break;
    case SlotState::kRegistered:
      absl::StrAppend(&text, " ", ago, " ago on host ", EscapeControls(slot.host),
                      ", not ready: is it fetching the program?");
      break;
    default:
      absl::StrAppend(&text, " ", ago, " ago on host ", EscapeControls(slot.host),
                      ", its program does not start");
  }
  if (slot.stream_id == 0 && slot.state >= SlotState::kConnected && !IsEnded(slot.state)) {
    absl::StrAppend(&text, " (its stream is broken)");
  }
  for (size_t i = 0; i < slot.last_lines.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? ": '" : " | '", slot.last_lines[i], "'");
  }
  return text;
}

absl::Status ReservationTable::ReservationTimeoutError(absl::Duration timeout) const {
  int missing = 0;
  std::string list;
  for (const Slot& slot : slots_) {
    // Before the first spec a registered slot has done its part: it waits for the others.
    const bool waits = epoch_ == 0 && slot.state == SlotState::kRegistered;
    if (slot.has_run || waits) continue;
    if (++missing <= kMaxListedSlots) {
      absl::StrAppend(&list, missing == 1 ? "" : "; ", DescribeMissing(slot));
    }
  }
  if (missing > kMaxListedSlots) {
    absl::StrAppend(&list, "; and ", missing - kMaxListedSlots, " more");
  }
  return absl::DeadlineExceededError(
      absl::StrCat(missing, " of ", size(), size() == 1 ? " slot" : " slots", " did not ",
                   epoch_ == 0 ? "arrive" : "start", " in ", Seconds(timeout), ": ", list));
}

}  // namespace millrace
