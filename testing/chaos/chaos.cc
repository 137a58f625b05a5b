// Real clusters under faults that seeds choose, for as long as one wants:
//
//   bazelw run //testing/chaos -- --minutes=30
//   bazelw run //testing/chaos -- --seed=17 --rounds=1 --trace
//   bazelw run //testing/chaos -- --place=spark --soak --length=7200 --rounds=1

#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "testing/chaos/growth.h"
#include "testing/chaos/machine.h"
#include "testing/chaos/plan.h"
#include "testing/chaos/round.h"

namespace millrace::chaos {
namespace {

// Before so many rounds the driver is not judged by what it uses.
constexpr size_t kDriverRounds = 20;

struct Flags {
  uint64_t seed = RandomU64() >> 16;
  int64_t rounds = std::numeric_limits<int64_t>::max();
  double minutes = std::numeric_limits<double>::infinity();
  double length_seconds = 15;
  std::string place = "both";
  bool soak = false;
  bool trace = false;
  bool go_on = false;
};

Place PlaceOf(const Flags& flags, uint64_t seed) {
  for (const Place place : {Place::kLocal, Place::kListening, Place::kSpark}) {
    if (flags.place == PlaceName(place)) return place;
  }
  return seed % 2 == 0 ? Place::kLocal : Place::kListening;
}

int Run(const Flags& flags) {
  SetLogLevel(LogLevel::kError);
  const absl::Duration begin = RealClock()->SteadyNow();
  std::map<std::string, int> kinds;
  Outcome sum;
  int64_t rounds = 0;
  int64_t failed = 0;
  int64_t violated = 0;
  Growth growth;
  const auto elapsed = [begin] { return RealClock()->SteadyNow() - begin; };
  for (; rounds < flags.rounds && elapsed() < absl::Minutes(flags.minutes); ++rounds) {
    const uint64_t seed = flags.seed + static_cast<uint64_t>(rounds);
    Plan plan = MakePlan(seed, PlaceOf(flags, seed), absl::Seconds(flags.length_seconds));
    if (flags.soak) SpareLongLived(plan);
    const Outcome outcome = RunRound(plan);
    if (!outcome.unavailable.empty()) {
      std::cout << "not on this machine: " << outcome.unavailable << "\n";
      return 1;
    }
    if (!outcome.violations.empty() || flags.trace) std::cout << Report(plan, outcome);
    for (const std::string& line : outcome.usage) std::cout << line << "\n";
    if (!outcome.violations.empty()) {
      ++violated;
      if (!flags.go_on) return 1;
    }
    for (const InjectedFault& done : outcome.faults) {
      if (done.hit) ++kinds[std::string(KindName(done.fault.kind))];
    }
    if (const std::optional<Usage> usage = UsageOf(::getpid())) growth.Add("driver", *usage);
    sum.rows += outcome.rows;
    sum.rows_refed += outcome.rows_refed;
    sum.rows_untold += outcome.rows_untold;
    sum.results += outcome.results;
    sum.restarts += outcome.restarts;
    failed += outcome.cause.empty() ? 0 : 1;
    std::cout << absl::StrFormat(
                     "seed %d, %s: %d faults, %d restarts, %d rows, %d fed again, %d results%s",
                     seed, PlaceName(plan.place), outcome.faults.size(), outcome.restarts,
                     outcome.rows, outcome.rows_refed, outcome.results,
                     outcome.cause.empty() ? "" : "; " + outcome.cause)
              << std::endl;
  }
  std::cout << absl::StrFormat(
      "%d rounds in %.0f s: %d restarts, %d rows used, %d fed again, %d more that a lost feeder "
      "had "
      "not told of, %d results, %d clusters that failed as they should; %d rounds in which "
      "something did not hold\n",
      rounds, absl::ToDoubleSeconds(elapsed()), sum.restarts, sum.rows, sum.rows_refed,
      sum.rows_untold, sum.results, failed, violated);
  for (const auto& [kind, times] : kinds) std::cout << absl::StrFormat("%6d %s\n", times, kind);
  const std::vector<std::string> grown = growth.Find(kDriverRounds);
  for (const std::string& line : grown) std::cout << line << "\n";
  std::cout << "the driver after the last round: " << growth.LastText("driver") << "\n";
  return violated == 0 && grown.empty() ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Real clusters under faults that seeds choose.");
  app.add_option("--seed", flags.seed, "of the first round; each has the next. Default: any");
  app.add_option("--rounds", flags.rounds, "how many");
  app.add_option("--minutes", flags.minutes, "no round begins after so long");
  app.add_option("--length", flags.length_seconds, "seconds of faults in a round");
  app.add_option("--place", flags.place, "where agents come from")
      ->check(CLI::IsMember({"local", "listening", "both", "spark"}));
  app.add_flag("--soak", flags.soak,
               "spare what lives as long as its cluster, to see whether it grows: with a long "
               "--length");
  app.add_flag("--trace", flags.trace, "print what happened in each round");
  app.add_flag("--go-on", flags.go_on, "after a round in which something did not hold");
  CLI11_PARSE(app, argc, argv);
  return Run(flags);
}

}  // namespace
}  // namespace millrace::chaos

int main(int argc, char** argv) {
  millrace::chaos::PrepareMachine(argv);
  return millrace::chaos::Main(argc, argv);
}
