// File: resolver/kubernetes/client/pruned_json.h
//
// Parses a large JSON text of which little is wanted: what is not named is checked, but not kept.
//
// Defines: JsonKeep, ParsePrunedJson().
//
//   static const JsonKeep kNames = {"", {{"items", {{"metadata", {{"name"}}}}}}};
//   MILLRACE_ASSIGN_OR_RETURN(Json list, ParsePrunedJson(text, kNames));
//   // {"items": [{"metadata": {"name": "a"}}, ...]}

#ifndef RESOLVER_KUBERNETES_CLIENT_PRUNED_JSON_H_
#define RESOLVER_KUBERNETES_CLIENT_PRUNED_JSON_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"

namespace millrace {

// A member to keep. Arrays on the way are kept with all their items, to which `members` applies.
struct JsonKeep {
  absl::string_view name;         // of the root: ""
  std::vector<JsonKeep> members;  // none: everything below
};

// Accepts what ParseJson() accepts, except integers beyond 64 bits, and returns errors of its
// codes, without an offset. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<Json> ParsePrunedJson(absl::string_view text, const JsonKeep& keep,
                                                   const JsonOptions& options = {});

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_PRUNED_JSON_H_
