// File: core/base/json_fwd.h
//
// The names of core/base/json.h, for headers that only pass JSON on: nlohmann's own header is among
// the most expensive to compile.
//
// Defines: Json, OrderedJson (incomplete here), JsonOptions.

#ifndef CORE_BASE_JSON_FWD_H_
#define CORE_BASE_JSON_FWD_H_

#include <cstddef>

#include "nlohmann/json_fwd.hpp"

namespace millrace {

using Json = nlohmann::json;                 // keys of an object are sorted
using OrderedJson = nlohmann::ordered_json;  // keys keep their order

struct JsonOptions {
  // Deepest nesting of arrays and objects; a scalar document has depth 0.
  int max_depth = 64;
  // Largest text.
  size_t max_bytes = size_t{64} << 20;
};

}  // namespace millrace

#endif  // CORE_BASE_JSON_FWD_H_
