#include "feed/feeder/feeder_nodes.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Nodes in the state that a test says; `on_lookup` runs before each answer.
class ScriptedDirectory : public NodeDirectory {
 public:
  explicit ScriptedDirectory(std::map<std::string, FeedTarget::State> nodes)
      : nodes_(std::move(nodes)) {}

  std::vector<std::string> fed_nodes() override {
    std::vector<std::string> names;
    for (const auto& [name, state] : nodes_) names.push_back(name);
    return names;
  }
  absl::StatusOr<FeedTarget> Lookup(const std::string& node) override {
    if (on_lookup) std::exchange(on_lookup, nullptr)();
    FeedTarget target;
    target.node = node;
    target.state = nodes_.at(node);
    return target;
  }
  bool IsEqual(const std::string& /*queue*/) override { return false; }
  absl::Status Cause(const std::string& node) override {
    return absl::AbortedError(node + " exited with code 1");
  }

  std::function<void()> on_lookup;  // once

 private:
  const std::map<std::string, FeedTarget::State> nodes_;
};

constexpr auto kRunning = FeedTarget::State::kRunning;

std::string Acquired(FeederNodes& nodes) {
  const absl::StatusOr<std::optional<FeedTarget>> target = nodes.Acquire();
  EXPECT_THAT(target, IsOk());
  return target.ok() && target->has_value() ? (*target)->node : "";
}

TEST(FeederNodesTest, TheNodeWithTheLeastToDoIsChosen) {
  ScriptedDirectory directory({{"worker:0", kRunning}, {"worker:1", kRunning}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  EXPECT_EQ(Acquired(nodes), "worker:0");
  EXPECT_EQ(Acquired(nodes), "worker:1");
  nodes.Release("worker:1");
  EXPECT_EQ(Acquired(nodes), "worker:1");
}

TEST(FeederNodesTest, ThreadsThatChooseAtOnceDoNotChooseTheSameNode) {
  ScriptedDirectory directory({{"worker:0", kRunning}, {"worker:1", kRunning}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  std::string meanwhile;
  directory.on_lookup = [&] { meanwhile = Acquired(nodes); };
  EXPECT_EQ(Acquired(nodes), "worker:0");
  EXPECT_EQ(meanwhile, "worker:1");
}

TEST(FeederNodesTest, ANodeThatCannotBeHadIsNotCountedAsBusy) {
  ScriptedDirectory directory(
      {{"worker:0", FeedTarget::State::kRestarting}, {"worker:1", kRunning}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Acquired(nodes), "worker:1");
}

TEST(FeederNodesTest, WhenAllHaveFinishedNobodyReads) {
  ScriptedDirectory directory({{"worker:0", FeedTarget::State::kFinished}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  EXPECT_TRUE(nodes.any_reading());
  EXPECT_EQ(Acquired(nodes), "");
  EXPECT_FALSE(nodes.any_reading());
}

TEST(FeederNodesTest, TheLowestNodeIsClaimedAndNoOtherWhileItIsBusy) {
  ScriptedDirectory directory({{"worker:0", kRunning}, {"worker:1", kRunning}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  const std::map<std::string, int64_t> level = {{"worker:0", 5}, {"worker:1", 5}};
  EXPECT_EQ(nodes.ClaimLowest(level), "worker:0");
  EXPECT_EQ(nodes.ClaimLowest(level), "worker:1");
  EXPECT_EQ(nodes.ClaimLowest(level), std::nullopt);
  nodes.Release("worker:0");
  EXPECT_EQ(nodes.ClaimLowest({{"worker:0", 6}, {"worker:1", 5}}), std::nullopt);
  EXPECT_EQ(nodes.ClaimLowest({{"worker:0", 6}, {"worker:1", 7}}), "worker:0");
  EXPECT_FALSE(nodes.ClaimAgain("worker:0"));
  nodes.Release("worker:0");
  EXPECT_TRUE(nodes.ClaimAgain("worker:0"));
  EXPECT_EQ(nodes.ClaimLowest({{"worker:0", 6}, {"worker:1", 7}}), std::nullopt);
}

TEST(FeederNodesTest, AClaimOfANodeThatHasFinishedIsGivenBack) {
  ScriptedDirectory directory({{"worker:0", FeedTarget::State::kFinished}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(nodes.ClaimLowest({{"worker:0", 0}}), "worker:0");
    const absl::StatusOr<std::optional<FeedTarget>> target = nodes.AcquireClaimed("worker:0");
    ASSERT_THAT(target, IsOk());
    EXPECT_FALSE(target->has_value());
  }
}

TEST(FeederNodesTest, ANodeThatFailedIsTheError) {
  ScriptedDirectory directory({{"worker:0", FeedTarget::State::kFailed}});
  FeederNodes nodes(&directory, "input", absl::Seconds(1));
  EXPECT_THAT(nodes.Acquire(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("worker:0 exited with code 1")));
}

}  // namespace
}  // namespace millrace
