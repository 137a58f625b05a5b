#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "testing/schedules/plane_world.h"
#include "testing/schedules/run_seed.h"

namespace millrace {

absl::string_view SeedWorld() { return "plane"; }

SeedResult RunSeed(uint64_t seed) {
  const PlanePlan plan = MakePlanePlan(seed);
  PlaneOutcome outcome = RunPlane(plan);
  return {.plan = plan.ToString(),
          .came_of_it = absl::StrCat(absl::FormatDuration(outcome.schedule.elapsed),
                                     "; running: ", outcome.running.ToString(),
                                     "; cause: ", outcome.cause.ToString()),
          .schedule = outcome.schedule,
          .broken = std::move(outcome.broken)};
}

}  // namespace millrace
