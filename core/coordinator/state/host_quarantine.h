// File: core/coordinator/state/host_quarantine.h
//
// Which hosts have had so many failures in a short time that restarts keep off them. A pure state
// machine; times are steady.
//
// Defines: HostQuarantine.
//
//   HostQuarantine quarantine({.failures = 3});
//   quarantine.RecordFailure("h", now);
//   if (quarantine.IsClosed("h", now)) ...   // quarantine.Until("h") says until when

#ifndef CORE_COORDINATOR_STATE_HOST_QUARANTINE_H_
#define CORE_COORDINATOR_STATE_HOST_QUARANTINE_H_

#include <deque>
#include <functional>  // for std::less
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/coordinator/state/restart_policy.h"

namespace millrace {

// Bounded by the number of hosts. Thread safety: not thread-safe.
class HostQuarantine {
 public:
  struct Entry {
    std::string host;
    absl::Duration until;
  };

  explicit HostQuarantine(const QuarantinePolicy& policy) : policy_(policy) {}

  [[nodiscard]] const QuarantinePolicy& policy() const { return policy_; }

  void RecordFailure(absl::string_view host, absl::Duration now);

  // Restarts keep off `host` now.
  [[nodiscard]] bool IsClosed(absl::string_view host, absl::Duration now) const {
    return Until(host) > now;
  }
  // The end of its quarantine, also one that is over; -InfiniteDuration() if it never had one.
  [[nodiscard]] absl::Duration Until(absl::string_view host) const;
  // The hosts that are closed now, by name.
  [[nodiscard]] std::vector<Entry> Closed(absl::Duration now) const;

 private:
  struct Host {
    std::deque<absl::Duration> failures;  // the last ones, at most policy_.failures
    absl::Duration until = -absl::InfiniteDuration();
  };

  const QuarantinePolicy policy_;
  std::map<std::string, Host, std::less<>> hosts_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_HOST_QUARANTINE_H_
