#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "testing/schedules/feed_world.h"
#include "testing/schedules/run_seed.h"

namespace millrace {

absl::string_view SeedWorld() { return "feed"; }

SeedResult RunSeed(uint64_t seed) {
  const FeedPlan plan = MakeFeedPlan(seed);
  FeedOutcome outcome = RunFeed(plan);
  return {.plan = plan.ToString(),
          .came_of_it = absl::StrCat(absl::FormatDuration(outcome.took), "; ", outcome.rows_again,
                                     " rows came again of ", outcome.rows_refed),
          .schedule = outcome.schedule,
          .broken = std::move(outcome.broken)};
}

}  // namespace millrace
