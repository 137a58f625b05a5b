#include "testing/simulation/simulation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace::simulation {
namespace {

bool StillBreaks(const Plan& plan, const std::string& rule) {
  const Outcome outcome = Simulate(plan);
  return outcome.violation.has_value() && outcome.violation->rule == rule;
}

}  // namespace

Outcome Simulate(const Plan& plan, bool keep_trace) { return World(plan, keep_trace).Run(); }

Plan Shrink(Plan plan, const std::string& rule) {
  for (size_t size = plan.faults.size(); size > 0; size /= 2) {
    for (size_t first = 0; first < plan.faults.size();) {
      Plan without = plan;
      const auto begin = without.faults.begin() + static_cast<std::ptrdiff_t>(first);
      without.faults.erase(begin, begin + static_cast<std::ptrdiff_t>(
                                              std::min(size, without.faults.size() - first)));
      if (StillBreaks(without, rule)) {
        plan = std::move(without);
      } else {
        first += size;
      }
    }
  }
  return plan;
}

std::string Report(const Plan& plan, const Size& size, const Violation& violation,
                   size_t max_lines) {
  const Plan shrunk = Shrink(plan, violation.rule);
  const Outcome outcome = Simulate(shrunk, /*keep_trace=*/true);
  std::string text = absl::StrCat(
      "broken: ", violation.rule, "\n  ", violation.text, "\nseed ", plan.seed, ": ",
      PlanText(shrunk), "(", plan.faults.size() - shrunk.faults.size(),
      " faults do not matter)\nagain: bazelw run -c opt //testing/simulation:simulate -- --seed=",
      plan.seed, " --runs=1 --nodes=", size.nodes,
      " --minutes=", absl::ToDoubleMinutes(size.length), " --trace\n");
  const size_t first = outcome.trace.size() - std::min(outcome.trace.size(), max_lines);
  if (first > 0) absl::StrAppend(&text, "... ", first, " lines\n");
  for (size_t i = first; i < outcome.trace.size(); ++i) {
    absl::StrAppend(&text, outcome.trace[i], "\n");
  }
  return text;
}

}  // namespace millrace::simulation
