// File: core/cluster/cluster_rows_testing.h
//
// The rows that tests of clusters feed. Test only.
//
// Defines: Rows().

#ifndef CORE_CLUSTER_CLUSTER_ROWS_TESTING_H_
#define CORE_CLUSTER_CLUSTER_ROWS_TESTING_H_

#include <cstdint>
#include <numeric>
#include <vector>

#include "millrace/batch_builder.h"
#include "millrace/source.h"

namespace millrace {

// Rows x = 0, 1, 2, ... in partitions of about equal size.
inline MemorySource Rows(int64_t rows, int partitions) {
  std::vector<int64_t> x(rows);
  std::iota(x.begin(), x.end(), 0);
  BatchBuilder builder;
  builder.AddColumn("x", x);
  return **MemorySource::Split(*builder.Build(), partitions);
}

}  // namespace millrace

#endif  // CORE_CLUSTER_CLUSTER_ROWS_TESTING_H_
