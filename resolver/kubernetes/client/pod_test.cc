#include "resolver/kubernetes/client/pod.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

absl::StatusOr<Pod> Parse(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseJson(text);
  EXPECT_THAT(json, IsOk());
  return PodFromJson(*json);
}

TEST(PodFromJsonTest, ReadsWhatAnApiServerSends) {
  const absl::StatusOr<Pod> pod = Parse(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {
      "name": "worker-3", "namespace": "ml", "uid": "4f", "resourceVersion": "812",
      "labels": {"app": "train"}, "annotations": {"example.com/port": "7000"},
      "ownerReferences": [{"kind": "StatefulSet"}]
    },
    "spec": {
      "hostname": "worker-3", "subdomain": "workers",
      "containers": [
        {"name": "main", "ports": [{"name": "grpc", "containerPort": 8470, "protocol": "TCP"},
                                   {"containerPort": 9090}],
         "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "4"}}},
        {"name": "side", "ports": [{"name": "http", "containerPort": 80}],
         "resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}
      ]
    },
    "status": {
      "phase": "Running", "hostIP": "192.168.0.7", "podIP": "10.1.0.4",
      "podIPs": [{"ip": "10.1.0.4"}, {"ip": "fd00::4"}],
      "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]
    }
  })");
  ASSERT_THAT(pod, IsOk());
  const Pod expected = {.name = "worker-3",
                        .namespace_name = "ml",
                        .uid = "4f",
                        .resource_version = "812",
                        .phase = "Running",
                        .host_ip = "192.168.0.7",
                        .pod_ip = "10.1.0.4",
                        .hostname = "worker-3",
                        .subdomain = "workers",
                        .terminating = false,
                        .ready = true,
                        .labels = {{"app", "train"}},
                        .annotations = {{"example.com/port", "7000"}},
                        .ports = {{"grpc", 8470}, {"", 9090}, {"http", 80}},
                        .accelerators = {{"GPU", 5}}};
  EXPECT_TRUE(*pod == expected);
}

TEST(PodFromJsonTest, LeavesEmptyWhatIsAbsentOrNull) {
  const absl::StatusOr<Pod> pod = Parse(R"({
    "metadata": {"name": "a", "labels": null, "deletionTimestamp": null},
    "spec": {"containers": [{"ports": null, "resources": {"limits": null}}, {}]},
    "status": {"phase": "Pending", "podIPs": [], "conditions": [{"type": "Ready", "status": "False"}]}
  })");
  ASSERT_THAT(pod, IsOk());
  EXPECT_TRUE(*pod == (Pod{.name = "a", .phase = "Pending"}));
  EXPECT_THAT(Parse(R"({"metadata": {"name": "a"}})"), IsOk());
}

TEST(PodFromJsonTest, SeesThatAPodIsBeingDeleted) {
  const absl::StatusOr<Pod> pod = Parse(R"({
    "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"phase": "Running"}})");
  ASSERT_THAT(pod, IsOk());
  EXPECT_TRUE(pod->terminating);
}

TEST(PodFromJsonTest, CountsAcceleratorsOfSeveralVendors) {
  const absl::StatusOr<Pod> pod = Parse(R"({
    "metadata": {"name": "a"},
    "spec": {"containers": [
      {"resources": {"limits": {"amd.com/gpu": 2, "memory": "1Gi"}}},
      {"resources": {"limits": {"google.com/tpu": "8", "nvidia.com/gpu": "0"}}},
      {"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}]}})");
  ASSERT_THAT(pod, IsOk());
  EXPECT_THAT(pod->accelerators, ElementsAre(Pair("GPU", 3), Pair("TPU", 8)));
}

TEST(PodFromJsonTest, NamesThePodAndTheMemberThatIsWrong) {
  const auto expect = [](absl::string_view text, const std::string& message) {
    EXPECT_THAT(Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  };
  expect("[]", "a pod must be an object, found array");
  expect("{}", "metadata");
  expect(R"({"metadata": {"name": ""}})", "its name is empty");
  expect(R"({"metadata": {"name": 7}})", "metadata.name");
  expect(R"({"metadata": {"name": "w", "uid": 7}})", "pod w: field \"metadata.uid\"");
  expect(R"({"metadata": {"name": "w", "labels": {"a": 1}}})", "metadata.labels.a");
  expect(R"({"metadata": {"name": "w", "labels": []}})", "metadata.labels");
  expect(R"({"metadata": {"name": "w"}, "spec": 3})", "spec");
  expect(R"({"metadata": {"name": "w"}, "spec": {"containers": {}}})", "spec.containers");
  expect(R"({"metadata": {"name": "w"}, "spec": {"containers": [1]}})", "spec.containers[]");
  expect(
      R"({"metadata": {"name": "w"}, "spec": {"containers": [{"ports": [{"containerPort": 0}]}]}})",
      "containerPort");
  expect(R"({"metadata": {"name": "w"}, "spec": {"containers": [{"ports": [3]}]}})", "ports[]");
  expect(R"({"metadata": {"name": "w"}, "spec": {"containers": [
             {"resources": {"limits": {"nvidia.com/gpu": "two"}}}]}})",
         "limits.nvidia.com/gpu\": must be a count, found \"two\"");
  expect(R"({"metadata": {"name": "w"}, "spec": {"containers": [
             {"resources": {"limits": {"nvidia.com/gpu": "-1"}}}]}})",
         "must be a count");
  expect(R"({"metadata": {"name": "w"}, "status": {"podIPs": "x"}})", "status.podIPs");
  expect(R"({"metadata": {"name": "w"}, "status": {"phase": []}})", "status.phase");
  expect(R"({"metadata": {"name": "w"}, "status": {"conditions": [{"type": 1}]}})", "conditions[]");
}

}  // namespace
}  // namespace millrace
