// File: resolver/tensorflow/tensorflow_roles.h
//
// The functions of tf.distribute's multi_worker_util, bug for bug: what those of millrace/roles.h
// answer with ResolverBehavior::kTensorFlow. Unlike them they refuse jobs of other names, count
// only `chief` as a chief, and take a task's index for its place among the tasks that are there.
//
// Defines: TensorFlowRoleRules().
//
// Thread safety: pure functions. Errors are TensorFlowError()s.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_ROLES_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_ROLES_H_

#include "resolver/role_rules.h"

namespace millrace {

[[nodiscard]] RoleRules TensorFlowRoleRules();

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_ROLES_H_
