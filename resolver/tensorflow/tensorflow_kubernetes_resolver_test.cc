// KubernetesResolver with ResolverBehavior::kTensorFlow.

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_resolver.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/tensorflow_error.h"
#include "resolver/kubernetes/client/fake_kubernetes_client.h"
#include "resolver/kubernetes/client/pod.h"
#include "resolver/kubernetes/kubernetes_resolver_fixture.h"
#include "resolver/kubernetes/pod_identity.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using testing::ElementsAre;

class TensorFlowKubernetesResolverTest : public KubernetesResolverTest {
 protected:
  TensorFlowKubernetesResolverTest() {
    options_ = {};
    options_.behavior = ResolverBehavior::kTensorFlow;
    options_.override_client = client_;
  }
  static Pod TensorFlowPod(const std::string& name, const std::string& host_ip,
                           const std::string& labels = "tensorflow") {
    return {.name = name,
            .namespace_name = absl::StrCat("of-", name),
            .phase = "Running",
            .host_ip = host_ip,
            .pod_ip = "never",
            .labels = {{"job-name", labels}}};
  }
  void ExpectRaises(const std::string& python_class, const std::string& message) {
    const absl::Status status = Create()->cluster_spec().status();
    EXPECT_EQ(TensorFlowErrorClass(status), python_class);
    EXPECT_EQ(status.message(), message);
  }
};

TEST_F(TensorFlowKubernetesResolverTest, AnswersAsTensorFlowDoes) {
  EXPECT_EQ(Spec(), R"({"worker":{}})");
  for (const char* name : {"w-10", "w-2", "w-1"}) client_->Put(TensorFlowPod(name, name));
  client_->Put(TensorFlowPod("w-3", "fd00::1"));
  Pod going = TensorFlowPod("w-4", "");
  going.terminating = true;
  client_->Put(going);
  options_.tf_server_port = 7;
  EXPECT_EQ(Spec(), R"({"worker":["w-1:7","w-10:7","w-2:7","fd00::1:7","None:7"]})");
}

TEST_F(TensorFlowKubernetesResolverTest, SortsWithinASelectorAndRepeatsPods) {
  client_->Put(TensorFlowPod("b", "B", "x"));
  client_->Put(TensorFlowPod("a", "A", "x"));
  client_->Put(TensorFlowPod("c", "C", "y"));
  options_.job_to_label_mapping = {{"ps", {"job-name=y", "job-name=x", "job-name=y"}},
                                   {"empty", {}}};
  EXPECT_EQ(Spec(), R"({"ps":["C:8470","A:8470","B:8470","C:8470"],"empty":{}})");
}

TEST_F(TensorFlowKubernetesResolverTest, RaisesForAPodThatIsNotRunning) {
  Pod pod = TensorFlowPod("a\"b", "A");
  for (const char* phase : {"Pending", "Succeeded", "Failed", "Unknown", ""}) {
    pod.phase = phase;
    client_->Put(pod);
    ExpectRaises("RuntimeError", absl::StrCat("Pod \"a\"b\" is not running; phase: \"",
                                              *phase == '\0' ? "None" : phase, "\""));
  }
}

TEST_F(TensorFlowKubernetesResolverTest, RaisesWhatTheClientRaises) {
  client_->FailLists(absl::PermissionDeniedError("(403)"));
  ExpectRaises("ApiException", "(403)");
  const auto loader = std::make_shared<FakeConfigLoader>(true);
  loader->fault = absl::NotFoundError("no file");
  hooks_.config_loader = loader;
  options_.override_client = nullptr;
  EXPECT_EQ(TensorFlowErrorClass(internal::MakeKubernetesResolver(options_, hooks_).status()),
            "ConfigException");
}

TEST_F(TensorFlowKubernetesResolverTest, AlwaysLoadsTheKubeconfigToAnswer) {
  options_.override_client = nullptr;
  for (const auto location : {ExecutableLocation::kAutomatic, ExecutableLocation::kWithinCluster}) {
    const auto loader = std::make_shared<FakeConfigLoader>(false);
    hooks_.config_loader = loader;
    options_.executable_location = location;
    EXPECT_EQ(Spec(), R"({"worker":["192.168.0.1:8470"]})");
    EXPECT_THAT(loader->calls(), ElementsAre("load_incluster_config", "load_kube_config"));
  }
  const auto loader = std::make_shared<FakeConfigLoader>(true);
  hooks_.config_loader = loader;
  options_.executable_location = ExecutableLocation::kOffCluster;
  EXPECT_EQ(Spec(), R"({"worker":["192.168.0.1:8470"]})");
  EXPECT_THAT(loader->calls(), ElementsAre("load_kube_config", "load_kube_config"));
}

TEST_F(TensorFlowKubernetesResolverTest, NeverKnowsWhichTaskItIs) {
  client_->Put(TensorFlowPod("a", "A"));
  options_.identity = PodIdentity{.name = "a", .namespace_name = "of-a"};
  const auto resolver = Create();
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(std::optional<std::string>()));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::optional<int>()));
  EXPECT_THAT(resolver->master(), IsOkAndHolds(""));
  EXPECT_THAT(resolver->master("worker"), IsOkAndHolds(""));
  EXPECT_THAT(resolver->master("worker", 0), IsOkAndHolds("grpc://A:8470"));
  EXPECT_THAT(resolver->master("worker", 0, ""), IsOkAndHolds("grpc://A:8470"));
  EXPECT_THAT(resolver->master("worker", 0, "x"), IsOkAndHolds("x://A:8470"));
  const absl::Status status = resolver->master("worker", 1).status();
  EXPECT_EQ(TensorFlowErrorClass(status), "ValueError");
  EXPECT_EQ(status.message(), "No task with index 1 in job 'worker'");
}

TEST_F(TensorFlowKubernetesResolverTest, IsWatchedByAsking) {
  client_->Put(TensorFlowPod("a", "A"));
  UpdateRecorder updates;
  const auto resolver = Create();
  const auto watch = resolver->Watch(updates.callback(), {.poll_interval = absl::Milliseconds(1)});
  ASSERT_THAT(watch, IsOk());
  AwaitSpec(updates, R"({"worker":["A:8470"]})");
  client_->Put(TensorFlowPod("b", "B"));
  AwaitSpec(updates, R"({"worker":["A:8470","B:8470"]})");
  EXPECT_EQ(client_->watches(), 0);
}

}  // namespace
}  // namespace millrace
