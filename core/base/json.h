// File: core/base/json.h
//
// JSON in and out without exceptions: nlohmann::json behind functions that return absl::StatusOr.
//
// Defines (with json_fwd.h): Json, OrderedJson, JsonOptions, ParseJson(), ParseOrderedJson(),
// DumpJson(), and typed getters whose errors name the field.
//
//   MILLRACE_ASSIGN_OR_RETURN(Json request, ParseJson(line));
//   MILLRACE_ASSIGN_OR_RETURN(std::string method, GetString(request, "method"));
//   MILLRACE_ASSIGN_OR_RETURN(const Json* params, GetObject(request, "params"));
//   MILLRACE_ASSIGN_OR_RETURN(int64_t port, GetInt(*params, "port", "params"));
//   // INVALID_ARGUMENT: field "params.port" must be an integer, found string
//
// Do not call the throwing members of Json (at(), get<T>() of the wrong type, operator[] const with
// an absent key) on values that came from outside; use the getters.
//
// Thread safety: pure functions; a Json is an ordinary value.

#ifndef CORE_BASE_JSON_H_
#define CORE_BASE_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json_fwd.h"
#include "nlohmann/json.hpp"

// Made once, in json.cc, instead of in each source that uses them: without optimisation that is
// half of the time which such a source takes.
extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace millrace {

// Parses exactly one JSON value (RFC 8259, UTF-8; white space around it is allowed). Of equal keys
// in an object the last wins, as in Python.
//
// Returns INVALID_ARGUMENT, with the byte offset, if `text` is no JSON, not UTF-8, nested too deep,
// or holds a number that a double cannot hold; RESOURCE_EXHAUSTED if it is over max_bytes.
[[nodiscard]] absl::StatusOr<Json> ParseJson(absl::string_view text,
                                             const JsonOptions& options = {});
[[nodiscard]] absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text,
                                                           const JsonOptions& options = {});

// `value` on one line (`indent` < 0) or indented. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string DumpJson(const Json& value, int indent = -1);
[[nodiscard]] std::string DumpJson(const OrderedJson& value, int indent = -1);

// "null", "boolean", "integer", "number", "string", "array" or "object".
[[nodiscard]] absl::string_view JsonTypeName(const Json& value);
[[nodiscard]] absl::string_view JsonTypeName(const OrderedJson& value);

// Getters. `object` is the object that should hold `key`; `where` is the path of `object` itself,
// for messages ("params" makes the field "params.port"; empty for the document).
//
// Each returns INVALID_ARGUMENT if `object` is no object, the field is absent (or null), or it has
// another type. GetInt also if the value is no integer or does not fit int64_t (3.0 is no integer);
// GetDouble takes any number. Pointers point into `object`.
[[nodiscard]] absl::StatusOr<std::string> GetString(const Json& object, absl::string_view key,
                                                    absl::string_view where = "");
[[nodiscard]] absl::StatusOr<int64_t> GetInt(const Json& object, absl::string_view key,
                                             absl::string_view where = "");
[[nodiscard]] absl::StatusOr<double> GetDouble(const Json& object, absl::string_view key,
                                               absl::string_view where = "");
[[nodiscard]] absl::StatusOr<bool> GetBool(const Json& object, absl::string_view key,
                                           absl::string_view where = "");
[[nodiscard]] absl::StatusOr<const Json*> GetObject(const Json& object, absl::string_view key,
                                                    absl::string_view where = "");
[[nodiscard]] absl::StatusOr<const Json*> GetArray(const Json& object, absl::string_view key,
                                                   absl::string_view where = "");
[[nodiscard]] absl::StatusOr<std::vector<std::string>> GetStringList(const Json& object,
                                                                     absl::string_view key,
                                                                     absl::string_view where = "");

// GetInt that also requires min <= value <= max (INVALID_ARGUMENT otherwise, naming the range).
[[nodiscard]] absl::StatusOr<int64_t> GetIntInRange(const Json& object, absl::string_view key,
                                                    int64_t min, int64_t max,
                                                    absl::string_view where = "");

// As above, but an absent or null field gives `fallback`. A field of another type is still an
// error.
[[nodiscard]] absl::StatusOr<std::string> GetStringOr(const Json& object, absl::string_view key,
                                                      absl::string_view fallback,
                                                      absl::string_view where = "");
[[nodiscard]] absl::StatusOr<int64_t> GetIntOr(const Json& object, absl::string_view key,
                                               int64_t fallback, absl::string_view where = "");
[[nodiscard]] absl::StatusOr<double> GetDoubleOr(const Json& object, absl::string_view key,
                                                 double fallback, absl::string_view where = "");
[[nodiscard]] absl::StatusOr<bool> GetBoolOr(const Json& object, absl::string_view key,
                                             bool fallback, absl::string_view where = "");

}  // namespace millrace

#endif  // CORE_BASE_JSON_H_
