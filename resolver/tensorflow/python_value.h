// File: resolver/tensorflow/python_value.h
//
// JSON values as the Python values that json.loads() makes of them, for
// ResolverBehavior::kTensorFlow: what Python's str(), repr(), int(), `in` and json.loads() do, with
// the texts of their exceptions.
//
// Defines: ParsePythonJson(), PythonTypeName(), PythonReprOf(), PythonStrOf(), PythonIntOf(),
// PythonItem(), PythonTruth(), PythonError().
//
// Thread safety: pure functions. Errors are TensorFlowError()s; the texts are Python 3.11's.

#ifndef RESOLVER_TENSORFLOW_PYTHON_VALUE_H_
#define RESOLVER_TENSORFLOW_PYTHON_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"

namespace millrace {

// INVALID_ARGUMENT that stands for an exception of this class.
[[nodiscard]] absl::Status PythonError(absl::string_view python_class, absl::string_view message);

// json.loads(text). Returns its JSONDecodeError; INVALID_ARGUMENT without a class for what Python
// takes and Millrace does not (NaN, Infinity, text that is not UTF-8, nesting deeper than 64).
[[nodiscard]] absl::StatusOr<OrderedJson> ParsePythonJson(absl::string_view text);

// type(value).__name__: "NoneType", "bool", "int", "float", "str", "list" or "dict".
[[nodiscard]] absl::string_view PythonTypeName(const OrderedJson& value);

[[nodiscard]] std::string PythonReprOf(const OrderedJson& value);
[[nodiscard]] std::string PythonStrOf(const OrderedJson& value);

// int(value). Returns its TypeError or ValueError. Saturates at 2^40.
[[nodiscard]] absl::StatusOr<int64_t> PythonIntOf(const OrderedJson& value);

// holder[key] if `key in holder`, else null. Returns the TypeError of either for what is no dict.
// The pointer points into `holder`.
[[nodiscard]] absl::StatusOr<const OrderedJson*> PythonItem(const OrderedJson& holder,
                                                            absl::string_view key);

// Truth value: false for None, 0, "", [] and {}.
[[nodiscard]] bool PythonTruth(const OrderedJson& value);

}  // namespace millrace

#endif  // RESOLVER_TENSORFLOW_PYTHON_VALUE_H_
