// File: dashboard/model/membership.h
//
// The cluster's membership now, and what each epoch changed.
//
// Defines: MembershipEpoch, Membership, EnvironmentBridge, EnvironmentBridges(), BridgeMemo.
//
// Thread safety: not thread-safe; const methods may run concurrently.

#ifndef DASHBOARD_MODEL_MEMBERSHIP_H_
#define DASHBOARD_MODEL_MEMBERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace::dashboard {

struct MembershipEpoch {
  uint64_t epoch = 0;
  absl::Time time;       // when it came, on the coordinator's clock
  ClusterSpecDiff diff;  // against the one before it that is known; empty for the first
  bool first = false;    // none before it is known
};

class Membership {
 public:
  static constexpr size_t kMaxEpochs = 256;

  // Returns the errors of ApplySpecUpdate(); the spec is then as it was.
  [[nodiscard]] absl::Status Apply(const v1::SpecUpdate& update, absl::Time time);
  // A snapshot follows: what comes next may be of any epoch. The epochs stay.
  void ExpectWhole() { epoch_ = 0; }
  void Clear() { *this = Membership(); }

  [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
  // Another one whenever spec() is: no two memberships give the same, but copies.
  [[nodiscard]] uint64_t version() const { return version_; }
  // 0: not all nodes have registered yet.
  [[nodiscard]] uint64_t epoch() const { return epochs_.empty() ? 0 : epochs_.back().epoch; }
  // Oldest first.
  [[nodiscard]] const std::deque<MembershipEpoch>& epochs() const { return epochs_; }

 private:
  static uint64_t NextVersion();

  ClusterSpec spec_;
  uint64_t version_ = NextVersion();
  uint64_t epoch_ = 0;  // that spec_ is of; 0 before a snapshot
  std::deque<MembershipEpoch> epochs_;
};

// A variable by which other frameworks learn where they are.
struct EnvironmentBridge {
  std::string name;  // "TF_CONFIG"
  std::string value;
};

// What the agent sets for this task, computed from the membership: TF_CONFIG, and MASTER_ADDR,
// MASTER_PORT, RANK and WORLD_SIZE for a chief, master or worker. Empty if the task is not in the
// spec.
[[nodiscard]] std::vector<EnvironmentBridge> EnvironmentBridges(const ClusterSpec& spec,
                                                                absl::string_view job, int task);

// The bridges of the task that was asked for last: those of one among ten thousand are several
// milliseconds of work, and asked for in every frame. Thread safety: not thread-safe.
class BridgeMemo {
 public:
  // Valid until the next call.
  [[nodiscard]] const std::vector<EnvironmentBridge>& Get(const Membership& membership,
                                                          absl::string_view job, int task);

 private:
  uint64_t version_ = 0;  // no membership's
  std::string job_;
  int task_ = 0;
  std::vector<EnvironmentBridge> bridges_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_MEMBERSHIP_H_
