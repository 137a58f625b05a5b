// Slurm's host lists and tasks per node: the input is the text.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "resolver/slurm/hostlist.h"
#include "resolver/tensorflow/tensorflow_hostlist.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

constexpr size_t kMaxNames = 1000;

}  // namespace

void Fuzz(absl::string_view input) {
  for (const auto& expand : {ExpandHostlist, ExpandHostlistAsTensorFlow}) {
    const absl::StatusOr<std::vector<std::string>> names = expand(input, kMaxNames);
    FUZZ_CHECK(!names.ok() || names->size() <= kMaxNames);
  }
  for (const auto& expand : {ExpandTasksPerNode, ExpandTasksPerNodeAsTensorFlow}) {
    const absl::StatusOr<std::vector<int>> tasks = expand(input, kMaxNames);
    FUZZ_CHECK(!tasks.ok() || tasks->size() <= kMaxNames);
  }
}

}  // namespace millrace
