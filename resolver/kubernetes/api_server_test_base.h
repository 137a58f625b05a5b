// File: resolver/kubernetes/api_server_test_base.h
//
// What the tests against a real API server have in common: one server for all tests of a program, a
// namespace for each test, clients, and a log of a watch.
//
// Defines: ApiServerTest, UpdateLog.

#ifndef RESOLVER_KUBERNETES_API_SERVER_TEST_BASE_H_
#define RESOLVER_KUBERNETES_API_SERVER_TEST_BASE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/membership.h"
#include "resolver/kubernetes/client/http_kubernetes_client.h"
#include "testing/kube_apiserver/fault_proxy.h"
#include "testing/kube_apiserver/kube_api_server.h"

namespace millrace {

// How long a test waits for what must come. On a loaded machine all of it may be needed.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// The updates of one watch. Thread safety: thread-safe. Must outlive the watch.
class UpdateLog {
 public:
  using Predicate = std::function<bool(const MembershipUpdate&)>;

  [[nodiscard]] MembershipCallback callback();
  // The first update, after the one that was returned before, for which `predicate` holds. Fails
  // the test and returns the last one if none comes.
  MembershipUpdate WaitFor(const std::string& what, const Predicate& predicate);
  // An update with status OK and this spec, as AsText().
  MembershipUpdate WaitForSpec(const std::string& text);
  [[nodiscard]] std::vector<MembershipUpdate> all() const;

 private:
  mutable Mutex mutex_;
  CondVar came_;
  std::vector<MembershipUpdate> updates_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Skips where there is no Go (see //testing/kube_apiserver).
class ApiServerTest : public testing::Test {
 protected:
  void SetUp() override;

  [[nodiscard]] static KubeApiServer& server();
  // Of this test: "t1".
  [[nodiscard]] const std::string& ns() const { return namespace_; }
  [[nodiscard]] PodSelection Pods(const std::string& selector) const { return {ns(), selector}; }

  // Pod "NAME", Running at `ip`, with the label job=`job`.
  void AddPod(const std::string& job, const std::string& name, const std::string& ip) const;

  // A client of the server (or the proxy) with this token.
  [[nodiscard]] static HttpKubernetesClient::Options ClientOptions(
      const std::string& token = KubeApiServer::kAdminToken, const std::string& url = "");
  [[nodiscard]] static std::shared_ptr<KubernetesClient> Client(
      const HttpKubernetesClient::Options& options = ClientOptions());

  // Job "worker" is what job=w selects in ns(), through `client` or else a client of the superuser.
  [[nodiscard]] KubernetesResolverOptions Workers(
      std::shared_ptr<KubernetesClient> client = nullptr) const;

 private:
  std::string namespace_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_API_SERVER_TEST_BASE_H_
