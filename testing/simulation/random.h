// File: testing/simulation/random.h
//
// Numbers that a seed decides, the same with every compiler and library.
//
// Defines: Random.
//
//   Random random(seed, {kOfAgents, 7});   // of its own, whatever others draw
//   random.Between(absl::Seconds(1), absl::Seconds(2));

#ifndef TESTING_SIMULATION_RANDOM_H_
#define TESTING_SIMULATION_RANDOM_H_

#include <cstdint>
#include <initializer_list>

#include "absl/time/time.h"

namespace millrace::simulation {

// SplitMix64. Thread safety: not thread-safe.
class Random {
 public:
  // `stream`: numbers of one stream do not depend on what is drawn from another, so that a plan
  // without one of its faults stays the same otherwise.
  Random(uint64_t seed, std::initializer_list<uint64_t> stream) : state_(seed) {
    for (const uint64_t part : stream) state_ = Next() ^ (part * 0x9e3779b97f4a7c15);
  }

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Both included.
  int64_t Number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Next() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int64_t n) { return Number(1, n) == 1; }
  absl::Duration Between(absl::Duration least, absl::Duration most) {
    return absl::Microseconds(
        Number(absl::ToInt64Microseconds(least), absl::ToInt64Microseconds(most)));
  }

 private:
  uint64_t state_;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_RANDOM_H_
