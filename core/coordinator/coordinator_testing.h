// File: core/coordinator/coordinator_testing.h
//
// A real coordinator for tests, whose agents are fake.
//
// Defines: StartCluster, Dial, CoordinatorPeer, kLong.

#ifndef CORE_COORDINATOR_COORDINATOR_TESTING_H_
#define CORE_COORDINATOR_COORDINATOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/coordinator/server/control_plane.h"
#include "gtest/gtest.h"

namespace millrace {

// Nothing waits so long unless it is broken.
inline constexpr absl::Duration kLong = absl::Seconds(60);

// A coordinator of workers only. An agent may be silent for a minute: a busy machine is not a lost
// host.
inline std::unique_ptr<Coordinator> StartCluster(int num_executors,
                                                 InputMode mode = InputMode::kDirect,
                                                 const std::string& event_log_dir = "") {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = num_executors});
  options.program.path = "/bin/true";
  options.input_mode = mode;
  options.event_log_dir = event_log_dir;
  options.lost_after = absl::Seconds(60);
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

inline std::unique_ptr<FakeAgent> Dial(const Coordinator& coordinator, int executor_id) {
  FakeAgentOptions options = FakeAgentOptions::For(coordinator);
  options.executor_id = executor_id;
  return std::make_unique<FakeAgent>(options);
}

// Looks into a coordinator.
class CoordinatorPeer {
 public:
  // How many gets of the key-value store wait for their key.
  static size_t KvWaits(const Coordinator& coordinator) {
    return coordinator.plane_->operators().KvWaits();
  }
  // How often a whole spec was serialised and compressed.
  static uint64_t SpecsEncoded(const Coordinator& coordinator) {
    return coordinator.plane_->driver().SpecsEncoded();
  }
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_COORDINATOR_TESTING_H_
