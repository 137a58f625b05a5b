#include "resolver/description_members.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {

std::string MemberPath(absl::string_view where, absl::string_view key) {
  return where.empty() ? std::string(key) : absl::StrCat(where, ".", key);
}

absl::Status WrongMemberType(absl::string_view path, absl::string_view wanted,
                             const OrderedJson& found) {
  return absl::InvalidArgumentError(absl::StrCat("field \"", EscapeControls(path), "\" must be ",
                                                 wanted, ", found ", JsonTypeName(found)));
}

const OrderedJson* FindMember(const OrderedJson& description, const std::string& key) {
  const auto found = description.find(key);
  return found == description.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<std::optional<std::string>> OptionalTextMember(const OrderedJson& description,
                                                              const std::string& key,
                                                              absl::string_view where) {
  const OrderedJson* value = FindMember(description, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongMemberType(MemberPath(where, key), "a string", *value);
  return value->get<std::string>();
}

absl::StatusOr<int> IntFrom(const OrderedJson& value, absl::string_view path) {
  if (!value.is_number_integer()) return WrongMemberType(path, "an integer", value);
  constexpr int64_t kMin = std::numeric_limits<int>::min();
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{kMax}
                                               : value.get<int64_t>() >= kMin;
  if (fits) return static_cast<int>(value.get<int64_t>());
  return absl::InvalidArgumentError(absl::StrCat("field \"", path, "\" must be in ", kMin, "..",
                                                 kMax, ", found ", DumpJson(value)));
}

absl::Status ReadSecondsMember(const Json& description, absl::string_view key,
                               absl::string_view where, absl::Duration* duration) {
  MILLRACE_ASSIGN_OR_RETURN(const double seconds,
                            GetDoubleOr(description, key, absl::ToDoubleSeconds(*duration), where));
  if (!(seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", MemberPath(where, key),
                                                   "\" must be above 0 seconds, found ", seconds));
  }
  *duration = absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int>> OptionalIntMember(const OrderedJson& description,
                                                     const std::string& key,
                                                     absl::string_view where) {
  const OrderedJson* value = FindMember(description, key);
  if (value == nullptr) return std::nullopt;
  return IntFrom(*value, MemberPath(where, key));
}

}  // namespace millrace
