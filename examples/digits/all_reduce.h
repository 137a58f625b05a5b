// The fed nodes of a cluster as ranks of a Gloo context, over TCP. They find each other through the
// cluster's key-value store; Gloo itself is hidden here, exceptions included.
#ifndef EXAMPLES_DIGITS_ALL_REDUCE_H_
#define EXAMPLES_DIGITS_ALL_REDUCE_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/node.h"

namespace millrace::examples {

// Not thread-safe. Blocking: everything but ranks(). A rank that dies ends the calls of the others
// at once, one that is stopped after 20 s: UNAVAILABLE, which the cluster takes for a consequence
// of what happened elsewhere. After an error nothing more can be summed.
class AllReduce {
 public:
  // Waits for all fed nodes of the cluster, at most 30 s.
  static absl::StatusOr<std::unique_ptr<AllReduce>> Join(NodeContext& ctx);
  virtual ~AllReduce() = default;

  virtual int ranks() const = 0;
  // Each element becomes the sum of that element over all ranks, bit for bit the same on each.
  // Every rank calls it with as many values.
  virtual absl::Status Sum(std::span<float> values) = 0;
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_ALL_REDUCE_H_
