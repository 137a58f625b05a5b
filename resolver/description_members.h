// File: resolver/description_members.h
//
// The members of a resolver's description in JSON (resolver_from_json.h), and what is said of one
// that is not as it should be.
//
// Defines: MemberPath(), FindMember(), OptionalTextMember(), OptionalIntMember(), IntFrom(),
// ReadSecondsMember(), WrongMemberType().
//
// Thread safety: pure functions. A "path" names the value for messages: "resolvers[1].task_id".

#ifndef RESOLVER_DESCRIPTION_MEMBERS_H_
#define RESOLVER_DESCRIPTION_MEMBERS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"

namespace millrace {

// The path of a member of what stands at `where` (empty: the document).
[[nodiscard]] std::string MemberPath(absl::string_view where, absl::string_view key);

// The member, or null if it is absent or null.
[[nodiscard]] const OrderedJson* FindMember(const OrderedJson& description, const std::string& key);

// Nullopt if it is absent or null. Returns INVALID_ARGUMENT for another type.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> OptionalTextMember(
    const OrderedJson& description, const std::string& key, absl::string_view where);
[[nodiscard]] absl::StatusOr<std::optional<int>> OptionalIntMember(const OrderedJson& description,
                                                                   const std::string& key,
                                                                   absl::string_view where);

// Returns INVALID_ARGUMENT if it is no integer of 32 bits.
[[nodiscard]] absl::StatusOr<int> IntFrom(const OrderedJson& value, absl::string_view path);

// Leaves *duration as it is if the member is absent or null. Returns INVALID_ARGUMENT if it is not
// a number above 0.
[[nodiscard]] absl::Status ReadSecondsMember(const Json& description, absl::string_view key,
                                             absl::string_view where, absl::Duration* duration);

// INVALID_ARGUMENT: `found` should be `wanted` ("an object").
[[nodiscard]] absl::Status WrongMemberType(absl::string_view path, absl::string_view wanted,
                                           const OrderedJson& found);

}  // namespace millrace

#endif  // RESOLVER_DESCRIPTION_MEMBERS_H_
