// File: core/cluster_spec/python_text.h
//
// Text as Python writes and reads it, for what has Python's semantics: cluster specs, and resolvers
// that answer as TensorFlow's do.
//
// Defines: PythonRepr(), PythonInt().
//
// Thread safety: pure functions.

#ifndef CORE_CLUSTER_SPEC_PYTHON_TEXT_H_
#define CORE_CLUSTER_SPEC_PYTHON_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// What Python's repr() makes of this str: "it's" with quotes that fit. A byte that is not UTF-8
// becomes the surrogate under which Python itself carries such a byte (surrogateescape).
[[nodiscard]] std::string PythonRepr(absl::string_view text);

// Python's int(text) for ASCII text: white space around it, a sign, leading zeros and single
// underscores between digits are allowed. Saturates at 2^40 in both directions, far outside the
// range of an index; nullopt if it is no integer at all.
[[nodiscard]] std::optional<int64_t> PythonInt(absl::string_view text);

}  // namespace millrace

#endif  // CORE_CLUSTER_SPEC_PYTHON_TEXT_H_
