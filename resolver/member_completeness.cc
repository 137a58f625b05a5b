#include "resolver/member_completeness.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(500);

}  // namespace

absl::StatusOr<MemberCompleteness> MemberCompletenessFromText(absl::string_view text) {
  if (text == "require_all") return MemberCompleteness::kRequireAll;
  if (text == "wait") return MemberCompleteness::kWait;
  if (text == "available") return MemberCompleteness::kAvailable;
  return absl::InvalidArgumentError(
      absl::StrCat("completeness must be \"require_all\", \"wait\" or \"available\", found \"",
                   Ellipsize(EscapeControls(text), 100), "\""));
}

absl::StatusOr<ClusterSpec> AskUntilComplete(
    const std::function<absl::StatusOr<ClusterSpec>()>& ask, absl::Duration timeout) {
  const absl::Duration deadline = RealClock()->SteadyNow() + timeout;
  for (;;) {
    absl::StatusOr<ClusterSpec> answer = ask();
    if (answer.ok() || !absl::IsFailedPrecondition(answer.status())) return answer;
    const absl::Duration left = deadline - RealClock()->SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("the cluster was not complete within ",
                                                      absl::FormatDuration(timeout), ": ",
                                                      answer.status().message()));
    }
    absl::SleepFor(std::min(left, kPause));
  }
}

}  // namespace millrace
