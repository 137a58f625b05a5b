#include "millrace/kubernetes_resolver.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/pod_port.h"
#include "resolver/kubernetes/client/fake_kubernetes_client.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/kubernetes/client/pod.h"
#include "resolver/kubernetes/kubernetes_resolver_fixture.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_identity.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST_F(KubernetesResolverTest, AsksAfreshEachTime) {
  client_->Put(MakePod("w", 0));
  const auto resolver = Create();
  EXPECT_EQ(resolver->cluster_spec()->ToJson(), R"({"worker":["10.0.0.0:8470"]})");
  client_->Put(MakePod("w", 1));
  EXPECT_EQ(resolver->cluster_spec()->ToJson(), R"({"worker":["10.0.0.0:8470","10.0.0.1:8470"]})");
  client_->FailLists(absl::PermissionDeniedError("apply this Role"));
  EXPECT_THAT(resolver->cluster_spec(), StatusIs(absl::StatusCode::kPermissionDenied,
                                                 "job \"worker\" (app=w): apply this Role"));
}

TEST_F(KubernetesResolverTest, KeepsTheOrderOfJobsAndTheirRules) {
  options_.job_to_label_mapping = {{"worker", {"app=w"}}, {"ps", {"app=p"}}, {"chief", {"app=c"}}};
  options_.ports.emplace("ps", PodPort::Container("grpc"));
  options_.ports.emplace("chief", PodPort::Number(1));
  client_->Put(MakePod("c", 0));
  client_->Put(MakePod("w", 0));
  Pod ps = MakePod("p", 0);
  ps.ports = {{"grpc", 7000}};
  ps.pod_ip = "fd00::1";
  client_->Put(ps);
  EXPECT_EQ(Spec(),
            R"({"worker":["10.0.0.0:8470"],"ps":["[fd00::1]:7000"],"chief":["10.0.0.0:1"]})");
}

TEST_F(KubernetesResolverTest, ThePortOfATaskIsThatOfItsJobOrElseTfServerPort) {
  options_.tf_server_port = 9000;
  options_.job_to_label_mapping = {{"worker", {"app=w"}}, {"chief", {"app=c"}}};
  options_.ports.emplace("chief", PodPort::Number(1));
  client_->Put(MakePod("c", 0));
  client_->Put(MakePod("w", 0));
  EXPECT_EQ(Spec(), R"({"worker":["10.0.0.0:9000"],"chief":["10.0.0.0:1"]})");
}

TEST_F(KubernetesResolverTest, OrdersTwelvePodsByNumber) {
  std::string expected;
  for (int i = 11; i >= 0; --i) client_->Put(MakePod("w", i));
  for (int i = 0; i < 12; ++i) {
    absl::StrAppend(&expected, i == 0 ? "" : ",", "\"10.0.0.", i, ":8470\"");
  }
  EXPECT_EQ(Spec(), absl::StrCat("{\"worker\":[", expected, "]}"));
}

TEST_F(KubernetesResolverTest, LooksInOneNamespaceUnlessAskedForAll) {
  client_->Put(MakePod("w", 0));
  Pod elsewhere = MakePod("w", 1);
  elsewhere.namespace_name = "other";
  client_->Put(elsewhere);
  EXPECT_EQ(Spec(), R"({"worker":["10.0.0.0:8470"]})");
  options_.namespace_name = "";
  options_.all_namespaces = true;
  EXPECT_EQ(Spec(), R"({"worker":["10.0.0.0:8470","10.0.0.1:8470"]})");
}

TEST_F(KubernetesResolverTest, FindsItsNamespace) {
  options_.namespace_name = "";
  options_.identity = PodIdentity{.name = "me", .namespace_name = "mine"};
  client_->Put(MakePod("w", 0));
  EXPECT_THAT(Spec(), HasSubstr("in namespace mine"));
  options_.identity = PodIdentity{};
  EXPECT_THAT(Spec(), HasSubstr("in namespace default"));
  options_.override_client = nullptr;
  options_.job_to_label_mapping = {};
  for (const bool in_cluster : {false, true}) {
    hooks_.config_loader = std::make_shared<FakeConfigLoader>(in_cluster);
    EXPECT_EQ(Spec(), R"({"worker":["10.0.0.0:8470"]})");
  }
}

TEST_F(KubernetesResolverTest, FindsTheServerAsItsOptionsSay) {
  options_.override_client = nullptr;
  const auto calls = [&](bool in_cluster) {
    const auto loader = std::make_shared<FakeConfigLoader>(in_cluster);
    hooks_.config_loader = loader;
    const auto resolver = Create();
    (void)resolver->cluster_spec();
    return loader->calls();
  };
  EXPECT_THAT(calls(true), ElementsAre("load_incluster_config"));
  EXPECT_THAT(calls(false), ElementsAre("load_kube_config"));
  options_.executable_location = ExecutableLocation::kOffCluster;
  options_.context = "prod";
  EXPECT_THAT(calls(true), ElementsAre("load_kube_config prod"));
  options_.executable_location = ExecutableLocation::kAutomatic;
  EXPECT_THAT(calls(true), ElementsAre("load_kube_config prod"));
  options_.executable_location = ExecutableLocation::kWithinCluster;
  EXPECT_THAT(calls(false), ElementsAre("load_incluster_config"));

  const auto loader = std::make_shared<FakeConfigLoader>(false);
  loader->fault = absl::NotFoundError("no kubeconfig");
  hooks_.config_loader = loader;
  EXPECT_THAT(internal::MakeKubernetesResolver(options_, hooks_),
              StatusIs(absl::StatusCode::kNotFound, "no kubeconfig"));
}

TEST_F(KubernetesResolverTest, RefusesOptionsThatContradictThemselves) {
  const auto expect = [&](const std::function<void(KubernetesResolverOptions*)>& change,
                          const std::string& message) {
    KubernetesResolverOptions options = options_;
    change(&options);
    EXPECT_THAT(KubernetesResolver::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect([](auto* o) { o->job_to_label_mapping = {{"", {"a=b"}}}; }, "no name");
  expect([](auto* o) { o->job_to_label_mapping = {{"w", {}}}; }, "\"w\" has no label selector");
  expect(
      [](auto* o) {
        o->job_to_label_mapping = {{"w", {"a=b", " "}}};
      },
      "\"w\" has an empty label selector");
  expect([](auto* o) { o->job_to_label_mapping = {{"w", {"a"}}, {"w", {"b"}}}; }, "there twice");
  expect([](auto* o) { o->ports.emplace("ps", PodPort::Number(1)); }, "job \"ps\"");
  expect([](auto* o) { o->expected_tasks["ps"] = 1; }, "job \"ps\"");
  expect([](auto* o) { o->expected_tasks["worker"] = -1; }, "cannot have -1 tasks");
  expect([](auto* o) { o->tf_server_port = 0; }, "tf_server_port");
  expect([](auto* o) { o->tf_server_port = 65536; }, "tf_server_port");
  expect([](auto* o) { o->all_namespaces = true; }, "choose one");
  expect([](auto* o) { o->timeout = absl::ZeroDuration(); }, "timeout must be above 0");
  expect([](auto* o) { o->wait_timeout = absl::ZeroDuration(); }, "wait_timeout");
  expect([](auto* o) { o->max_backoff = -absl::Seconds(1); }, "max_backoff");
  expect([](auto* o) { o->properties.task_id = -1; }, "task_id");
}

TEST_F(KubernetesResolverTest, SkipsPodsThatHaveEndedOrAreBeingDeleted) {
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("w", 1, "Succeeded"));
  client_->Put(MakePod("w", 2, "Failed"));
  Pod going = MakePod("w", 3);
  going.terminating = true;
  client_->Put(going);
  for (const auto policy : {MemberCompleteness::kRequireAll, MemberCompleteness::kAvailable}) {
    options_.completeness = policy;
    EXPECT_EQ(Spec(), R"({"worker":["10.0.0.0:8470"]})");
  }
}

TEST_F(KubernetesResolverTest, RequiresAllPodsByDefault) {
  EXPECT_THAT(Create()->cluster_spec(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                 HasSubstr("no pod matches \"app=w\"")));
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("w", 1, "Pending"));
  EXPECT_THAT(Create()->cluster_spec(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("w-1 is Pending"), HasSubstr("in namespace ml"))));
  options_.completeness = MemberCompleteness::kAvailable;
  EXPECT_EQ(Spec(), R"({"worker":["10.0.0.0:8470"]})");
}

TEST_F(KubernetesResolverTest, WaitsUntilThePodsAreComplete) {
  options_.completeness = MemberCompleteness::kWait;
  options_.expected_tasks = {{"worker", 2}};
  client_->Put(MakePod("w", 0));
  const auto resolver = Create();
  std::string spec;
  Thread waiter("waiter", [&] {
    const absl::StatusOr<ClusterSpec> answer = resolver->cluster_spec();
    spec = answer.ok() ? answer->ToJson() : answer.status().ToString();
  });
  ASSERT_TRUE(client_->WaitUntil([&] { return client_->running_watches() == 1; }));
  // Not even a lost server ends the wait.
  client_->EndWatches(absl::UnavailableError("cut"));
  client_->Put(MakePod("w", 1, "Pending"));
  client_->Put(MakePod("w", 1));
  waiter.Join();
  EXPECT_EQ(spec, R"({"worker":["10.0.0.0:8470","10.0.0.1:8470"]})");
  // What is complete already is not waited for.
  const int watches = client_->watches();
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_EQ(client_->watches(), watches);
}

TEST_F(KubernetesResolverTest, WaitsNoLongerThanItMay) {
  FakeClock clock;
  options_.completeness = MemberCompleteness::kWait;
  options_.wait_timeout = absl::Hours(3);
  hooks_.clock = &clock;
  client_->Put(MakePod("w", 0, "Pending"));
  const auto resolver = Create();
  absl::Status status;
  Thread waiter("waiter", [&] { status = resolver->cluster_spec().status(); });
  ASSERT_TRUE(client_->WaitUntil([&] { return client_->running_watches() == 1; }));
  clock.AdvanceWall(absl::Hours(100));  // a jump of the date
  clock.Advance(absl::Hours(2));
  client_->Put(MakePod("w", 1, "Pending"));
  clock.Advance(absl::Hours(1) + absl::Seconds(1));
  waiter.Join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("waited 3h; "), HasSubstr("w-0 is Pending"))));
}

TEST_F(KubernetesResolverTest, DoesNotWaitForWhatWaitingCannotChange) {
  options_.completeness = MemberCompleteness::kWait;
  for (const auto code : {absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnauthenticated,
                          absl::StatusCode::kInvalidArgument}) {
    client_->FailLists(absl::Status(code, "no"));
    EXPECT_THAT(Create()->cluster_spec(), StatusIs(code));
  }
  // The right to list, without the right to watch.
  client_->FailLists(absl::OkStatus());
  client_->FailWatches(absl::PermissionDeniedError("need watch"));
  EXPECT_THAT(Create()->cluster_spec(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("need watch")));
}

TEST_F(KubernetesResolverTest, KnowsWhichTaskItIs) {
  options_.job_to_label_mapping = {{"ps", {"app=p"}}, {"worker", {"app=w"}}};
  client_->Put(MakePod("p", 0));
  for (int i = 0; i < 3; ++i) client_->Put(MakePod("w", i));
  const auto expect = [&](const PodIdentity& identity, std::optional<std::string> type,
                          std::optional<int> id, const std::string& master) {
    options_.identity = identity;
    const auto resolver = Create();
    EXPECT_THAT(resolver->task_type(), IsOkAndHolds(type));
    EXPECT_THAT(resolver->task_id(), IsOkAndHolds(id));
    EXPECT_THAT(resolver->master(), IsOkAndHolds(master));
  };
  expect({.uid = "uid-w-2"}, "worker", 2, "grpc://10.0.0.2:8470");
  expect({.name = "w-1", .namespace_name = "ml"}, "worker", 1, "grpc://10.0.0.1:8470");
  expect({.name = "p-0"}, std::nullopt, std::nullopt, "");  // of another namespace
  expect({.name = "driver", .namespace_name = "ml", .uid = "d"}, std::nullopt, std::nullopt, "");
  // A new pod of the name is another pod.
  expect({.name = "w-1", .namespace_name = "ml", .uid = "old"}, std::nullopt, std::nullopt, "");
}

TEST_F(KubernetesResolverTest, ReadsItsIdentityFromTheEnvironment) {
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("w", 1));
  options_.identity = std::nullopt;
  options_.namespace_name = "";
  setenv("POD_NAME", "w-1", 1);
  setenv("POD_NAMESPACE", "ml", 1);
  const auto resolver = Create();
  unsetenv("POD_NAME");
  unsetenv("POD_NAMESPACE");
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::optional<int>(1)));
}

TEST_F(KubernetesResolverTest, WhatIsSetCountsMoreThanItsPod) {
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("w", 1));
  options_.identity = PodIdentity{.uid = "uid-w-1"};
  const auto resolver = Create();
  EXPECT_THAT(resolver->set_task_id(0), IsOk());
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::optional<int>(0)));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://10.0.0.0:8470"));
  EXPECT_THAT(resolver->master("worker", 1), IsOkAndHolds("grpc://10.0.0.1:8470"));
  EXPECT_THAT(resolver->master("worker", 1, ""), IsOkAndHolds("10.0.0.1:8470"));
  EXPECT_THAT(resolver->master("worker", 1, "http"), IsOkAndHolds("http://10.0.0.1:8470"));
  EXPECT_THAT(resolver->set_rpc_layer("grpcs"), IsOk());
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpcs://10.0.0.0:8470"));
  EXPECT_THAT(resolver->master("worker", 7),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("No task with index 7")));
  EXPECT_THAT(resolver->environment(), IsOkAndHolds(std::optional<std::string>("")));
}

TEST_F(KubernetesResolverTest, ItsOptionsMaySayWhichTaskItIs) {
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("w", 1));
  options_.identity = PodIdentity{.uid = "uid-w-1"};
  options_.properties = {.task_type = "worker", .task_id = 0};
  EXPECT_THAT(Create()->master(), IsOkAndHolds("grpc://10.0.0.0:8470"));
  options_.properties.rpc_layer = "";
  EXPECT_THAT(Create()->master(), IsOkAndHolds("10.0.0.0:8470"));
}

TEST_F(KubernetesResolverTest, CountsTheGpusInTheLimitsOfOtherPods) {
  Pod other = MakePod("w", 0);
  other.accelerators = {{"GPU", 8}};
  client_->Put(other);
  client_->Put(MakePod("w", 1));
  options_.identity = PodIdentity{.uid = "uid-w-1"};
  options_.count_accelerators = [] { return std::map<std::string, int>{{"GPU", 2}}; };
  const auto resolver = Create();
  EXPECT_THAT(resolver->num_accelerators("worker", 0), IsOkAndHolds(ElementsAre(Pair("GPU", 8))));
  EXPECT_THAT(resolver->num_accelerators("worker", 1), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
  EXPECT_THAT(resolver->num_accelerators(std::nullopt, 0),
              IsOkAndHolds(ElementsAre(Pair("GPU", 8))));
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
  EXPECT_THAT(resolver->num_accelerators("worker", 2), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(resolver->num_accelerators("ps", 0), StatusIs(absl::StatusCode::kNotFound));
  options_.identity = PodIdentity{};
  EXPECT_THAT(Create()->num_accelerators("worker"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Create()->num_accelerators("worker", 1), IsOkAndHolds(IsEmpty()));
}

}  // namespace
}  // namespace millrace
