// File: resolver/tensorflow/tensorflow_hostlist.h
//
// Slurm's lists of hosts and of tasks as TensorFlow's SlurmClusterResolver expands them, bug for
// bug; resolver/slurm/hostlist.h has ours.
//
// Defines: ExpandHostlistAsTensorFlow(), ExpandTasksPerNodeAsTensorFlow().
//
// Thread safety: pure functions. Errors are TensorFlowError()s, but RESOURCE_EXHAUSTED for more
// entries than the limit, which is ours.

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_HOSTLIST_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_HOSTLIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "resolver/slurm/hostlist.h"

namespace millrace {

// At most one bracket group per part, at its end; "" has no name, "a," has one, [3-1] none. All
// else is TensorFlow's ValueError.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ExpandHostlistAsTensorFlow(
    absl::string_view hostlist, size_t max_names = kMaxHostlistEntries);

// N or N(xM), where M may be 0. All else is TensorFlow's ValueError.
[[nodiscard]] absl::StatusOr<std::vector<int>> ExpandTasksPerNodeAsTensorFlow(
    absl::string_view tasks_per_node, size_t max_counts = kMaxHostlistEntries);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_HOSTLIST_H_
