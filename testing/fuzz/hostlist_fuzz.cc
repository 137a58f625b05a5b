// Slurm's host lists and tasks per node: the input is the text.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/cluster_resolver.h"
#include "resolver/slurm/hostlist.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

constexpr size_t kMaxNames = 1000;

}  // namespace

void Fuzz(absl::string_view input) {
  for (const ResolverBehavior behavior :
       {ResolverBehavior::kCorrect, ResolverBehavior::kTensorFlow}) {
    const HostlistOptions options = {.behavior = behavior, .max_names = kMaxNames};
    const absl::StatusOr<std::vector<std::string>> names = ExpandHostlist(input, options);
    FUZZ_CHECK(!names.ok() || names->size() <= kMaxNames);
    const absl::StatusOr<std::vector<int>> tasks = ExpandTasksPerNode(input, options);
    FUZZ_CHECK(!tasks.ok() || tasks->size() <= kMaxNames);
  }
}

}  // namespace millrace
