// File: resolver/tensorflow/tensorflow_merge.h
//
// Where TensorFlow's union of ClusterSpecs departs from ours.
//
// Defines: TensorFlowMergeRules().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_MERGE_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_MERGE_H_

#include "resolver/merging_resolver.h"

namespace millrace {

// A job without tasks makes it sparse; its KeyError.
[[nodiscard]] MergeRules TensorFlowMergeRules();

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_MERGE_H_
