// File: resolver/tensorflow/tensorflow_vectors.h
//
// Interprets the cases of resolver/tensorflow/testdata/resolver_vectors.json, whose schema is at
// its top, by the resolvers' kTensorFlow. Test only.
//
// Defines: VectorOutcome, RunVector(), CompareOutcome().

#ifndef RESOLVER_TENSORFLOW_TENSORFLOW_VECTORS_H_
#define RESOLVER_TENSORFLOW_TENSORFLOW_VECTORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/json.h"

namespace millrace {

// The outcome of building the subject and calling it.
struct VectorOutcome {
  // Not empty: the case is not for these resolvers, and why.
  std::string skipped;
  // The value, or the error with its Python class.
  absl::StatusOr<OrderedJson> result = OrderedJson();
};

// Changes the environment of this process for the time of the call.
// Returns UNIMPLEMENTED if the case has a type, a method or an argument that is not in the schema.
[[nodiscard]] absl::StatusOr<VectorOutcome> RunVector(const OrderedJson& vector);

// OK if `result` is what `expect` says, otherwise FAILED_PRECONDITION with both. Values are
// compared without the order of keys, error classes as `except` does, messages up to the order in
// which a set of integers is printed, which Python leaves to its hashes.
[[nodiscard]] absl::Status CompareOutcome(const absl::StatusOr<OrderedJson>& result,
                                          const OrderedJson& expect);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_TENSORFLOW_VECTORS_H_
