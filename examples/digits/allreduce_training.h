// The strategy `allreduce` of examples/digits: every rank holds the weights, and all make the same
// steps.
#ifndef EXAMPLES_DIGITS_ALLREDUCE_TRAINING_H_
#define EXAMPLES_DIGITS_ALLREDUCE_TRAINING_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "examples/digits/mlp.h"
#include "millrace/node.h"

namespace millrace::examples {

struct AllReduceTraining {
  int batch = 64;  // rows of a step, over all ranks
  float learning_rate = 0.006f;
  int64_t epoch_rows =
      1;  // after every so many rows, over all ranks, each rank prints its parameters' hash
  // On each rank, after each step.
  std::function<void(int64_t steps, const Mlp& model)> on_step;
};

// Trains `model`, which begins equal on all ranks, until the data of all of them has ended.
absl::Status TrainByAllReduce(NodeContext& ctx, const AllReduceTraining& options, Mlp* model);

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_ALLREDUCE_TRAINING_H_
