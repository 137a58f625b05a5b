#include "dashboard/model/membership.h"

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "core/proto/spec_proto.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

ClusterSpec Spec(const std::string& last) {
  ClusterSpec spec;
  EXPECT_THAT(spec.AddJob("ps", {"h0:1"}), IsOk());
  EXPECT_THAT(spec.AddJob("chief", {"h1:1"}), IsOk());
  EXPECT_THAT(spec.AddJob("worker", {"h1:2", last}), IsOk());
  return spec;
}

TEST(Membership, TellsWhatEachEpochChanged) {
  Membership membership;
  EXPECT_EQ(membership.epoch(), 0u);
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h2:1"), 1), absl::UnixEpoch()), IsOk());
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h3:1"), 2), absl::UnixEpoch()), IsOk());
  ASSERT_EQ(membership.epochs().size(), 2u);
  EXPECT_TRUE(membership.epochs()[0].first);
  ASSERT_EQ(membership.epochs()[1].diff.moved.size(), 1u);
  EXPECT_EQ(membership.epochs()[1].diff.moved[0].to, "h3:1");
}

TEST(Membership, ComparesAcrossASnapshotAndRefusesNonsense) {
  Membership membership;
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h2:1"), 3), absl::UnixEpoch()), IsOk());
  membership.ExpectWhole();
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h2:1"), 3), absl::UnixEpoch()), IsOk());
  EXPECT_EQ(membership.epochs().size(), 1u);
  membership.ExpectWhole();
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h9:1"), 5), absl::UnixEpoch()), IsOk());
  EXPECT_EQ(membership.epochs().back().diff.moved.size(), 1u);
  v1::SpecUpdate broken = MakeSpecUpdate(Spec("h2:1"), 6);
  broken.set_zlib_cluster_def("no zlib");
  EXPECT_THAT(membership.Apply(broken, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(membership.epoch(), 5u);
}

TEST(EnvironmentBridges, AreWhatTheAgentSets) {
  std::map<std::string, std::string> of_worker;
  for (const EnvironmentBridge& bridge : EnvironmentBridges(Spec("h2:1"), "worker", 0)) {
    of_worker[bridge.name] = bridge.value;
  }
  EXPECT_EQ(of_worker["MASTER_ADDR"], "h1");
  EXPECT_EQ(of_worker["MASTER_PORT"], "1");
  EXPECT_EQ(of_worker["RANK"], "1");
  EXPECT_EQ(of_worker["LOCAL_RANK"], "1");  // the chief is on the same host
  EXPECT_EQ(of_worker["WORLD_SIZE"], "3");
  EXPECT_NE(of_worker["TF_CONFIG"].find("\"index\":0"), std::string::npos);
  std::map<std::string, std::string> of_ps;
  for (const EnvironmentBridge& bridge : EnvironmentBridges(Spec("h2:1"), "ps", 0)) {
    of_ps[bridge.name] = bridge.value;
  }
  EXPECT_EQ(of_ps.count("RANK"), 0u);
  EXPECT_EQ(of_ps["MASTER_ADDR"], "h1");
  EXPECT_TRUE(EnvironmentBridges(Spec("h2:1"), "evaluator", 0).empty());
}

TEST(BridgeMemo, FollowsTheTaskTheMembershipAndTheCluster) {
  const auto rank = [](const std::vector<EnvironmentBridge>& bridges) {
    for (const EnvironmentBridge& bridge : bridges) {
      if (bridge.name == "RANK") return bridge.value;
    }
    return std::string("none");
  };
  BridgeMemo memo;
  Membership membership;
  EXPECT_TRUE(memo.Get(membership, "worker", 1).empty());
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h2:1"), 1), absl::UnixEpoch()), IsOk());
  EXPECT_EQ(rank(memo.Get(membership, "worker", 1)), "2");
  EXPECT_EQ(rank(memo.Get(membership, "worker", 0)), "1");
  EXPECT_EQ(rank(memo.Get(membership, "chief", 0)), "0");
  const char* const before = memo.Get(membership, "worker", 1).front().value.data();
  EXPECT_EQ(memo.Get(membership, "worker", 1).front().value.data(), before);  // not made again
  ASSERT_THAT(membership.Apply(MakeSpecUpdate(Spec("h3:1"), 2), absl::UnixEpoch()), IsOk());
  EXPECT_NE(memo.Get(membership, "worker", 1).front().value.find("h3:1"), std::string::npos);
  Membership other;
  ASSERT_THAT(other.Apply(MakeSpecUpdate(Spec("h4:1"), 2), absl::UnixEpoch()), IsOk());
  EXPECT_NE(memo.Get(other, "worker", 1).front().value.find("h4:1"), std::string::npos);
}

}  // namespace
}  // namespace millrace::dashboard
