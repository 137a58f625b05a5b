#include "core/coordinator/state/host_quarantine.h"

namespace millrace {

void HostQuarantine::RecordFailure(absl::string_view host, absl::Duration now) {
  Host& entry = hosts_[std::string(host)];
  entry.failures.push_back(now);
  while (entry.failures.size() > static_cast<size_t>(policy_.failures)) entry.failures.pop_front();
  if (entry.failures.size() == static_cast<size_t>(policy_.failures) &&
      now - entry.failures.front() <= policy_.window) {
    entry.until = now + policy_.duration;
  }
}

absl::Duration HostQuarantine::Until(absl::string_view host) const {
  auto it = hosts_.find(host);
  return it == hosts_.end() ? -absl::InfiniteDuration() : it->second.until;
}

std::vector<HostQuarantine::Entry> HostQuarantine::Closed(absl::Duration now) const {
  std::vector<Entry> closed;
  for (const auto& [host, entry] : hosts_) {
    if (entry.until > now) closed.push_back({host, entry.until});
  }
  return closed;
}

}  // namespace millrace
