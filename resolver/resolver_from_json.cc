#include "resolver/resolver_from_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"
#include "resolver/description_members.h"

namespace millrace {
namespace {

using Members = OrderedJson::object_t;

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterResolver>> ResolverFromJson(const OrderedJson& description,
                                                                  const ResolverMakers& makers,
                                                                  ResolverBehavior behavior,
                                                                  absl::string_view where) {
  if (!description.is_object()) {
    return where.empty() ? absl::InvalidArgumentError(
                               absl::StrCat("a resolver's description must be an object, found ",
                                            JsonTypeName(description)))
                         : WrongMemberType(where, "an object", description);
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                            OptionalTextMember(description, "type", where));
  const auto maker = makers.by_type.find(type.value_or(""));
  if (maker != makers.by_type.end()) return maker->second(description, behavior, where, makers);
  const auto append_name = [](std::string* out, const auto& known) { out->append(known.first); };
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", MemberPath(where, "type"), "\" must be one of ",
                   absl::StrJoin(makers.by_type, ", ", append_name), ", found ",
                   type.has_value() ? PythonRepr(*type) : "nothing"));
}

absl::StatusOr<TaskProperties> ReadTaskProperties(const OrderedJson& description,
                                                  absl::string_view where) {
  TaskProperties properties;
  MILLRACE_ASSIGN_OR_RETURN(properties.task_type,
                            OptionalTextMember(description, "task_type", where));
  MILLRACE_ASSIGN_OR_RETURN(properties.task_id, OptionalIntMember(description, "task_id", where));
  MILLRACE_ASSIGN_OR_RETURN(properties.rpc_layer,
                            OptionalTextMember(description, "rpc_layer", where));
  return properties;
}

absl::Status CheckMembers(const OrderedJson& description,
                          const std::vector<absl::string_view>& known, absl::string_view where) {
  for (const auto& [key, value] : description.get_ref<const Members&>()) {
    if (key == "type" || key == "task_type" || key == "task_id" || key == "rpc_layer") continue;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "field \"", MemberPath(where, key), "\" is not known; there are ",
        absl::StrJoin(known, ", "), known.empty() ? "" : ", ", "task_type, task_id, rpc_layer"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
