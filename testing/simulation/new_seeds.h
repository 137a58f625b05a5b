// Seeds that nobody has tried: a few in each run of a test, or as many as there is time for.
//
//   --test_env=MILLRACE_NEW_SEEDS_SECONDS=300

#ifndef TESTING_SIMULATION_NEW_SEEDS_H_
#define TESTING_SIMULATION_NEW_SEEDS_H_

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/random.h"

namespace millrace {

// Calls `holds` with `count` seeds in a row, the first of them by chance, or, if the environment
// has MILLRACE_NEW_SEEDS_SECONDS, with as many as there are in that time. Ends with the first for
// which it returns false.
inline void TryNewSeeds(uint64_t count, absl::FunctionRef<bool(uint64_t)> holds) {
  double seconds = 0;
  const char* const wanted = std::getenv("MILLRACE_NEW_SEEDS_SECONDS");
  if (wanted != nullptr && (!absl::SimpleAtod(wanted, &seconds) || seconds <= 0)) {
    std::cerr << "MILLRACE_NEW_SEEDS_SECONDS is \"" << wanted << "\", which is no time\n";
    std::abort();
  }
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  const uint64_t first = RandomU64() >> 1;
  std::cout << "seeds from " << first << std::endl;
  uint64_t tried = 0;
  while (wanted != nullptr ? absl::Now() < end : tried < count) {
    if (!holds(first + tried++)) return;
  }
  std::cout << tried << " seeds hold" << std::endl;
}

}  // namespace millrace

#endif  // TESTING_SIMULATION_NEW_SEEDS_H_
