// File: testing/chaos/round.h
//
// One cluster under the faults of a plan, and what must hold of it.
//
// Defines: Outcome, RunRound().

#ifndef TESTING_CHAOS_ROUND_H_
#define TESTING_CHAOS_ROUND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "testing/chaos/injector.h"
#include "testing/chaos/plan.h"

namespace millrace::chaos {

struct Outcome {
  std::vector<std::string> violations;  // empty: all held
  std::vector<std::string> events;      // what happened when: faults, restarts, calls; by time
  std::vector<InjectedFault> faults;
  int64_t rows = 0;  // that programs have used
  int64_t rows_refed = 0;
  // That were used once more and counted by nobody: their feeder was killed before it told of them.
  int64_t rows_untold = 0;
  int64_t results = 0;  // of inference
  int restarts = 0;
  std::vector<std::string> usage;  // of what lived for five minutes
  std::string unavailable;         // why this machine cannot run it; nothing was tried then
  std::string cause;               // first line of the cluster's error; empty: it ended well
};

// Blocks for about as long as the plan's faults take.
[[nodiscard]] Outcome RunRound(const Plan& plan);

// Of a round in which something did not hold: what, what happened, and how to run it again.
[[nodiscard]] std::string Report(const Plan& plan, const Outcome& outcome);

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_ROUND_H_
