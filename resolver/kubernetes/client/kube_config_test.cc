#include "resolver/kubernetes/client/kube_config.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kTwoContexts[] = R"(apiVersion: v1
kind: Config
current-context: dev
contexts:
- name: dev
  context: {cluster: small, user: ann}
- name: prod
  context:
    cluster: large
    user: bob
    namespace: training
clusters:
- name: small
  cluster: {server: "https://10.0.0.1:6443", certificate-authority: pki/ca.crt}
- name: large
  cluster:
    server: https://prod.example:443/k8s/clusters/c-1
    certificate-authority-data: Q0E=
    tls-server-name: kubernetes
    proxy-url: http://proxy:3128
users:
- name: ann
  user: {token: secret-of-ann}
- name: bob
  user:
    client-certificate-data: Q0VSVA==
    client-key: keys/bob.key
)";

class KubeConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("KUBECONFIG");
    setenv("HOME", dir_.path().c_str(), 1);
  }

  // Writes a file and returns its path.
  std::string File(const std::string& text, const std::string& name = "config") const {
    const std::string path = JoinPath(dir_.path(), name);
    EXPECT_THAT(WriteFileAtomic(path, text), IsOk());
    return path;
  }

  // A file with one context, whose user is `user` and whose cluster has `cluster` besides.
  absl::StatusOr<KubeConfig> LoadUser(const std::string& user,
                                      const std::string& cluster = "") const {
    return LoadKubeConfig(
        {.path = File(absl::StrCat(
             "current-context: c\n"
             "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
             "clusters: [{name: k, cluster: {server: 'https://k:1'",
             cluster, "}}]\nusers:\n- name: u\n  user:\n",
             absl::StrReplaceAll(absl::StrCat("    ", user), {{"\n", "\n    "}}), "\n"))});
  }

  const TempDir dir_ = *TempDir::Create("kubeconfig");
};

auto Invalid(const std::string& part) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
}

TEST_F(KubeConfigTest, TheCurrentContext) {
  const auto config = LoadKubeConfig({.path = File(kTwoContexts)});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->context, "dev");
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->namespace_name, "default");
  EXPECT_EQ(config->tls.ca_file, JoinPath(dir_.path(), "pki/ca.crt"));
  EXPECT_EQ(config->tls.ca_pem, "");
  EXPECT_FALSE(config->tls.insecure_skip_verify);
  EXPECT_EQ(config->credentials.token, "secret-of-ann");
}

TEST_F(KubeConfigTest, ANamedContext) {
  const auto config = LoadKubeConfig({.path = File(kTwoContexts), .context = "prod"});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->server, "https://prod.example:443/k8s/clusters/c-1");
  EXPECT_EQ(config->namespace_name, "training");
  EXPECT_EQ(config->tls.ca_pem, "CA");
  EXPECT_EQ(config->tls.server_name, "kubernetes");
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
  EXPECT_EQ(config->credentials.token, "");
  EXPECT_EQ(config->credentials.client_certificate_pem, "CERT");
  EXPECT_EQ(config->credentials.client_key_file, JoinPath(dir_.path(), "keys/bob.key"));
}

TEST_F(KubeConfigTest, JsonIsYaml) {
  const auto config = LoadKubeConfig({.path = File(R"({"current-context": "c",
  "contexts": [{"name": "c", "context": {"cluster": "k", "user": ""}}],
  "clusters": [{"name": "k", "cluster": {"server": "https://k:1"}}], "users": null})")});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->server, "https://k:1");
}

TEST_F(KubeConfigTest, HomeIsTheLastResort) {
  ASSERT_EQ(std::system(absl::StrCat("mkdir ", dir_.path(), "/.kube").c_str()), 0);
  const auto none = LoadKubeConfig({});
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kNotFound,
                             AllOf(HasSubstr("there is no kubeconfig"),
                                   HasSubstr(JoinPath(dir_.path(), ".kube/config")))));
  File(kTwoContexts, ".kube/config");
  EXPECT_THAT(LoadKubeConfig({}), IsOk());
}

TEST_F(KubeConfigTest, FilesOfTheVariableAreMergedTheFirstCounts) {
  const std::string first = File(R"(
contexts: [{name: dev, context: {cluster: small, user: carl}}]
users: [{name: ann, user: {token: other}}]
)",
                                 "first");
  const std::string second = File(kTwoContexts, "second");
  const std::string third = File(R"(
current-context: prod
users: [{name: carl, user: {tokenFile: t/carl}}]
)",
                                 "third");
  setenv("KUBECONFIG",
         absl::StrCat(first, "::", dir_.path(), "/missing:", second, ":", third).c_str(), 1);
  const auto config = LoadKubeConfig({});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->context, "dev");  // of the second, the first that has one
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->credentials.token_file, JoinPath(dir_.path(), "t/carl"));
}

TEST_F(KubeConfigTest, WhatIsMissingIsNamed) {
  const auto not_found = [](const std::string& a, const std::string& b = "") {
    return StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(a), HasSubstr(b)));
  };
  EXPECT_THAT(LoadKubeConfig({.path = "/nowhere/config"}), not_found("/nowhere/config"));
  EXPECT_THAT(LoadKubeConfig({.path = File(kTwoContexts), .context = "test"}),
              not_found("no context \"test\"", "dev, prod"));
  std::string text = absl::StrReplaceAll(kTwoContexts, {{"cluster: small", "cluster: tiny"}});
  EXPECT_THAT(LoadKubeConfig({.path = File(text)}),
              not_found("no cluster \"tiny\"", "small, large"));
  text = absl::StrReplaceAll(kTwoContexts, {{"user: ann", "user: zoe"}});
  EXPECT_THAT(LoadKubeConfig({.path = File(text)}), not_found("no user \"zoe\"", "ann, bob"));
  EXPECT_THAT(LoadKubeConfig({.path = File("current-context: c")}),
              not_found("no context \"c\"", "there is none"));
  text = absl::StrReplaceAll(kTwoContexts, {{"current-context: dev", "current-context: ''"}});
  EXPECT_THAT(LoadKubeConfig({.path = File(text)}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no current-context")));
  EXPECT_THAT(LoadKubeConfig({.path = File("")}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no current-context")));
}

TEST_F(KubeConfigTest, BrokenFilesNameTheLine) {
  const std::string path = JoinPath(dir_.path(), "config");
  EXPECT_THAT(LoadKubeConfig({.path = File("a: 1\nb: [1,\nc: }")}),
              Invalid(absl::StrCat(path, ":3 is no YAML")));
  EXPECT_THAT(LoadKubeConfig({.path = File("- a\n")}), Invalid("holds no mapping"));
  EXPECT_THAT(LoadKubeConfig({.path = File("text")}), Invalid("holds no mapping"));
  EXPECT_THAT(LoadKubeConfig({.path = File(std::string("\xff\xfe\x00garbage", 11))}),
              testing::Not(IsOk()));
  EXPECT_THAT(LoadKubeConfig({.path = File("current-context: [a]")}),
              Invalid(absl::StrCat(path, ":1: field \"current-context\" must be a text")));
  EXPECT_THAT(LoadKubeConfig({.path = File("current-context: c\ncontexts: {name: c}")}),
              Invalid(absl::StrCat(path, ":2: field \"contexts\" must be a list")));
  EXPECT_THAT(LoadKubeConfig({.path = File("current-context: c\ncontexts:\n- c")}),
              Invalid(":3: field \"contexts[0]\" must be a mapping"));
  EXPECT_THAT(
      LoadKubeConfig({.path = File("current-context: c\ncontexts:\n- {name: c, context: x}")}),
      Invalid(":3: field \"contexts[0].context\" must be a mapping"));
  EXPECT_THAT(LoadKubeConfig({.path = File(std::string(5 << 20, '#'))}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // Nesting that would overflow a stack.
  EXPECT_THAT(LoadKubeConfig({.path = File(std::string(100'000, '['))}), testing::Not(IsOk()));
}

TEST_F(KubeConfigTest, AliasesThatMultiplyAreHarmless) {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = absl::StrCat("*a", i - 1);
    absl::StrAppend(&text, "a", i, ": &a", i, " [", last, ",", last, ",", last, "]\n");
  }
  EXPECT_THAT(LoadKubeConfig({.path = File(text + kTwoContexts)}), IsOk());
}

TEST_F(KubeConfigTest, TheClusterMustMakeSense) {
  EXPECT_THAT(LoadUser("{}", ", certificate-authority-data: '%%%'"),
              Invalid("certificate-authority-data\" must be base64"));
  EXPECT_THAT(LoadUser("{}", ", insecure-skip-tls-verify: perhaps"),
              Invalid("insecure-skip-tls-verify\" must be true or false"));
  EXPECT_THAT(LoadUser("{}", ", insecure-skip-tls-verify: true, certificate-authority: x"),
              Invalid("makes no sense with a certificate-authority"));
  const auto insecure = LoadUser("{}", ", insecure-skip-tls-verify: true");
  ASSERT_THAT(insecure, IsOk());
  EXPECT_TRUE(insecure->tls.insecure_skip_verify);
  EXPECT_THAT(LoadKubeConfig({.path = File(absl::StrReplaceAll(
                                  kTwoContexts, {{"\"https://10.0.0.1:6443\"", "10.0.0.1"}}))}),
              Invalid("must be a URL such as"));
  EXPECT_THAT(
      LoadKubeConfig({.path = File(absl::StrReplaceAll(
                          kTwoContexts, {{"{cluster: small, user: ann}", "{user: ann}"}}))}),
      Invalid("context.cluster\" is missing"));
}

TEST_F(KubeConfigTest, AUserWithATokenFile) {
  const auto config = LoadUser("token: stale\ntokenFile: /run/token");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->credentials.token_file, "/run/token");
  EXPECT_EQ(config->credentials.token, "");
}

TEST_F(KubeConfigTest, DataCountBeforeFiles) {
  const auto config = LoadUser(
      "client-certificate: crt\nclient-certificate-data: Q0VSVA==\nclient-key: key\n"
      "client-key-data: S0VZ",
      ", certificate-authority: x, certificate-authority-data: Q0E=");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->credentials.client_certificate_pem, "CERT");
  EXPECT_EQ(config->credentials.client_certificate_file, "");
  EXPECT_EQ(config->credentials.client_key_pem, "KEY");
  EXPECT_EQ(config->tls.ca_pem, "CA");
  EXPECT_EQ(config->tls.ca_file, "");
  EXPECT_THAT(LoadUser("client-key: key"), Invalid("client-certificate\" is missing"));
  EXPECT_THAT(LoadUser("client-certificate: crt"), Invalid("client-key\" is missing"));
}

TEST_F(KubeConfigTest, AUserWithAnExecPlugin) {
  const auto config = LoadUser(R"(exec:
  apiVersion: client.authentication.k8s.io/v1beta1
  command: ./bin/login
  args: [token, --cluster, 7]
  env:
  - {name: AWS_PROFILE, value: prod}
  interactiveMode: IfAvailable
  installHint: Install it.
  provideClusterInfo: true)",
                               ", certificate-authority-data: Q0E=, tls-server-name: n");
  ASSERT_THAT(config, IsOk());
  ASSERT_TRUE(config->credentials.exec.has_value());
  const ExecPlugin& plugin = *config->credentials.exec;
  EXPECT_EQ(plugin.api_version, "client.authentication.k8s.io/v1beta1");
  EXPECT_EQ(plugin.command, JoinPath(dir_.path(), "./bin/login"));
  EXPECT_THAT(plugin.args, ElementsAre("token", "--cluster", "7"));
  EXPECT_THAT(plugin.env, ElementsAre(Pair("AWS_PROFILE", "prod")));
  EXPECT_EQ(plugin.install_hint, "Install it.");
  EXPECT_EQ(*ParseJson(plugin.cluster_info), Json({{"server", "https://k:1"},
                                                   {"certificate-authority-data", "Q0E="},
                                                   {"tls-server-name", "n"}}));
}

TEST_F(KubeConfigTest, ExecPluginsThatCannotWorkAreRefused) {
  const std::string v1 = "exec: {apiVersion: client.authentication.k8s.io/v1, command: x";
  const auto plain = LoadUser(v1 + "}");
  ASSERT_THAT(plain, IsOk());
  EXPECT_EQ(plain->credentials.exec->command, "x");  // PATH finds it
  EXPECT_EQ(plain->credentials.exec->cluster_info, "");
  EXPECT_THAT(LoadUser(v1 + ", interactiveMode: Always}"), Invalid("nobody can answer the plugin"));
  EXPECT_THAT(LoadUser(v1 + ", interactiveMode: Maybe}"), Invalid("must be Never, IfAvailable"));
  EXPECT_THAT(LoadUser(v1 + ", env: [{value: x}]}"), Invalid("env[0].name\" must be the name"));
  EXPECT_THAT(LoadUser(v1 + ", args: x}"), Invalid("args\" must be a list"));
  EXPECT_THAT(LoadUser("exec: {apiVersion: client.authentication.k8s.io/v1}"),
              Invalid("command\" is missing"));
  EXPECT_THAT(LoadUser("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"),
              Invalid("apiVersion\" must be client.authentication.k8s.io/v1 or"));
}

TEST_F(KubeConfigTest, FormsThatKubernetesRemovedSayWhatToUse) {
  const auto removed = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(part));
  };
  EXPECT_THAT(LoadUser("username: ann\npassword: p"),
              removed("basic auth, which Kubernetes removed"));
  EXPECT_THAT(LoadUser("auth-provider: {name: gcp}"), removed("gke-gcloud-auth-plugin"));
}

TEST_F(KubeConfigTest, Impersonation) {
  const auto config = LoadUser("token: t\nas: ann\nas-uid: '7'\nas-groups: [a, b]");
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->credentials.headers,
              ElementsAre(Pair("Impersonate-User", "ann"), Pair("Impersonate-Uid", "7"),
                          Pair("Impersonate-Group", "a"), Pair("Impersonate-Group", "b")));
  EXPECT_THAT(LoadUser("token: t\nas: ann\nas-user-extra: {x: [y]}"), Invalid("is not supported"));
}

}  // namespace
}  // namespace millrace
