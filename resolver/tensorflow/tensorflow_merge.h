// File: resolver/tensorflow/tensorflow_merge.h
//
// Where TensorFlow's union of ClusterSpecs departs from MergeClusterSpecs() (millrace/
// union_resolver.h).
//
// Defines: MergeRules, TensorFlowMergeRules().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_MERGE_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_MERGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millrace {

struct MergeRules {
  // Whether a job without tasks in one spec makes the job sparse in all.
  bool empty_jobs_are_sparse = false;
  // The error for indices that two specs have of a sparse job; ascending, at least one.
  absl::Status (*duplicates)(const std::string& job, const std::vector<int>& indices) = nullptr;
};

// It does; its KeyError.
[[nodiscard]] MergeRules TensorFlowMergeRules();

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_MERGE_H_
