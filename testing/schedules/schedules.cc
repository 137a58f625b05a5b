// Runs what is linked with it (run_seed.h) under a ThreadScheduler, each time from a seed.
//
//   schedules [--seed=N] [--runs=N]
//
// Prints lines for each run that breaks a rule, and at the end what was run. Exit code 1 if a rule
// was broken.

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/random.h"
#include "testing/schedules/run_seed.h"

namespace millrace {
namespace {

int Main(int argc, char** argv) {
  uint64_t first = RandomU64() % 1'000'000'000;
  int64_t runs = 1000;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    const bool known = (absl::ConsumePrefix(&flag, "--seed=") && absl::SimpleAtoi(flag, &first)) ||
                       (absl::ConsumePrefix(&flag, "--runs=") && absl::SimpleAtoi(flag, &runs));
    if (!known) {
      std::fprintf(stderr, "%s: use --seed=N or --runs=N\n", argv[i]);
      return 2;
    }
  }
  const absl::Time began = absl::Now();
  int64_t steps = 0;
  int64_t switches = 0;
  int64_t broken = 0;
  uint64_t hash = 0;
  for (int64_t run = 0; run < runs; ++run) {
    const uint64_t seed = first + static_cast<uint64_t>(run);
    const SeedResult result = RunSeed(seed);
    steps += result.schedule.steps;
    switches += result.schedule.switches;
    hash = hash * 31 + result.schedule.hash;
    if (runs == 1 || !result.broken.empty()) {
      std::printf("seed %llu: %s\n  %d threads, %lld steps, %s\n",
                  static_cast<unsigned long long>(seed), result.plan.c_str(),
                  result.schedule.threads, static_cast<long long>(result.schedule.steps),
                  result.came_of_it.c_str());
    }
    for (const std::string& rule : result.broken) std::printf("  BROKEN: %s\n", rule.c_str());
    broken += result.broken.empty() ? 0 : 1;
  }
  std::printf(
      "seeds %llu to %llu: %lld runs, %lld steps, %lld switches in %s; %lld broke a rule; hash "
      "%016llx\n",
      static_cast<unsigned long long>(first),
      static_cast<unsigned long long>(first + static_cast<uint64_t>(runs) - 1),
      static_cast<long long>(runs), static_cast<long long>(steps), static_cast<long long>(switches),
      absl::FormatDuration(absl::Now() - began).c_str(), static_cast<long long>(broken),
      static_cast<unsigned long long>(hash));
  return broken == 0 ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
