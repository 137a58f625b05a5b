// File: resolver/member_completeness.h
//
// MemberCompleteness (millrace/member_completeness.h) from text, and the waiting for it.
//
// Defines: MemberCompletenessFromText(), AskUntilComplete().

#ifndef RESOLVER_MEMBER_COMPLETENESS_H_
#define RESOLVER_MEMBER_COMPLETENESS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"

namespace millrace {

// "require_all", "wait" or "available"; INVALID_ARGUMENT for anything else.
[[nodiscard]] absl::StatusOr<MemberCompleteness> MemberCompletenessFromText(absl::string_view text);

// Calls `ask` until it returns anything but FAILED_PRECONDITION, every half second; the last answer
// as DEADLINE_EXCEEDED when `timeout` has passed. Blocking.
[[nodiscard]] absl::StatusOr<ClusterSpec> AskUntilComplete(
    const std::function<absl::StatusOr<ClusterSpec>()>& ask, absl::Duration timeout);

}  // namespace millrace

#endif  // RESOLVER_MEMBER_COMPLETENESS_H_
