#include "resolver/every/kubernetes_resolver_from_json.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_resolver.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/pod_port.h"
#include "millrace/tensorflow_error.h"
#include "resolver/every/basic_resolvers.h"
#include "resolver/kubernetes/client/fake_kubernetes_client.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_member.h"
#include "resolver/resolver_from_json.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

absl::StatusOr<KubernetesResolverOptions> Read(
    absl::string_view text, ResolverBehavior behavior = ResolverBehavior::kCorrect) {
  const absl::StatusOr<OrderedJson> description = ParseOrderedJson(text);
  EXPECT_THAT(description, IsOk());
  return KubernetesOptionsFromJson(*description, behavior, "k");
}

TEST(KubernetesOptionsFromJsonTest, ReadsEveryOption) {
  const absl::StatusOr<KubernetesResolverOptions> options = Read(R"({
    "type": "kubernetes",
    "job_to_label_mapping": {"worker": ["a=b", "c"], "ps": "d"},
    "tf_server_port": 9000, "ports": {"worker": 7000, "ps": "grpc", "chief": "annotation:p"},
    "address": "dns", "cluster_domain": "corp.local", "rpc_layer": "http",
    "namespace": "ml", "all_namespaces": true,
    "completeness": "wait", "expected_tasks": {"worker": 4}, "wait_timeout_s": 1.5,
    "require_ready": true, "timeout_s": 2, "max_backoff_s": 3,
    "executable_location": "off_cluster", "kubeconfig": "/k", "context": "prod",
    "task_type": "worker", "task_id": 3})");
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->job_to_label_mapping,
              ElementsAre(Pair("worker", ElementsAre("a=b", "c")), Pair("ps", ElementsAre("d"))));
  EXPECT_EQ(options->tf_server_port, 9000);
  EXPECT_THAT(options->ports, ElementsAre(Pair("chief", PodPort::Annotation("p")),
                                          Pair("ps", PodPort::Container("grpc")),
                                          Pair("worker", PodPort::Number(7000))));
  EXPECT_EQ(options->address, PodAddress::kDns);
  EXPECT_EQ(options->cluster_domain, "corp.local");
  EXPECT_EQ(options->properties.rpc_layer, "http");
  EXPECT_EQ(options->namespace_name, "ml");
  EXPECT_TRUE(options->all_namespaces);
  EXPECT_EQ(options->completeness, MemberCompleteness::kWait);
  EXPECT_THAT(options->expected_tasks, ElementsAre(Pair("worker", 4)));
  EXPECT_EQ(options->wait_timeout, absl::Milliseconds(1500));
  EXPECT_TRUE(options->require_ready);
  EXPECT_EQ(options->timeout, absl::Seconds(2));
  EXPECT_EQ(options->max_backoff, absl::Seconds(3));
  EXPECT_EQ(options->executable_location, ExecutableLocation::kOffCluster);
  EXPECT_EQ(options->kubeconfig, "/k");
  EXPECT_EQ(options->context, "prod");
  EXPECT_EQ(options->properties.task_type, "worker");
  EXPECT_EQ(options->properties.task_id, 3);
}

TEST(KubernetesOptionsFromJsonTest, LeavesDefaultsWhereNothingIsSaid) {
  for (const char* text : {"{}", R"({"tf_server_port": null, "ports": null, "address": null,
      "expected_tasks": null, "job_to_label_mapping": null, "task_id": null, "timeout_s": null})"}) {
    const absl::StatusOr<KubernetesResolverOptions> options = Read(text);
    ASSERT_THAT(options, IsOk());
    EXPECT_THAT(options->job_to_label_mapping, IsEmpty());
    EXPECT_EQ(options->tf_server_port, 8470);
    EXPECT_EQ(options->properties.rpc_layer, std::nullopt);
    EXPECT_EQ(options->completeness, MemberCompleteness::kRequireAll);
    EXPECT_EQ(options->timeout, absl::Seconds(30));
    EXPECT_EQ(options->properties.task_id, std::nullopt);
  }
  EXPECT_EQ(Read(R"({"rpc_layer": null})")->properties.rpc_layer, "");
}

TEST(KubernetesOptionsFromJsonTest, NamesTheMemberThatIsWrong) {
  const auto expect = [](absl::string_view text, const std::string& message) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  };
  expect("[]", "must be an object, found array");
  expect(R"({"job": 1})", "job");
  expect(R"({"job_to_label_mapping": ["a"]})", "\"k.job_to_label_mapping\" must be an object");
  expect(R"({"job_to_label_mapping": {"w": 1}})", "\"k.job_to_label_mapping.w\" must be a list");
  expect(R"({"job_to_label_mapping": {"w": ["a", 1]}})", "\"k.job_to_label_mapping.w[1]\"");
  expect(R"({"tf_server_port": "8470"})", "\"k.tf_server_port\" must be an integer");
  expect(R"({"tf_server_port": 0})", "k.tf_server_port");
  expect(R"({"ports": []})", "\"k.ports\" must be an object");
  expect(R"({"ports": {"w": 0}})", "field \"k.ports.w\": \"0\" is no port");
  expect(R"({"ports": {"w": 1.5}})", "\"k.ports.w\" must be a port");
  expect(R"({"expected_tasks": {"w": -1}})", "k.expected_tasks.w");
  expect(R"({"expected_tasks": 3})", "k.expected_tasks");
  expect(R"({"address": "ip"})", "\"k.address\" must be one of pod_ip, host_ip, dns; found \"ip\"");
  expect(R"({"completeness": 1})", "k.completeness");
  expect(R"({"executable_location": "here"})", "k.executable_location");
  expect(R"({"timeout_s": 0})", "\"k.timeout_s\" must be above 0 seconds");
  expect(R"({"timeout_s": "1"})", "k.timeout_s");
  expect(R"({"require_ready": 1})", "k.require_ready");
  expect(R"({"namespace": 1})", "k.namespace");
  expect(R"({"task_id": "1"})", "task_id");
}

TEST(KubernetesOptionsFromJsonTest, TakesArgumentsAsTensorFlowDoes) {
  const auto read = [](absl::string_view text) {
    return Read(text, ResolverBehavior::kTensorFlow);
  };
  for (const char* empty : {"null", "{}", "[]", "\"\"", "0", "false"}) {
    const auto options = read(absl::StrCat("{\"job_to_label_mapping\": ", empty, "}"));
    ASSERT_THAT(options, IsOk());
    EXPECT_THAT(options->job_to_label_mapping, IsEmpty());
  }
  EXPECT_THAT(read(R"({"job_to_label_mapping": {"w": "aé=", "p": [], "c": {"x": 1}}})")
                  ->job_to_label_mapping,
              ElementsAre(Pair("w", ElementsAre("a", "é", "=")), Pair("p", IsEmpty()),
                          Pair("c", ElementsAre("x"))));
  EXPECT_EQ(read(R"({"tf_server_port": "http"})")->tf_server_port_text, "http");
  EXPECT_EQ(read(R"({"tf_server_port": null})")->tf_server_port_text, "None");
  EXPECT_EQ(read(R"({"tf_server_port": -1})")->tf_server_port_text, "-1");
  EXPECT_EQ(read("{}")->tf_server_port_text, std::nullopt);
  EXPECT_EQ(read(R"({"rpc_layer": null})")->properties.rpc_layer, "");
  EXPECT_EQ(read(R"({"rpc_layer": 7})")->properties.rpc_layer, "7");
  EXPECT_EQ(read("{}")->properties.rpc_layer, std::nullopt);

  const auto expect = [&](absl::string_view text, const std::string& python_class,
                          const std::string& message) {
    const absl::Status status = read(text).status();
    EXPECT_EQ(TensorFlowErrorClass(status), python_class) << text;
    EXPECT_EQ(status.message(), message);
  };
  expect(R"({"executable_location": "here"})", "ValueError",
         "The executable location provided is invalid.");
  expect(R"({"job_to_label_mapping": {"w": 5}})", "TypeError", "'int' object is not iterable");
  expect(R"({"job_to_label_mapping": {"w": null}})", "TypeError",
         "'NoneType' object is not iterable");
  expect(R"({"job_to_label_mapping": 5})", "TypeError", "'int' object is not iterable");
  expect(R"({"job_to_label_mapping": ["w"]})", "TypeError",
         "list indices must be integers or slices, not str");
  expect(R"({"job_to_label_mapping": "w"})", "TypeError",
         "string indices must be integers, not 'str'");
  expect(R"({"port": 5})", "TypeError",
         "KubernetesClusterResolver.__init__() got an unexpected keyword argument 'port'");
}

TEST(KubernetesOptionsFromJsonTest, ATensorFlowPortMayBeAnything) {
  const auto client = std::make_shared<FakeKubernetesClient>();
  client->Put(
      {.name = "a", .phase = "Running", .host_ip = "h", .labels = {{"job-name", "tensorflow"}}});
  absl::StatusOr<KubernetesResolverOptions> options =
      Read(R"({"tf_server_port": "x", "rpc_layer": null})", ResolverBehavior::kTensorFlow);
  ASSERT_THAT(options, IsOk());
  options->override_client = client;
  const auto resolver = KubernetesResolver::Create(*std::move(options));
  ASSERT_THAT(resolver, IsOk());
  EXPECT_THAT((*resolver)->master("worker", 0), IsOkAndHolds("h:x"));
}

TEST(MakeKubernetesResolverFromJsonTest, IsAMaker) {
  ResolverMakers makers = BasicResolverMakers();
  makers.by_type["kubernetes"] = MakeKubernetesResolverFromJson;
  const absl::StatusOr<OrderedJson> description = ParseOrderedJson(
      R"({"type": "kubernetes", "kubeconfig": "/nowhere/config", "job_to_label_mapping": {"w": []}})");
  ASSERT_THAT(description, IsOk());
  EXPECT_THAT(ResolverFromJson(*description, makers),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no label selector")));
}

}  // namespace
}  // namespace millrace
