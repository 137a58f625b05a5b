// File: resolver/slurm/hostlist.h
//
// Slurm's short form of many names, as SLURM_STEP_NODELIST has it, and of many counts, as
// SLURM_STEP_TASKS_PER_NODE has it.
//
// Defines: ExpandHostlist(), ExpandTasksPerNode(), kMaxHostlistEntries, TooManyHostlistEntries().
//
//   ExpandHostlist("rack[1-2]n[08-10],login");  // rack1n08 rack1n09 rack1n10 rack2n08 ... login
//   ExpandTasksPerNode("3(x2),1");              // 3 3 1

#ifndef RESOLVER_SLURM_HOSTLIST_H_
#define RESOLVER_SLURM_HOSTLIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Of names or of counts; more are RESOURCE_EXHAUSTED.
inline constexpr size_t kMaxHostlistEntries = size_t{1} << 20;

// Names in the order of the list, the last bracket running fastest; a name that is there twice
// stays twice.
//
//   list    = part { "," part }
//   part    = any text with any number of bracket groups: prefix[...]middle[...]suffix
//   [...]   = range { "," range }, range = digits or digits-digits, first not above last
//
// A range keeps the width of its first number: [08-11], [001-100]. White space around a part is
// removed. Returns INVALID_ARGUMENT with the offset of what is wrong: an empty list or part, an
// open or empty or nested bracket, a number that is none or has over 18 digits, a range that runs
// backwards, a name over 255 bytes.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ExpandHostlist(
    absl::string_view hostlist, size_t max_names = kMaxHostlistEntries);

// One count per node. Returns INVALID_ARGUMENT with the offset if a part is not N or N(xM) with
// N <= 2^31-1 and M >= 1.
[[nodiscard]] absl::StatusOr<std::vector<int>> ExpandTasksPerNode(
    absl::string_view tasks_per_node, size_t max_counts = kMaxHostlistEntries);

// RESOURCE_EXHAUSTED: `what` ("node list"), quoted by its `text`, has more entries than `limit`.
[[nodiscard]] absl::Status TooManyHostlistEntries(absl::string_view what, absl::string_view text,
                                                  size_t limit);

}  // namespace millrace

#endif  // RESOLVER_SLURM_HOSTLIST_H_
