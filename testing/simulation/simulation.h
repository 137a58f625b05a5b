// File: testing/simulation/simulation.h
//
// Runs seeds, and says of one that fails what a person needs.
//
// Defines: Size, Simulate(), Shrink(), Report().

#ifndef TESTING_SIMULATION_SIMULATION_H_
#define TESTING_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "testing/simulation/plan.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

struct Size {
  int nodes = 50;
  absl::Duration length = absl::Minutes(10);
};

[[nodiscard]] Outcome Simulate(const Plan& plan, bool keep_trace = false);

// The plan with as few of its faults as break the same rule.
[[nodiscard]] Plan Shrink(Plan plan, const std::string& rule);

// Of a seed that fails: the rule, the shrunk faults, how to run it again, and the last `max_lines`
// of their trace.
[[nodiscard]] std::string Report(const Plan& plan, const Size& size, const Violation& violation,
                                 size_t max_lines = 120);

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_SIMULATION_H_
