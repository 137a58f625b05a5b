// File: dashboard/model/warnings.h
//
// Conditions that deserve attention, with hysteresis: a warning comes after its condition has held
// for a while and goes after it has not.
//
// Defines: Warning, WarningBoard.
//
//   board.Begin(now);
//   if (age > absl::Seconds(3)) board.Raise("stale", Mood::kWarning, "...", jump);
//   board.End();
//   for (const Warning* warning : board.active()) Draw(*warning);
//
// Thread safety: not thread-safe; const methods may run concurrently.

#ifndef DASHBOARD_MODEL_WARNINGS_H_
#define DASHBOARD_MODEL_WARNINGS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dashboard/model/selection.h"
#include "dashboard/model/verdict.h"

namespace millrace::dashboard {

struct Warning {
  std::string id;  // of the condition: "starved/worker:1"
  Mood mood = Mood::kWarning;
  std::string text;
  Jump jump;
  absl::Time since;  // when the condition began
};

class WarningBoard {
 public:
  explicit WarningBoard(absl::Duration on_after = absl::Seconds(3),
                        absl::Duration off_after = absl::Seconds(5))
      : on_after_(on_after), off_after_(off_after) {}

  // One round: Begin(), Raise() for each condition that holds now, End().
  void Begin(absl::Time now);
  // `at_once`: does not wait for on_after.
  void Raise(absl::string_view id, Mood mood, absl::string_view text, const Jump& jump,
             bool at_once = false);
  void End();
  void Clear() { conditions_.clear(); }

  // Worst first, then oldest first. Valid until the next round.
  [[nodiscard]] std::vector<const Warning*> active() const;

 private:
  struct Condition {
    Warning warning;
    absl::Time last_raised;
    bool active = false;
  };
  absl::Duration on_after_;
  absl::Duration off_after_;
  absl::Time now_;
  std::map<std::string, Condition, std::less<>> conditions_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_WARNINGS_H_
