// File: resolver/tensorflow/tensorflow_arguments.h
//
// A resolver's description in JSON as the arguments of TensorFlow's constructor: which it refuses,
// with which exception, and which it converts. Members of a wrong type that are not named here are
// INVALID_ARGUMENT of the common reading (resolver/resolver_from_json.h).
//
// Defines: TensorFlowArgumentRules().
//
// Thread safety: pure functions. Descriptions are objects. Errors are TensorFlowError()s.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_

#include "resolver/argument_rules.h"

namespace millrace {

// Of SimpleClusterResolver(...), TFConfigClusterResolver(...) and SageMakerClusterResolver(...),
// which apply str() and int() to task_type and task_id, SlurmClusterResolver(...),
// KubernetesClusterResolver(...) and GCEClusterResolver(...), which take a port of any type as
// SageMaker's does, and UnionResolver(*resolvers, **kwargs).
[[nodiscard]] ArgumentRules TensorFlowArgumentRules();

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_ARGUMENTS_H_
