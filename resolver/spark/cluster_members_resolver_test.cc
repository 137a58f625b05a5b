// On a real coordinator, with agents that have no node behind them.

#include "millrace/cluster_members_resolver.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/watch.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/membership.h"
#include "resolver/update_recorder.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr absl::Duration kLong = absl::Seconds(60);

std::unique_ptr<Coordinator> StartCluster() {
  CoordinatorOptions options;
  options.roles = {{"ps", 0}, {"worker", 0}};
  options.program.path = "/bin/true";
  options.lost_after = absl::Seconds(60);  // a busy machine is not a lost host
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

std::unique_ptr<FakeAgent> Dial(const Coordinator& coordinator, int executor_id) {
  FakeAgentOptions options = FakeAgentOptions::For(coordinator);
  options.executor_id = executor_id;
  options.node_address = absl::StrCat("127.0.0.1:", 100 + executor_id);
  return std::make_unique<FakeAgent>(options);
}

ClusterMembersResolverOptions OptionsFor(const Coordinator& coordinator) {
  ClusterMembersResolverOptions options;
  options.client.address = coordinator.address();
  options.client.ca_pem = coordinator.ca_pem();
  options.client.identity_pem = coordinator.viewer_identity_pem();
  options.client.viewer_token = coordinator.tokens().viewer;
  options.client.timeout = kLong;
  return options;
}

std::unique_ptr<ClusterMembersResolver> ResolverFor(ClusterMembersResolverOptions options) {
  auto resolver = ClusterMembersResolver::Create(std::move(options));
  EXPECT_THAT(resolver, IsOk());
  return *std::move(resolver);
}

TEST(ClusterMembersResolverTest, AsksTheCoordinatorEachTime) {
  const auto coordinator = StartCluster();
  const auto resolver = ResolverFor(OptionsFor(*coordinator));
  EXPECT_THAT(resolver->cluster_spec(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("have 0 of 2 nodes"), HasSubstr("ps:0 is requested"),
                             HasSubstr(coordinator->cluster_id()))));
  const auto ps = Dial(*coordinator, 0);
  const auto worker = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  const auto spec = resolver->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(), R"({"ps":["127.0.0.1:100"],"worker":["127.0.0.1:101"]})");
  EXPECT_THAT(resolver->master("worker", 0, "grpc"), IsOkAndHolds("grpc://127.0.0.1:101"));
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(std::nullopt));

  worker->SendExit({.kind = ExitStatus::Kind::kExited, .code = 3}, {"out of luck"});
  ASSERT_THAT(coordinator->WaitFailure(kLong), Not(IsOk()));
  EXPECT_THAT(resolver->cluster_spec(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has failed: worker:0")));
}

TEST(ClusterMembersResolverTest, AvailableMembersAreEnoughWhereThatIsAsked) {
  const auto coordinator = StartCluster();
  auto options = OptionsFor(*coordinator);
  options.completeness = MemberCompleteness::kAvailable;
  const auto resolver = ResolverFor(options);
  const auto worker = Dial(*coordinator, 1);
  ASSERT_TRUE(worker->WaitRegistered(kLong));
  const auto spec = resolver->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(), R"({"worker":["127.0.0.1:101"]})");
  options.completeness = MemberCompleteness::kWait;
  options.wait_timeout = absl::Milliseconds(50);
  EXPECT_THAT(ResolverFor(options)->cluster_spec(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("have 1 of 2")));
}

TEST(ClusterMembersResolverTest, AWatchIsPushedAndSaysWhenTheClusterIsGone) {
  auto coordinator = StartCluster();
  const auto resolver = ResolverFor(OptionsFor(*coordinator));
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback());
  ASSERT_THAT(watch, IsOk());
  const auto first = updates.WaitForNext(
      [](const MembershipUpdate& update) { return absl::IsFailedPrecondition(update.status); });
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->epoch, 0);
  const auto ps = Dial(*coordinator, 0);
  const auto worker = Dial(*coordinator, 1);
  const auto complete =
      updates.WaitForNext([](const MembershipUpdate& update) { return update.status.ok(); });
  ASSERT_TRUE(complete.has_value());
  EXPECT_EQ(complete->epoch, 1);
  EXPECT_EQ(
      complete->diff.ToString(),
      "added job ps; added job worker; added ps:0 127.0.0.1:100; added worker:0 127.0.0.1:101");
  coordinator->Shutdown();
  coordinator.reset();
  const auto gone = updates.WaitForNext([](const MembershipUpdate& update) {
    return absl::IsUnavailable(update.status) && update.epoch == 1;
  });
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->spec.total_tasks(), 2u);
}

TEST(ClusterMembersResolverTest, AcceleratorsAreThoseThatTheClusterDealt) {
  const auto coordinator = StartCluster();
  auto options = OptionsFor(*coordinator);
  options.count_accelerators = [] { return std::map<std::string, int>{{"GPU", 8}}; };
  const auto resolver = ResolverFor(std::move(options));
  const auto ps = Dial(*coordinator, 0);
  const auto worker = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(ElementsAre(Pair("GPU", 8))));
  EXPECT_THAT(resolver->num_accelerators("worker", 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker:0 is running")));
  EXPECT_THAT(resolver->num_accelerators("worker", 7), StatusIs(absl::StatusCode::kNotFound));
  v1::AgentMessage sample;
  sample.mutable_sample()->add_claimed_gpus("GPU-a");
  sample.mutable_sample()->add_claimed_gpus("GPU-b");
  worker->Send(sample);
  v1::AgentMessage nothing;
  nothing.mutable_sample();
  ps->Send(nothing);
  ASSERT_TRUE(Eventually([&] {
    return !absl::IsFailedPrecondition(resolver->num_accelerators("worker", 0).status()) &&
           !absl::IsFailedPrecondition(resolver->num_accelerators("ps", 0).status());
  }));
  EXPECT_THAT(resolver->num_accelerators("worker", 0), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
  EXPECT_THAT(resolver->num_accelerators("ps", 0), IsOkAndHolds(IsEmpty()));
  ASSERT_THAT(resolver->set_task_type("worker"), IsOk());
  ASSERT_THAT(resolver->set_task_id(0), IsOk());
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
}

TEST(ClusterMembersResolverTest, ANodeOfTheClusterKnowsItsTask) {
  const auto coordinator = StartCluster();
  const auto folder = TempDir::Create("cluster-members-test");
  ASSERT_THAT(folder, IsOk());
  const std::string path = folder->path() + "/context.json";
  setenv("MILLRACE_CONTEXT_FILE", path.c_str(), 1);
  const auto write = [&](const std::string& text) {
    ASSERT_THAT(WriteFileAtomic(path, text), IsOk());
  };
  const auto resolver = ResolverFor(OptionsFor(*coordinator));
  write(absl::StrCat(R"({"cluster_id": ")", coordinator->cluster_id(),
                     R"(", "job_name": "worker", "task_index": 0})"));
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(std::optional<std::string>("worker")));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::optional<int>(0)));
  write(R"({"cluster_id": "another", "job_name": "worker", "task_index": 0})");
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(std::nullopt));
  write("{");
  EXPECT_THAT(resolver->task_id(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MILLRACE_CONTEXT_FILE")));
  unsetenv("MILLRACE_CONTEXT_FILE");
}

TEST(ClusterMembersResolverTest, WrongSecretsAndNoCoordinatorAreTold) {
  auto coordinator = StartCluster();
  auto options = OptionsFor(*coordinator);
  options.client.viewer_token = "wrong";
  const auto resolver = ResolverFor(options);
  EXPECT_THAT(resolver->cluster_spec(), StatusIs(absl::StatusCode::kUnauthenticated));
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback());
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor(
      [](const MembershipUpdate& update) { return absl::IsUnauthenticated(update.status); }));
  options = OptionsFor(*coordinator);
  coordinator->Shutdown();
  coordinator.reset();
  EXPECT_THAT(ResolverFor(options)->cluster_spec(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(options.client.address)));
  options.cluster = "abc";
  EXPECT_THAT(ClusterMembersResolver::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ClusterMembersResolverTest, AClusterFileIsEnough) {
  const auto coordinator = StartCluster();
  const auto folder = TempDir::Create("cluster-members-test");
  ASSERT_THAT(folder, IsOk());
  setenv("MILLRACE_CLUSTERS_DIR", folder->path().c_str(), 1);
  EXPECT_THAT(ClusterMembersResolver::Create({}), StatusIs(absl::StatusCode::kNotFound));
  const auto path = WriteClusterFile({.cluster_id = coordinator->cluster_id(),
                                      .address = coordinator->address(),
                                      .ca_pem = coordinator->ca_pem(),
                                      .identity_pem = coordinator->viewer_identity_pem(),
                                      .viewer_token = coordinator->tokens().viewer});
  ASSERT_THAT(path, IsOk());
  const auto ps = Dial(*coordinator, 0);
  const auto worker = Dial(*coordinator, 1);
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  EXPECT_THAT(ResolverFor({})->cluster_spec(), IsOk());
  EXPECT_THAT(ResolverFor({.cluster = coordinator->cluster_id()})->cluster_spec(), IsOk());
  unsetenv("MILLRACE_CLUSTERS_DIR");
}

}  // namespace
}  // namespace millrace
