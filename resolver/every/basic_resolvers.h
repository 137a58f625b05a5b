// File: resolver/every/basic_resolvers.h
//
// The makers (resolver/resolver_from_json.h) of the resolvers that ask no server.
//
// Defines: BasicResolverMakers().

#ifndef RESOLVER_EVERY_BASIC_RESOLVERS_H_
#define RESOLVER_EVERY_BASIC_RESOLVERS_H_

#include "resolver/resolver_from_json.h"

namespace millrace {

// "static", "tf_config", "sagemaker", "slurm" and "union", with the members of their options:
//
//   static     cluster_spec (required), master, environment, num_accelerators
//   tf_config  environment
//   sagemaker  port, environment
//   slurm      jobs, port_base, gpus_per_node, gpus_per_task, tasks_per_node, auto_set_gpu
//   union      resolvers (required), a list of descriptions
//   all        task_type, task_id, rpc_layer
[[nodiscard]] ResolverMakers BasicResolverMakers();

}  // namespace millrace

#endif  // RESOLVER_EVERY_BASIC_RESOLVERS_H_
