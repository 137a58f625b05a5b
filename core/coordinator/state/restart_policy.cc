#include "core/coordinator/state/restart_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr double kSpread = 0.2;

absl::Status CheckPositive(absl::string_view name, absl::string_view member, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ".", member, " is ", absl::FormatDuration(value), ": it must be greater than zero"));
}

}  // namespace

absl::Status CheckRestartPolicy(absl::string_view name, const RestartPolicy& policy) {
  if (policy.max_restarts < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".max_restarts is ", policy.max_restarts, ": it must not be negative"));
  }
  for (absl::Status status : {CheckPositive(name, "window", policy.window),
                              CheckPositive(name, "initial_backoff", policy.initial_backoff),
                              CheckPositive(name, "max_backoff", policy.max_backoff)}) {
    if (!status.ok()) return status;
  }
  if (policy.max_backoff < policy.initial_backoff || policy.max_backoff > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ".max_backoff is ",
                                                   absl::FormatDuration(policy.max_backoff),
                                                   ": it must be in initial_backoff..24h"));
  }
  return absl::OkStatus();
}

absl::Status CheckQuarantinePolicy(absl::string_view name, const QuarantinePolicy& policy) {
  if (policy.failures < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".failures is ", policy.failures, ": it must be at least 1"));
  }
  if (absl::Status status = CheckPositive(name, "window", policy.window); !status.ok()) {
    return status;
  }
  return CheckPositive(name, "duration", policy.duration);
}

absl::Duration RestartBackoff(const RestartPolicy& policy, int failures_before, double random) {
  absl::Duration backoff = policy.initial_backoff;
  for (int i = 0; i < failures_before && backoff < policy.max_backoff; ++i) backoff *= 2;
  backoff = std::min(backoff, policy.max_backoff);
  return backoff * (1 - kSpread + 2 * kSpread * random);
}

}  // namespace millrace
