// In place of allreduce_training.cc in programs that run where Gloo is not installed.

#include "absl/status/status.h"
#include "examples/digits/allreduce_training.h"

namespace millrace::examples {

absl::Status TrainByAllReduce(NodeContext&, const AllReduceTraining&, Mlp*) {
  return absl::UnimplementedError(
      "this digits_node is built without Gloo: take --strategy=ps, or the one that "
      "`./bazelw run //examples/digits` builds");
}

}  // namespace millrace::examples
