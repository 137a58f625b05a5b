// File: resolver/kubernetes/kubernetes_resolver_fixture.h
//
// What the tests of KubernetesResolver have in common: pods, a loader of configurations, waits for
// the updates of a watch. Test only.
//
// Defines: MakePod(), AwaitSpec(), AwaitStatus(), FakeConfigLoader, KubernetesResolverTest.

#ifndef RESOLVER_KUBERNETES_KUBERNETES_RESOLVER_FIXTURE_H_
#define RESOLVER_KUBERNETES_KUBERNETES_RESOLVER_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/membership.h"
#include "resolver/every/make_kubernetes_resolver.h"
#include "resolver/kubernetes/client/fake_kubernetes_client.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/kubernetes/client/pod.h"
#include "resolver/kubernetes/pod_identity.h"
#include "resolver/kubernetes/pod_resolver.h"
#include "resolver/update_recorder.h"

namespace millrace {

inline Pod MakePod(const std::string& app, int i, const std::string& phase = "Running") {
  return {.name = absl::StrCat(app, "-", i),
          .namespace_name = "ml",
          .phase = phase,
          .host_ip = "192.168.0.1",
          .pod_ip = phase == "Running" ? absl::StrCat("10.0.0.", i) : "",
          .labels = {{"app", app}}};
}

// The next update with this spec, as UpdateRecorder::WaitForNext; the test fails without it.
inline MembershipUpdate AwaitSpec(UpdateRecorder& updates, const std::string& json) {
  const std::optional<MembershipUpdate> update =
      updates.WaitForNext([&](const MembershipUpdate& candidate) {
        return candidate.status.ok() && candidate.spec.ToJson() == json;
      });
  EXPECT_TRUE(update.has_value()) << json;
  return update.value_or(MembershipUpdate());
}
// The same for the next one with such a status.
inline MembershipUpdate AwaitStatus(UpdateRecorder& updates, absl::StatusCode code) {
  const std::optional<MembershipUpdate> update = updates.WaitForNext(
      [&](const MembershipUpdate& candidate) { return candidate.status.code() == code; });
  EXPECT_TRUE(update.has_value()) << absl::StatusCodeToString(code);
  return update.value_or(MembershipUpdate());
}

class FakeConfigLoader final : public KubernetesConfigLoader {
 public:
  explicit FakeConfigLoader(bool in_cluster) : in_cluster_(in_cluster) {}

  absl::StatusOr<KubernetesAccess> InCluster() override {
    calls_.push_back("load_incluster_config");
    return Access("own");
  }
  absl::StatusOr<KubernetesAccess> KubeConfig(const std::string& context) override {
    calls_.push_back(absl::StrCat("load_kube_config", context.empty() ? "" : " ", context));
    return Access("of-context");
  }
  bool RunsInCluster() override { return in_cluster_; }

  const std::vector<std::string>& calls() const { return calls_; }
  absl::Status fault;

 private:
  absl::StatusOr<KubernetesAccess> Access(const std::string& namespace_name) const {
    if (!fault.ok()) return fault;
    auto client = std::make_unique<FakeKubernetesClient>();
    Pod pod = MakePod("w", 0);
    pod.namespace_name = namespace_name;
    pod.labels = {{"job-name", "tensorflow"}};
    client->Put(pod);
    return KubernetesAccess{.client = std::move(client), .namespace_name = namespace_name};
  }

  const bool in_cluster_;
  std::vector<std::string> calls_;
};

class KubernetesResolverTest : public testing::Test {
 protected:
  KubernetesResolverTest() {
    options_.job_to_label_mapping = {{"worker", {"app=w"}}};
    options_.namespace_name = "ml";
    options_.override_client = client_;
    options_.identity = PodIdentity{};
    options_.max_backoff = absl::Milliseconds(20);
  }

  std::unique_ptr<KubernetesResolver> Create() { return Create(options_); }
  std::unique_ptr<KubernetesResolver> Create(const KubernetesResolverOptions& options) {
    absl::StatusOr<std::unique_ptr<KubernetesResolver>> resolver =
        internal::MakeKubernetesResolver(options, hooks_);
    EXPECT_THAT(resolver, IsOk());
    return resolver.ok() ? *std::move(resolver) : nullptr;
  }
  std::string Spec() {
    const absl::StatusOr<ClusterSpec> spec = Create()->cluster_spec();
    return spec.ok() ? spec->ToJson() : spec.status().ToString();
  }

  std::shared_ptr<FakeKubernetesClient> client_ = std::make_shared<FakeKubernetesClient>();
  KubernetesResolverOptions options_;
  internal::KubernetesHooks hooks_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_KUBERNETES_RESOLVER_FIXTURE_H_
