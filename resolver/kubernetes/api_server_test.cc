// Lists, rights and credentials against a real API server.

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/pod_port.h"
#include "resolver/every/make_kubernetes_resolver.h"
#include "resolver/kubernetes/api_server_test_base.h"
#include "resolver/kubernetes/client/kube_config.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// An environment variable until the end of the scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnv() { old_.has_value() ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> old_;
};

class ApiServerListTest : public ApiServerTest {
 protected:
  // The spec of job=w in ns(), as text, or the error.
  static absl::StatusOr<std::string> Resolve(KubernetesResolverOptions options) {
    auto resolver = KubernetesResolver::Create(std::move(options));
    if (!resolver.ok()) return resolver.status();
    const auto spec = (*resolver)->cluster_spec();
    if (!spec.ok()) return spec.status();
    return spec->AsText();
  }

  absl::StatusOr<PodList> List(const HttpKubernetesClient::Options& options,
                               absl::Duration timeout = kPatience) const {
    return Client(options)->ListPods(Pods("job=w"), timeout, {});
  }
};

// ---- credentials --------------------------------------------------------------------------------

class ApiServerAccessTest : public ApiServerListTest {
 protected:
  void SetUp() override {
    ApiServerListTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto folder = TempDir::Create("access");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    AddPod("w", "worker-0", "10.1.0.1");
  }

  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string path = JoinPath(folder_->path(), name);
    EXPECT_THAT(WriteFileAtomic(path, text, mode), IsOk());
    return path;
  }

  // A kubeconfig with this cluster and this user, in YAML's flow style.
  std::string KubeConfigFile(const std::string& cluster, const std::string& user) const {
    return Write(
        "config",
        absl::StrCat("apiVersion: v1\nkind: Config\ncurrent-context: here\n",
                     "clusters: [{name: c, cluster: {server: \"", server().url(), "\"", cluster,
                     "}}]\n", "contexts: [{name: here, context: {cluster: c, user: u, ",
                     "namespace: ", ns(), "}}]\n", "users: [{name: u, user: {", user, "}}]\n"));
  }
  static std::string CaData() {
    return absl::StrCat(", certificate-authority-data: ",
                        absl::Base64Escape(server().pki().ca_pem()));
  }
  static std::string Token(absl::string_view token) { return absl::StrCat("token: ", token); }

  absl::StatusOr<std::string> ResolveByKubeConfig(const std::string& path) const {
    KubernetesResolverOptions options = Workers();
    options.override_client = nullptr;
    options.executable_location = ExecutableLocation::kOffCluster;
    options.kubeconfig = path;
    options.namespace_name = "";  // the context's
    options.timeout = absl::Seconds(20);
    return Resolve(std::move(options));
  }

  std::optional<TempDir> folder_;
  const std::string expected_ = "ClusterSpec({'worker': ['10.1.0.1:8470']})";
};

TEST_F(ApiServerAccessTest, APodsServiceAccountSuffices) {
  ASSERT_THAT(server().CreateServiceAccount(ns(), "trainer"), IsOk());
  ASSERT_THAT(
      server().Allow(absl::StrCat("system:serviceaccount:", ns(), ":trainer"), ns(), {"list"}),
      IsOk());
  const auto token = server().ServiceAccountToken(ns(), "trainer");
  ASSERT_THAT(token, IsOk());
  Write("token", "not.a.token");
  Write("ca.crt", server().pki().ca_pem());
  Write("namespace", ns());
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", "127.0.0.1");
  const ScopedEnv port("KUBERNETES_SERVICE_PORT", absl::StrCat(server().port()));

  KubernetesResolverOptions options = Workers();
  options.override_client = nullptr;
  options.namespace_name = "";  // the service account's
  options.executable_location = ExecutableLocation::kWithinCluster;
  RealKubernetesConfigLoader::Options loader;
  loader.service_account.folder = folder_->path();
  const auto resolver = internal::MakeKubernetesResolver(
      options, {.config_loader = std::make_shared<RealKubernetesConfigLoader>(loader)});
  ASSERT_THAT(resolver, IsOk());
  EXPECT_THAT((*resolver)->cluster_spec(),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr(folder_->path())));

  // The kubelet replaces the file; nothing is told about it.
  Write("token", *token);
  const auto spec = (*resolver)->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->AsText(), expected_);
}

TEST_F(ApiServerAccessTest, ATokenThatRotatesBetweenTwoAnswersIsReadAgain) {
  ASSERT_THAT(server().Allow("reader", ns(), {"list"}), IsOk());
  const std::string path = Write("token", KubeApiServer::kReaderToken);
  const auto proxy = FaultProxy::Start(server());
  ASSERT_THAT(proxy, IsOk());
  HttpKubernetesClient::Options options = ClientOptions("", (*proxy)->url());
  options.credentials.token_file = path;
  const auto client = Client(options);
  ASSERT_THAT(client->ListPods(Pods(""), kPatience, {}), IsOk());

  Write("token", "expired");
  const auto refused = std::make_shared<std::atomic<int>>(0);
  (*proxy)->SetRule([this, refused](const std::string&) {
    // The request with the old token is under way when the new one is written.
    if ((*refused)++ == 0) Write("token", KubeApiServer::kReaderToken);
    return ProxyFault();
  });
  EXPECT_THAT(client->ListPods(Pods(""), kPatience, {}), IsOk());
  EXPECT_EQ(*refused, 2);
}

TEST_F(ApiServerAccessTest, AKubeConfigWithATokenSuffices) {
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData(), Token(KubeApiServer::kAdminToken))),
              IsOkAndHolds(expected_));
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData(), Token("wrong"))),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr(server().url())));
}

TEST_F(ApiServerAccessTest, AKubeConfigWithATokenFileSuffices) {
  Write("my-token", KubeApiServer::kAdminToken);
  // Relative to the kubeconfig.
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData(), "tokenFile: my-token")),
              IsOkAndHolds(expected_));
}

TEST_F(ApiServerAccessTest, AKubeConfigWithAClientCertificateSuffices) {
  Write("admin.crt", server().admin().certificate_pem);
  Write("admin.key", server().admin().private_key_pem);
  Write("ca.crt", server().pki().ca_pem());
  EXPECT_THAT(
      ResolveByKubeConfig(KubeConfigFile(", certificate-authority: ca.crt",
                                         "client-certificate: admin.crt, client-key: admin.key")),
      IsOkAndHolds(expected_));
  const std::string data = absl::StrCat(
      "client-certificate-data: ", absl::Base64Escape(server().admin().certificate_pem),
      ", client-key-data: ", absl::Base64Escape(server().admin().private_key_pem));
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData(), data)), IsOkAndHolds(expected_));
}

TEST_F(ApiServerAccessTest, AnotherAuthoritysClientCertificateIsRefusedPlainly) {
  const auto stranger = TestPki::Create("stranger");
  ASSERT_THAT(stranger, IsOk());
  const auto identity =
      (*stranger)->Issue({.common_name = "admin", .organization = "system:masters"});
  ASSERT_THAT(identity, IsOk());
  const std::string data =
      absl::StrCat("client-certificate-data: ", absl::Base64Escape(identity->certificate_pem),
                   ", client-key-data: ", absl::Base64Escape(identity->private_key_pem));
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData(), data)),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(ApiServerAccessTest, AKubeConfigWithAnExecPluginSuffices) {
  const std::string plugin = Write(
      "plugin.sh",
      "#!/bin/sh\n"
      "echo '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", "
      "\"status\": {\"token\": \"'$1'\"}}'\n",
      0700);
  const std::string exec = absl::StrCat(
      "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ",
      plugin, ", args: [");
  EXPECT_THAT(ResolveByKubeConfig(
                  KubeConfigFile(CaData(), absl::StrCat(exec, KubeApiServer::kAdminToken, "]}"))),
              IsOkAndHolds(expected_));
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData(), absl::StrCat(exec, "wrong]}"))),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("plugin.sh")));
}

TEST_F(ApiServerAccessTest, OnlyTheServersAuthorityIsBelieved) {
  const auto stranger = TestPki::Create("stranger");
  ASSERT_THAT(stranger, IsOk());
  const std::string wrong =
      absl::StrCat(", certificate-authority-data: ", absl::Base64Escape((*stranger)->ca_pem()));
  const std::string user = Token(KubeApiServer::kAdminToken);
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(wrong, user)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("wrong CA")));
  // Not set, so that the system's authorities count: they did not sign it.
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile("", user)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("wrong CA")));
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(", insecure-skip-tls-verify: true", user)),
              IsOkAndHolds(expected_));
  EXPECT_THAT(ResolveByKubeConfig(KubeConfigFile(CaData() + ", tls-server-name: elsewhere", user)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("elsewhere")));
  EXPECT_THAT(ResolveByKubeConfig(
                  KubeConfigFile(CaData() + ", tls-server-name: kubernetes.default.svc", user)),
              IsOkAndHolds(expected_));
}

// ---- rights -------------------------------------------------------------------------------------

TEST_F(ApiServerAccessTest, WhoMayNotListIsToldWhichRoleToApply) {
  const auto client = Client(ClientOptions(KubeApiServer::kNobodyToken));
  EXPECT_THAT(
      client->ListPods(Pods("job=w"), kPatience, {}),
      StatusIs(absl::StatusCode::kPermissionDenied,
               AllOf(HasSubstr("list"), HasSubstr("pods"), HasSubstr(ns()), HasSubstr("nobody"),
                     HasSubstr("kind: Role"), HasSubstr("kind: RoleBinding"))));
  ASSERT_THAT(server().Allow("nobody", ns(), {"list"}), IsOk());
  EXPECT_THAT(client->ListPods(Pods("job=w"), kPatience, {}), IsOk());
  // The right is one of this namespace.
  EXPECT_THAT(client->ListPods({"", "job=w"}, kPatience, {}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("list"), HasSubstr("kind: ClusterRole"))));
}

TEST_F(ApiServerAccessTest, WhoMayListButNotWatchIsToldSo) {
  const auto client = Client(ClientOptions(KubeApiServer::kNobodyToken));
  ASSERT_THAT(server().Allow("nobody", ns(), {"list"}), IsOk());
  const auto list = client->ListPods(Pods("job=w"), kPatience, {});
  ASSERT_THAT(list, IsOk());
  const auto ignore = [](const PodEvent&) { return absl::OkStatus(); };
  EXPECT_THAT(client->WatchPods(Pods("job=w"), list->resource_version, ignore, {}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("watch"), HasSubstr("nobody"), HasSubstr("kind: Role"))));
}

// ---- pods ---------------------------------------------------------------------------------------

TEST_F(ApiServerListTest, EveryPageOfALongListArrives) {
  for (int i = 0; i < 25; ++i) AddPod("w", absl::StrCat("worker-", i), absl::StrCat("10.1.0.", i));
  const auto proxy = FaultProxy::Start(server());
  ASSERT_THAT(proxy, IsOk());
  HttpKubernetesClient::Options options =
      ClientOptions(KubeApiServer::kAdminToken, (*proxy)->url());
  options.page_pods = 10;
  const auto list = List(options);
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->pods, SizeIs(25));
  EXPECT_THAT(list->resource_version, Not(IsEmpty()));
  EXPECT_THAT((*proxy)->requests(), SizeIs(3));

  options.max_pods = 24;
  EXPECT_THAT(List(options), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("24")));
  options = ClientOptions();
  options.max_page_bytes = 10'000;
  EXPECT_THAT(List(options), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("10000")));
}

TEST_F(ApiServerListTest, TasksFollowTheNumbersOfTheirPods) {
  for (const int i : {10, 2, 0, 11, 7, 1, 9, 3, 8, 4, 6, 5}) {
    AddPod("w", absl::StrCat("worker-", i), absl::StrCat("10.1.0.", i));
  }
  KubernetesResolverOptions options = Workers();
  options.job_to_label_mapping = {{"ps", {"job=none"}}, {"worker", {"job=w"}}};
  options.completeness = MemberCompleteness::kAvailable;
  auto resolver = KubernetesResolver::Create(options);
  ASSERT_THAT(resolver, IsOk());
  const auto spec = (*resolver)->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->jobs(), (std::vector<std::string>{"ps", "worker"}));
  EXPECT_THAT(spec->NumTasks("ps"), IsOkAndHolds(0));
  ASSERT_THAT(spec->NumTasks("worker"), IsOkAndHolds(12));
  for (int i = 0; i < 12; ++i) {
    EXPECT_THAT(spec->TaskAddress("worker", i), IsOkAndHolds(absl::StrCat("10.1.0.", i, ":8470")));
  }
  EXPECT_THAT((*resolver)->master("worker", 10), IsOkAndHolds("grpc://10.1.0.10:8470"));
}

TEST_F(ApiServerListTest, TasksFollowTheCompletionIndexOfAJob) {
  for (int i = 0; i < 3; ++i) {
    const std::string name = absl::StrCat("job-", 3 - i, "x7z");
    ASSERT_THAT(server().CreateRunningPod(
                    ns(), name,
                    {{"job", "w"}, {"batch.kubernetes.io/job-completion-index", absl::StrCat(i)}},
                    absl::StrCat("10.1.0.", i + 1)),
                IsOk());
  }
  EXPECT_THAT(
      Resolve(Workers()),
      IsOkAndHolds("ClusterSpec({'worker': ['10.1.0.1:8470', '10.1.0.2:8470', '10.1.0.3:8470']})"));
}

TEST_F(ApiServerListTest, PodsOfOtherNamespacesAreNotMixedIn) {
  AddPod("w", "worker-0", "10.1.0.1");
  const std::string other = ns() + "-other";
  ASSERT_THAT(server().CreateNamespace(other), IsOk());
  ASSERT_THAT(server().CreateRunningPod(other, "worker-0", {{"job", "w"}}, "10.2.0.1"), IsOk());
  EXPECT_THAT(Resolve(Workers()), IsOkAndHolds("ClusterSpec({'worker': ['10.1.0.1:8470']})"));

  // Unless asked for; the label keeps other tests' pods out.
  KubernetesResolverOptions options = Workers();
  for (const std::string& name : {ns(), other}) {
    ASSERT_THAT(server().LabelPod(name, "worker-0", "mix", ns()), IsOk());
  }
  options.job_to_label_mapping = {{"worker", {"job=w,mix=" + ns()}}};
  options.namespace_name = "";
  options.all_namespaces = true;
  options.completeness = MemberCompleteness::kAvailable;
  auto resolver = KubernetesResolver::Create(options);
  ASSERT_THAT(resolver, IsOk());
  const auto spec = (*resolver)->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->total_tasks(), 2u);
}

TEST_F(ApiServerListTest, APodThatTwoSelectorsMatchCountsOnce) {
  AddPod("w", "worker-0", "10.1.0.1");
  AddPod("w", "worker-1", "10.1.0.2");
  ASSERT_THAT(server().LabelPod(ns(), "worker-1", "tier", "gold"), IsOk());
  KubernetesResolverOptions options = Workers();
  options.job_to_label_mapping = {{"worker", {"job in (w)", "tier=gold"}}};
  EXPECT_THAT(Resolve(options),
              IsOkAndHolds("ClusterSpec({'worker': ['10.1.0.1:8470', '10.1.0.2:8470']})"));
}

TEST_F(ApiServerListTest, APendingPodIsNamedWaitedForOrLeftOut) {
  AddPod("w", "worker-0", "10.1.0.1");
  ASSERT_THAT(server().CreatePod(ns(), "worker-1", {.labels = {{"job", "w"}}}), IsOk());
  KubernetesResolverOptions options = Workers();
  EXPECT_THAT(Resolve(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker-1"), HasSubstr("Pending"), HasSubstr(ns()))));

  options.completeness = MemberCompleteness::kAvailable;
  EXPECT_THAT(Resolve(options), IsOkAndHolds("ClusterSpec({'worker': ['10.1.0.1:8470']})"));

  options.completeness = MemberCompleteness::kWait;
  options.wait_timeout = absl::Seconds(1);
  EXPECT_THAT(Resolve(options),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("worker-1")));

  // Running, but without an address yet.
  ASSERT_THAT(server().SetPodStatus(ns(), "worker-1", {}), IsOk());
  EXPECT_THAT(Resolve(options),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("worker-1")));

  // It gets one while the resolver waits: between its first question and its second.
  std::atomic<int> questions = 0;
  const auto proxy = FaultProxy::Start(server());
  ASSERT_THAT(proxy, IsOk());
  (*proxy)->SetRule([&](const std::string&) {
    if (++questions == 2) {
      EXPECT_THAT(server().SetPodStatus(ns(), "worker-1", {.pod_ip = "10.1.0.2"}), IsOk());
    }
    return ProxyFault();
  });
  options.override_client = Client(ClientOptions(KubeApiServer::kAdminToken, (*proxy)->url()));
  options.wait_timeout = kPatience;
  EXPECT_THAT(Resolve(options),
              IsOkAndHolds("ClusterSpec({'worker': ['10.1.0.1:8470', '10.1.0.2:8470']})"));
}

TEST_F(ApiServerListTest, TheExpectedNumberOfTasksIsHeld) {
  AddPod("w", "worker-0", "10.1.0.1");
  KubernetesResolverOptions options = Workers();
  options.expected_tasks = {{"worker", 2}};
  EXPECT_THAT(Resolve(options), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         AllOf(HasSubstr("worker"), HasSubstr("2"))));
  AddPod("w", "worker-1", "10.1.0.2");
  EXPECT_THAT(Resolve(options), IsOk());
}

TEST_F(ApiServerListTest, PodsThatEndOrHaveEndedDoNotCount) {
  AddPod("w", "worker-0", "10.1.0.1");
  for (const std::string phase : {"Succeeded", "Failed"}) {
    const std::string name = phase == "Failed" ? "old-1" : "old-2";
    ASSERT_THAT(server().CreatePod(ns(), name, {.labels = {{"job", "w"}}}), IsOk());
    ASSERT_THAT(server().SetPodStatus(ns(), name, {.phase = phase, .pod_ip = "10.1.0.9"}), IsOk());
  }
  // With a node it stays Running for its grace period.
  ASSERT_THAT(
      server().CreatePod(ns(), "going-1", {.labels = {{"job", "w"}}, .node_name = "node-1"}),
      IsOk());
  ASSERT_THAT(server().SetPodStatus(ns(), "going-1", {.pod_ip = "10.1.0.8"}), IsOk());
  ASSERT_THAT(server().DeletePod(ns(), "going-1", absl::Seconds(300)), IsOk());
  const auto pod = server().Call("GET", absl::StrCat("/api/v1/namespaces/", ns(), "/pods/going-1"));
  ASSERT_THAT(pod, IsOk());
  ASSERT_EQ((*pod)["status"]["phase"], "Running");
  KubernetesResolverOptions options = Workers();
  options.completeness = MemberCompleteness::kAvailable;
  EXPECT_THAT(Resolve(options), IsOkAndHolds("ClusterSpec({'worker': ['10.1.0.1:8470']})"));
}

TEST_F(ApiServerListTest, APodSaysItsPortAndItsGpus) {
  KubeApiServer::PodOptions pod = {.labels = {{"job", "w"}},
                                   .annotations = {{"example.com/port", "7001"}},
                                   .ports = {{"metrics", 9090}, {"grpc", 7000}},
                                   .limits = {{"nvidia.com/gpu", "4"}}};
  ASSERT_THAT(server().CreatePod(ns(), "worker-0", pod), IsOk());
  ASSERT_THAT(server().SetPodStatus(ns(), "worker-0", {.pod_ip = "fd00::7", .host_ip = "10.0.0.1"}),
              IsOk());
  KubernetesResolverOptions options = Workers();
  options.ports.insert_or_assign("worker", PodPort::Container("grpc"));
  EXPECT_THAT(Resolve(options), IsOkAndHolds("ClusterSpec({'worker': ['[fd00::7]:7000']})"));
  options.ports.insert_or_assign("worker", PodPort::Annotation("example.com/port"));
  options.address = PodAddress::kHostIp;
  EXPECT_THAT(Resolve(options), IsOkAndHolds("ClusterSpec({'worker': ['10.0.0.1:7001']})"));
  const auto resolver = KubernetesResolver::Create(options);
  ASSERT_THAT(resolver, IsOk());
  EXPECT_THAT((*resolver)->num_accelerators("worker", 0),
              IsOkAndHolds(std::map<std::string, int>{{"GPU", 4}}));
}

TEST_F(ApiServerListTest, AProcessFindsItsOwnTaskByTheDownwardApi) {
  for (int i = 0; i < 3; ++i)
    AddPod("w", absl::StrCat("worker-", i), absl::StrCat("10.1.0.", i + 1));
  const ScopedEnv name("POD_NAME", "worker-1");
  const ScopedEnv name_space("POD_NAMESPACE", ns());
  KubernetesResolverOptions options = Workers();
  options.namespace_name = "";  // POD_NAMESPACE
  const auto resolver = KubernetesResolver::Create(options);
  ASSERT_THAT(resolver, IsOk());
  EXPECT_THAT((*resolver)->task_type(), IsOkAndHolds(std::optional<std::string>("worker")));
  EXPECT_THAT((*resolver)->task_id(), IsOkAndHolds(std::optional<int>(1)));
  EXPECT_THAT((*resolver)->master(), IsOkAndHolds("grpc://10.1.0.2:8470"));
}

TEST_F(ApiServerListTest, TensorFlowsBehaviourIsTensorFlows) {
  const std::string selector = "tf=" + ns();  // of all namespaces
  for (const std::string name : {"worker-10", "worker-2"}) {
    ASSERT_THAT(server().CreateRunningPod(ns(), name, {{"tf", ns()}}, "10.1.0.1"), IsOk());
  }
  KubernetesResolverOptions options;
  options.behavior = ResolverBehavior::kTensorFlow;
  options.job_to_label_mapping = {{"worker", {selector}}};
  options.override_client = Client();
  EXPECT_THAT(Resolve(options),
              IsOkAndHolds("ClusterSpec({'worker': ['192.168.0.1:8470', '192.168.0.1:8470']})"));
  ASSERT_THAT(server().CreatePod(ns(), "worker-3", {.labels = {{"tf", ns()}}}), IsOk());
  const auto spec = Resolve(options);
  ASSERT_FALSE(spec.ok());
  EXPECT_THAT(spec.status().message(),
              HasSubstr("Pod \"worker-3\" is not running; phase: \"Pending\""));
}

// ---- what goes wrong ----------------------------------------------------------------------------

TEST_F(ApiServerListTest, ABadSelectorIsNamed) {
  EXPECT_THAT(Client()->ListPods({ns(), "job=(("}, kPatience, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("job=((")));
}

TEST_F(ApiServerListTest, NoPodsAreNamedAsSuch) {
  EXPECT_THAT(Resolve(Workers()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           AllOf(HasSubstr("job=w"), HasSubstr(ns()))));
  // The API server knows no difference between an empty namespace and none.
  KubernetesResolverOptions options = Workers();
  options.namespace_name = "no-such";
  EXPECT_THAT(Resolve(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no-such")));
}

TEST_F(ApiServerListTest, AServerThatIsNotThereIsNamedWithinTheTimeout) {
  HttpKubernetesClient::Options options =
      ClientOptions(KubeApiServer::kAdminToken, "https://127.0.0.1:1");
  EXPECT_THAT(List(options, absl::Seconds(10)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
}

TEST_F(ApiServerListTest, AServerThatDoesNotAnswerIsGivenUpInTime) {
  const auto client = Client();
  server().Pause();
  const absl::Time begin = absl::Now();
  EXPECT_THAT(client->ListPods(Pods(""), absl::Seconds(2), {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(server().url())));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));

  // Stopped while its question lies with the server.
  std::stop_source stop;
  const auto proxy = FaultProxy::Start(server());
  ASSERT_THAT(proxy, IsOk());
  (*proxy)->SetRule([&stop](const std::string&) {
    stop.request_stop();
    return ProxyFault();
  });
  const auto stopped = Client(ClientOptions(KubeApiServer::kAdminToken, (*proxy)->url()));
  EXPECT_THAT(stopped->ListPods(Pods(""), absl::Seconds(600), stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
  server().Resume();
  EXPECT_THAT(client->ListPods(Pods(""), kPatience, {}), IsOk());
}

class ApiServerFaultTest : public ApiServerListTest {
 protected:
  void SetUp() override {
    ApiServerListTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (int i = 0; i < 12; ++i)
      AddPod("w", absl::StrCat("worker-", i), absl::StrCat("10.1.0.", i));
    auto proxy = FaultProxy::Start(server());
    ASSERT_THAT(proxy, IsOk());
    proxy_ = *std::move(proxy);
    options_ = ClientOptions(KubeApiServer::kAdminToken, proxy_->url());
    options_.first_pause = absl::Milliseconds(10);
  }

  // The first `count` requests suffer `fault`.
  void Break(int count, const ProxyFault& fault) {
    left_ = count;
    proxy_->SetRule(
        [this, fault](const std::string&) { return left_-- > 0 ? fault : ProxyFault(); });
  }

  std::atomic<int> left_ = 0;
  std::unique_ptr<FaultProxy> proxy_;
  HttpKubernetesClient::Options options_;
};

TEST_F(ApiServerFaultTest, ABusyServerIsAskedAgainWhenItSays) {
  Break(1, {.status = 429, .headers = "Retry-After: 1\r\n", .body = "{}"});
  const absl::Time begin = absl::Now();
  const auto list = List(options_);
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->pods, SizeIs(12));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(900));
  EXPECT_THAT(proxy_->requests(), SizeIs(2));
}

TEST_F(ApiServerFaultTest, AFailingServerIsAskedAgainButNotForEver) {
  Break(3, {.status = 500, .body = R"({"kind":"Status","message":"etcdserver: leader changed"})"});
  EXPECT_THAT(List(options_), IsOk());
  Break(1000,
        {.status = 500, .body = R"({"kind":"Status","message":"etcdserver: leader changed"})"});
  EXPECT_THAT(List(options_),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("500"), HasSubstr("etcdserver: leader changed"))));
}

TEST_F(ApiServerFaultTest, AnAnswerThatIsCutIsAskedForAgain) {
  for (const auto end : {ProxyFault::End::kClose, ProxyFault::End::kReset}) {
    for (const int bytes : {0, 1, 1000, 5000}) {
      Break(1, {.end_after_bytes = bytes, .end = end});
      const auto list = List(options_);
      ASSERT_THAT(list, IsOk()) << bytes;
      EXPECT_THAT(list->pods, SizeIs(12));
    }
  }
  Break(1000, {.end_after_bytes = 1000});
  EXPECT_THAT(List(options_), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(proxy_->url())));
}

TEST_F(ApiServerFaultTest, AnAnswerThatStopsComingEndsWithTheTimeout) {
  Break(1000, {.end_after_bytes = 1000, .end = ProxyFault::End::kStall});
  EXPECT_THAT(List(options_, absl::Seconds(2)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  Break(1000, {.delay = absl::Seconds(300)});
  EXPECT_THAT(List(options_, absl::Seconds(2)), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(ApiServerFaultTest, WhatIsNoPodListIsRefused) {
  for (const std::string body : {"", "hello", "{}", "[]", R"({"items": 7})",
                                 R"({"metadata":{},"items":[{"metadata":{"name":5}}]})",
                                 R"({"metadata":{"resourceVersion":"1"},"items":[{}]})"}) {
    Break(1000, {.status = 200, .body = body});
    EXPECT_THAT(List(options_), StatusIs(absl::StatusCode::kDataLoss)) << body;
  }
}

TEST_F(ApiServerFaultTest, ARedirectIsNotFollowed) {
  Break(1000, {.status = 302, .headers = "Location: https://127.0.0.1:1/\r\n"});
  const auto list = List(options_);
  ASSERT_FALSE(list.ok());
  EXPECT_THAT(list.status().message(), HasSubstr("302"));
}

TEST_F(ApiServerFaultTest, AListThatExpiresOnTheWayIsBegunAgain) {
  options_.page_pods = 5;
  const auto requests = std::make_shared<std::atomic<int>>(0);
  proxy_->SetRule([this, requests](const std::string&) {
    if (++*requests == 2) {
      // What the first page spoke of is forgotten before the second is asked for.
      EXPECT_THAT(server().DeletePod(ns(), "worker-11"), IsOk());
      EXPECT_THAT(server().Compact(), IsOk());
    }
    return ProxyFault();
  });
  const auto list = List(options_);
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->pods, SizeIs(11));
  const std::vector<std::string> lines = proxy_->requests();
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(),
                    [](const std::string& line) { return !absl::StrContains(line, "continue="); }),
      2)
      << lines.size();
}

}  // namespace
}  // namespace millrace
