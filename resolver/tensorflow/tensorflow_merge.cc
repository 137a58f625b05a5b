#include "resolver/tensorflow/tensorflow_merge.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cluster_spec/python_text.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {
namespace {

absl::Status Duplicates(const std::string& /*job*/, const std::vector<int>& indices) {
  return PythonError("KeyError", PythonRepr(absl::StrCat(
                                     "Duplicate keys detected when merging two ClusterSpecs: {",
                                     absl::StrJoin(indices, ", "), "}")));
}

}  // namespace

MergeRules TensorFlowMergeRules() {
  return {.empty_jobs_are_sparse = true, .duplicates = Duplicates};
}

}  // namespace millrace
