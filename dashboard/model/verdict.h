// File: dashboard/model/verdict.h
//
// Three sentences that answer what people open a dashboard for: why has my cluster not started, why
// are my GPUs idle, which node broke it first.
//
// Defines: Mood, VerdictSentence, Verdict, MakeVerdict(), FormatVerdict().
//
//   const Verdict& verdict = model.verdict();
//   Draw(verdict.start.text, verdict.start.mood);        // "Running. All 8 slots ready ..."
//   if (clicked) commands.Go(verdict.start.jump);
//
// Thread safety: values and pure functions.

#ifndef DASHBOARD_MODEL_VERDICT_H_
#define DASHBOARD_MODEL_VERDICT_H_

#include <string>

#include "dashboard/model/selection.h"

namespace millrace::dashboard {

class DashboardModel;

enum class Mood {
  kGood,     // as it should be
  kNeutral,  // nothing to say yet, or not known
  kBusy,     // on its way
  kWarning,  // slower than it could be, or healed
  kBad,      // broken
};
// "good", "neutral", "busy", "warning", "bad".
[[nodiscard]] absl::string_view MoodName(Mood mood);

struct VerdictSentence {
  Mood mood = Mood::kNeutral;
  std::string text;      // one or two short sentences, complete in themselves
  std::string evidence;  // what it was concluded from, for a tooltip; may be empty
  Jump jump;
};

struct Verdict {
  VerdictSentence start;    // Q1
  VerdictSentence gpus;     // Q2
  VerdictSentence failure;  // Q3
};

// Of what the model knows now: the last half minute or so counts for GPUs and feed.
[[nodiscard]] Verdict MakeVerdict(const DashboardModel& model);

// Three lines of text, for terminals and tests.
[[nodiscard]] std::string FormatVerdict(const Verdict& verdict);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_VERDICT_H_
