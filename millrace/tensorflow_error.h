// File: millrace/tensorflow_error.h
//
// Errors of ResolverBehavior::kTensorFlow: a Status that also names the class of the exception that
// TensorFlow raises in its place.
//
// Defines: TensorFlowError(), TensorFlowErrorClass().
//
//   return TensorFlowError(absl::StatusCode::kFailedPrecondition, "RuntimeError", message);

#ifndef MILLRACE_TENSORFLOW_ERROR_H_
#define MILLRACE_TENSORFLOW_ERROR_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// `python_class` is the exception's name, such as "ValueError". Annotate() keeps it.
[[nodiscard]] absl::Status TensorFlowError(absl::StatusCode code, absl::string_view python_class,
                                           absl::string_view message);

// The class, or nullopt if the status was not made by TensorFlowError().
[[nodiscard]] std::optional<std::string> TensorFlowErrorClass(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_TENSORFLOW_ERROR_H_
