// File: testing/ledger/ledger_seeds.h
//
// The cases of the ledger's tests. Test only.
//
// Defines: LedgerSeeds(), LedgerSeedName().

#ifndef TESTING_LEDGER_LEDGER_SEEDS_H_
#define TESTING_LEDGER_LEDGER_SEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/process/process.h"
#include "gtest/gtest.h"

namespace millrace {

// Of LEDGER_SEED, or the first LEDGER_CASES, or so many.
inline std::vector<uint64_t> LedgerSeeds(uint64_t most) {
  uint64_t seed = 0;
  if (absl::SimpleAtoi(EnvOr("LEDGER_SEED", ""), &seed)) return {seed};
  uint64_t cases = 0;
  if (!absl::SimpleAtoi(EnvOr("LEDGER_CASES", ""), &cases)) cases = most;
  std::vector<uint64_t> seeds;
  for (uint64_t i = 1; i <= cases; ++i) seeds.push_back(i);
  return seeds;
}

inline std::string LedgerSeedName(const ::testing::TestParamInfo<uint64_t>& info) {
  return absl::StrCat("Seed", info.param);
}

}  // namespace millrace

#endif  // TESTING_LEDGER_LEDGER_SEEDS_H_
