// Runs seeds of the simulator for as long as one wants:
//
//   bazelw run -c opt //testing/simulation:simulate -- --runs=100000 --nodes=50 --minutes=10
//   bazelw run -c opt //testing/simulation:simulate -- --seed=17 --runs=1 --trace

#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "testing/simulation/simulation.h"

namespace millrace::simulation {
namespace {

struct Flags {
  int64_t seed = 1;
  int64_t runs = 1000;
  Size size;
  bool trace = false;
};

bool Parse(absl::string_view argument, Flags* flags) {
  int64_t number = 0;
  double minutes = 0;
  const auto value = [&](absl::string_view name) { return absl::ConsumePrefix(&argument, name); };
  if (argument == "--trace") return flags->trace = true;
  if (value("--seed=")) return absl::SimpleAtoi(argument, &flags->seed);
  if (value("--runs=")) return absl::SimpleAtoi(argument, &flags->runs);
  if (value("--nodes=")) {
    if (!absl::SimpleAtoi(argument, &number) || number < 1) return false;
    flags->size.nodes = static_cast<int>(number);
    return true;
  }
  if (value("--minutes=")) {
    if (!absl::SimpleAtod(argument, &minutes) || minutes <= 0) return false;
    flags->size.length = absl::Minutes(minutes);
    return true;
  }
  return false;
}

int Main(int argc, char** argv) {
  SetLogLevel(LogLevel::kError);
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (!Parse(argv[i], &flags)) {
      std::cerr << "simulate [--seed=N] [--runs=N] [--nodes=N] [--minutes=N] [--trace]\n";
      return 2;
    }
  }
  const absl::Time begin = absl::Now();
  int64_t events = 0;
  int64_t failed_clusters = 0;
  for (int64_t i = 0; i < flags.runs; ++i) {
    const auto seed = static_cast<uint64_t>(flags.seed + i);
    const Plan plan = MakePlan(seed, flags.size.nodes, flags.size.length);
    const Outcome outcome = Simulate(plan, flags.trace);
    if (outcome.violation.has_value()) {
      std::cout << (flags.trace
                        ? Report(plan, flags.size, *outcome.violation, /*max_lines=*/SIZE_MAX)
                        : Report(plan, flags.size, *outcome.violation));
      return 1;
    }
    if (flags.trace) {
      std::cout << PlanText(plan);
      for (const std::string& line : outcome.trace) std::cout << line << "\n";
      std::cout << "hash " << std::hex << outcome.hash << std::dec << "\n";
    }
    events += outcome.events;
    failed_clusters += outcome.cause.ok() ? 0 : 1;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  std::cout << flags.runs << " runs, " << events << " events, " << failed_clusters
            << " clusters that failed, " << seconds
            << " s: " << static_cast<double>(flags.runs) / seconds * 60 << " runs per minute\n";
  return 0;
}

}  // namespace
}  // namespace millrace::simulation

int main(int argc, char** argv) { return millrace::simulation::Main(argc, argv); }
