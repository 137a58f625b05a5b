#include "resolver/kubernetes/client/http_kubernetes_client.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/http/loopback_server.h"
#include "resolver/kubernetes/client/exec_credential.h"
#include "resolver/kubernetes/client/http_kubernetes_client_fixture.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "testing/kube_apiserver/test_pki.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Peer = LoopbackServer::Peer;
using Request = LoopbackServer::Request;

TEST_F(HttpKubernetesClientTest, AListOfPods) {
  Serve([](const Request&, Peer& peer) { peer.Answer(200, ListJson({"b", "a"})); });
  const auto list = List({.namespace_name = "tf", .label_selector = "job in (a, b)"});
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(Names(list->pods), ElementsAre("b", "a"));
  EXPECT_EQ(list->resource_version, "77");
  const Pod& pod = list->pods[0];
  EXPECT_EQ(pod.namespace_name, "tf");
  EXPECT_EQ(pod.uid, "u-b");
  EXPECT_EQ(pod.phase, "Running");
  EXPECT_EQ(pod.pod_ip, "10.0.0.1");
  EXPECT_EQ(pod.host_ip, "10.9.0.1");
  EXPECT_TRUE(pod.ready);
  EXPECT_EQ(pod.labels.at("job"), "a");
  ASSERT_EQ(pod.ports.size(), 1u);
  EXPECT_EQ(pod.ports[0].port, 8470);
  EXPECT_EQ(pod.accelerators.at("GPU"), 2);
  const Request request = server_->requests().at(0);
  EXPECT_EQ(request.target,
            "/api/v1/namespaces/tf/pods?limit=500&labelSelector=job%20in%20%28a%2C%20b%29");
  EXPECT_EQ(request.headers.at("accept"), "application/json");
  EXPECT_EQ(request.headers.count("authorization"), 0u);
}

TEST_F(HttpKubernetesClientTest, AllNamespacesAndAServerWithAPath) {
  Serve([](const Request&, Peer& peer) { peer.Answer(200, ListJson({})); });
  options_.server += "/k8s/clusters/c-1/";
  ASSERT_THAT(List({}), IsOk());
  EXPECT_EQ(server_->requests().at(0).target, "/k8s/clusters/c-1/api/v1/pods?limit=500");
}

TEST_F(HttpKubernetesClientTest, PagesAreFollowedOnOneConnection) {
  Serve([](const Request& request, Peer& peer) {
    if (absl::StrContains(request.target, "continue=t%3D1")) {
      peer.Answer(200, ListJson({"c"}, "t2"));
    } else if (absl::StrContains(request.target, "continue=t2")) {
      peer.Answer(200, R"({"kind":"PodList","metadata":{"resourceVersion":"77"},"items":null})");
    } else {
      peer.Answer(200, ListJson({"a", "b"}, "t=1"));
    }
  });
  options_.page_pods = 2;
  const auto list = List();
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(Names(list->pods), ElementsAre("a", "b", "c"));
  EXPECT_EQ(server_->requests().size(), 3u);
  EXPECT_EQ(server_->connections(), 1);
  EXPECT_THAT(server_->requests().at(0).target, HasSubstr("limit=2"));
}

TEST_F(HttpKubernetesClientTest, AListThatExpiresIsBegunAgain) {
  Serve([](const Request& request, Peer& peer) {
    if (!absl::StrContains(request.target, "continue=")) {
      peer.Answer(200, ListJson({absl::StrCat("p", request.number)}, "token"));
    } else if (request.number < 5) {
      peer.Answer(410, StatusJson(410, "Expired", "The provided continue parameter is too old"));
    } else {
      peer.Answer(200, ListJson({"last"}, "", "99"));
    }
  });
  const auto list = List();
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(Names(list->pods), ElementsAre("p5", "last"));
  EXPECT_EQ(list->resource_version, "99");
}

TEST_F(HttpKubernetesClientTest, AListThatAlwaysExpiresIsGivenUp) {
  Serve([](const Request& request, Peer& peer) {
    if (absl::StrContains(request.target, "continue=")) {
      peer.Answer(410, StatusJson(410, "Expired", "too old"));
    } else {
      peer.Answer(200, ListJson({"a"}, "token"));
    }
  });
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("expired before its last page, 4 times in a row")));
}

TEST_F(HttpKubernetesClientTest, HostileSizesNameTheLimit) {
  Serve([](const Request& request, Peer& peer) {
    if (absl::StrContains(request.target, "namespaces/many")) {
      peer.Answer(200, ListJson({"a", "b", "c"}, "more"));
    } else {
      peer.BeginChunks();
      peer.Chunk(R"({"kind":"PodList","items":[")");
      while (peer.open()) peer.Chunk(std::string(1 << 16, 'x'));
    }
  });
  options_.max_pods = 8;
  options_.max_page_bytes = 1 << 20;
  EXPECT_THAT(List({.namespace_name = "many"}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_pods = 8")));
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("over the limit of 1048576 bytes")));
}

TEST_F(HttpKubernetesClientTest, WhatIsNoPodListIsDataLoss) {
  std::string body;
  Serve([&](const Request&, Peer& peer) { peer.Answer(200, body); });
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "not JSON: "},
           {"<html>login</html>", "not JSON: "},
           {ListJson({"a"}).substr(0, 100), "not JSON: "},
           {"[]", "of kind \"\""},
           {R"({"kind":"NodeList","metadata":{},"items":[]})", "of kind \"NodeList\""},
           {R"({"kind":"PodList","items":[]})", "of kind \"PodList\""},
           {R"({"kind":"PodList","metadata":{},"items":7})", "items is no array"},
           {R"({"kind":"PodList","metadata":{},"items":[7]})", "a pod must be an object"},
           {R"({"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"a","uid":7}}]})",
            "metadata.uid"},
           {std::string(200, '[') + std::string(200, ']'), "nested deeper"},
       }) {
    body = text;
    EXPECT_THAT(List(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(why))) << text;
  }
}

TEST_F(HttpKubernetesClientTest, ErrorsSayWhereAndWhat) {
  int status = 0;
  std::string body;
  Serve([&](const Request&, Peer& peer) {
    peer.Answer(status, body, "Location: https://sso/login\r\n");
  });
  options_.description = "context prod";
  const auto expect = [&](int code, const std::string& text, absl::StatusCode expected,
                          const std::string& part) {
    status = code;
    body = text;
    EXPECT_THAT(
        List({.namespace_name = "tf", .label_selector = "a=b"}),
        StatusIs(expected, AllOf(StartsWith(absl::StrCat("Kubernetes API server ", server_->url(),
                                                         " (context prod): list the pods of "
                                                         "namespace tf with labels a=b: ")),
                                 HasSubstr(part))));
  };
  expect(400, StatusJson(400, "BadRequest", "unable to parse requirement"),
         absl::StatusCode::kInvalidArgument, "HTTP 400: unable to parse requirement");
  expect(401, StatusJson(401, "Unauthorized", "Unauthorized"), absl::StatusCode::kUnauthenticated,
         "does not accept the credentials (anonymous)");
  expect(404, "404 page not found", absl::StatusCode::kDataLoss, "no Kubernetes API server");
  expect(302, "", absl::StatusCode::kDataLoss, "HTTP 302 to https://sso/login");
  expect(500, "\x1b[31mbang", absl::StatusCode::kUnavailable,
         "HTTP 500: \\x1b[31mbang (5 attempts)");
}

TEST_F(HttpKubernetesClientTest, AForbiddenVerbPrintsTheRoleToApply) {
  Serve([&](const Request& request, Peer& peer) {
    const std::string verb = absl::StrContains(request.target, "watch=1") ? "watch" : "list";
    peer.Answer(403, StatusJson(403, "Forbidden",
                                absl::StrCat("pods is forbidden: User "
                                             "\"system:serviceaccount:home:runner\" cannot ",
                                             verb, " resource \"pods\"")));
  });
  const auto refused = List();
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("user \"system:serviceaccount:home:runner\" lacks the verb "
                                       "list on pods in namespace tf"),
                             HasSubstr("kind: Role\n"), HasSubstr("name: \"runner\""),
                             HasSubstr("namespace: \"tf\""))));
  std::vector<std::string> events;
  EXPECT_THAT(Watch(&events, {}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("lacks the verb watch on pods in all namespaces"),
                             HasSubstr("kind: ClusterRoleBinding\n"))));
  EXPECT_THAT(events, ElementsAre());
}

TEST_F(HttpKubernetesClientTest, BusyServersAreAskedAgain) {
  Serve([](const Request& request, Peer& peer) {
    switch (request.number) {
      case 1:
        return peer.Answer(429, "", "Retry-After: 1\r\n");
      case 2:
        return peer.Answer(503, "starting");
      case 3:
        return peer.Close();
      default:
        return peer.Answer(200, ListJson({"a"}));
    }
  });
  const absl::Duration began = RealClock()->SteadyNow();
  const auto list = List();
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->pods.size(), 1u);
  EXPECT_GE(RealClock()->SteadyNow() - began, absl::Seconds(1));  // Retry-After
}

TEST_F(HttpKubernetesClientTest, ARetryAfterBeyondTheTimeoutIsSaidAtOnce) {
  Serve([](const Request&, Peer& peer) { peer.Answer(429, "", "Retry-After: 3600\r\n"); });
  const absl::Duration began = RealClock()->SteadyNow();
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("1 attempts; the next in 1h would be too late")));
  EXPECT_LT(RealClock()->SteadyNow() - began, kLong);
}

TEST_F(HttpKubernetesClientTest, AListEndsInTime) {
  Serve([](const Request&, Peer& peer) { peer.WaitForEnd(); });
  EXPECT_THAT(Client()->ListPods({}, absl::Milliseconds(300), {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("has not answered")));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(Client()->ListPods({}, kLong, stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(HttpKubernetesClientTest, AnUnreachableServerIsSaidSoon) {
  options_.server = "http://127.0.0.1:1";
  options_.first_pause = absl::Milliseconds(1);
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("no connection"), HasSubstr("(5 attempts)"))));
}

TEST_F(HttpKubernetesClientTest, AStopEndsAPause) {
  std::stop_source stop;
  Serve([&](const Request&, Peer& peer) {
    peer.Answer(429, "", "Retry-After: 60\r\n");
    stop.request_stop();
  });
  EXPECT_THAT(Client()->ListPods({}, kLong, stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(HttpKubernetesClientTest, NamesThatAreNoneAreRefusedHere) {
  options_.server = "http://127.0.0.1:1";
  for (const std::string& name :
       std::vector<std::string>{"a/b", "..", "A", "a?b", std::string(64, 'a')}) {
    EXPECT_THAT(List({.namespace_name = name}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name of a namespace")));
  }
}

TEST_F(HttpKubernetesClientTest, OptionsThatMakeNoSense) {
  const auto invalid = [&](const std::string& part) {
    EXPECT_THAT(HttpKubernetesClient::Create(options_),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  options_.server = "10.0.0.1:6443";
  invalid("must be a URL such as https://10.0.0.1:6443");
  options_.server = "https://10.0.0.1";
  options_.page_pods = 0;
  invalid("must be positive");
}

// With TLS, since tokens do not go over anything else.
class AuthenticationTest : public HttpKubernetesClientTest {
 protected:
  void ServeTls(LoopbackServer::Handler handler) {
    const auto identity = *pki_->Issue({.common_name = "server", .names = {"127.0.0.1"}});
    server_ = *LoopbackServer::Start({identity.certificate_pem, identity.private_key_pem, ""},
                                     std::move(handler));
    options_.server = server_->url();
    options_.tls.ca_pem = pki_->ca_pem();
    options_.first_pause = absl::Milliseconds(1);
  }
  static LoopbackServer::Handler Wants(const std::string& token) {
    return [token](const Request& request, Peer& peer) {
      const auto found = request.headers.find("authorization");
      if (found != request.headers.end() && found->second == absl::StrCat("Bearer ", token)) {
        peer.Answer(200, ListJson({"a"}));
      } else {
        peer.Answer(401, StatusJson(401, "Unauthorized", "Unauthorized"));
      }
    };
  }

  const std::unique_ptr<TestPki> pki_ = *TestPki::Create("ca");
  const TempDir dir_ = *TempDir::Create("auth");
};

TEST_F(AuthenticationTest, ATokenIsSent) {
  ServeTls(Wants("good"));
  options_.credentials.token = "good";
  EXPECT_THAT(List(), IsOk());
  options_.credentials.token = "expired";
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnauthenticated,
                               AllOf(HasSubstr("given token"), Not(HasSubstr("expired")))));
}

TEST_F(AuthenticationTest, ATokenNeverGoesOverPlainHttp) {
  options_.server = "http://10.0.0.1";
  options_.credentials.token = "secret";
  EXPECT_THAT(HttpKubernetesClient::Create(options_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in the clear")));
}

TEST_F(AuthenticationTest, ATokenFileThatRotatesWithinACallIsReadAgain) {
  const std::string path = JoinPath(dir_.path(), "token");
  ASSERT_THAT(WriteFileAtomic(path, "old"), IsOk());
  ServeTls([&](const Request& request, Peer& peer) {
    // The kubelet is just in time.
    if (request.number == 1) {
      EXPECT_THAT(WriteFileAtomic(path, "new"), IsOk());
    }
    Wants("new")(request, peer);
  });
  options_.credentials.token_file = path;
  EXPECT_THAT(List(), IsOk());
  EXPECT_EQ(server_->requests().size(), 2u);
}

TEST_F(AuthenticationTest, ATokenThatStaysRefusedIsSentOnce) {
  const std::string path = JoinPath(dir_.path(), "token");
  ASSERT_THAT(WriteFileAtomic(path, "old"), IsOk());
  ServeTls(Wants("new"));
  options_.credentials.token_file = path;
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnauthenticated,
                               HasSubstr("and they have not changed since: renew them")));
  EXPECT_EQ(server_->requests().size(), 1u);
}

TEST_F(AuthenticationTest, APluginIsAskedAgainOnce) {
  const std::string plugin = JoinPath(dir_.path(), "plugin");
  const std::string runs = JoinPath(dir_.path(), "runs");
  ASSERT_THAT(WriteFileAtomic(
                  plugin,
                  absl::StrCat("#!/bin/sh\necho run >> ", runs, "\nn=$(wc -l < ", runs,
                               ")\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\","
                               "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t'$n'\"}}'\n"),
                  0700),
              IsOk());
  ServeTls(Wants("t2"));
  options_.credentials.exec =
      ExecPlugin{.api_version = "client.authentication.k8s.io/v1", .command = plugin};
  EXPECT_THAT(List(), IsOk());
  ServeTls(Wants("none"));
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnauthenticated,
                               HasSubstr(absl::StrCat("credential plugin ", plugin))));
  EXPECT_EQ(server_->requests().size(), 2u);
}

TEST_F(AuthenticationTest, ImpersonationIsSent) {
  ServeTls(Wants("good"));
  options_.credentials.token = "good";
  options_.credentials.headers = {{"Impersonate-User", "ann"}};
  EXPECT_THAT(List(), IsOk());
  EXPECT_EQ(server_->requests().at(0).headers.at("impersonate-user"), "ann");
}

TEST_F(AuthenticationTest, AWrongAuthorityIsNotTriedAgain) {
  ServeTls(Wants("good"));
  options_.tls.ca_pem = (*TestPki::Create("other"))->ca_pem();
  EXPECT_THAT(List(), StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("wrong CA"), Not(HasSubstr("attempts")))));
}

class LoaderTest : public AuthenticationTest {};

TEST_F(LoaderTest, AKubeconfig) {
  ServeTls(Wants("good"));
  ASSERT_THAT(WriteFileAtomic(JoinPath(dir_.path(), "ca.crt"), pki_->ca_pem()), IsOk());
  const std::string path = JoinPath(dir_.path(), "config");
  ASSERT_THAT(
      WriteFileAtomic(
          path,
          absl::StrCat("current-context: c\n"
                       "contexts: [{name: c, context: {cluster: k, user: u, namespace: tf}}]\n"
                       "clusters: [{name: k, cluster: {certificate-authority: ca.crt, server: '",
                       server_->url(), "'}}]\nusers: [{name: u, user: {token: good}}]\n")),
      IsOk());
  RealKubernetesConfigLoader loader({.kubeconfig = path, .service_account = {}});
  const auto access = loader.KubeConfig("");
  ASSERT_THAT(access, IsOk());
  EXPECT_EQ(access->namespace_name, "tf");
  EXPECT_EQ(access->client->Describe(), absl::StrCat(server_->url(), " (context c)"));
  EXPECT_THAT(access->client->ListPods({.namespace_name = "tf"}, kLong, {}), IsOk());
  EXPECT_THAT(loader.KubeConfig("other"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(LoaderTest, AServiceAccount) {
  ServeTls(Wants("good"));
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"ca.crt", pki_->ca_pem()}, {"token", "good\n"}, {"namespace", "tf"}}) {
    ASSERT_THAT(WriteFileAtomic(JoinPath(dir_.path(), name), text), IsOk());
  }
  RealKubernetesConfigLoader loader({.kubeconfig = "", .service_account = {dir_.path()}});
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_FALSE(loader.RunsInCluster());
  EXPECT_THAT(loader.InCluster(), StatusIs(absl::StatusCode::kFailedPrecondition));
  setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", absl::StrCat(server_->port()).c_str(), 1);
  EXPECT_TRUE(loader.RunsInCluster());
  const auto access = loader.InCluster();
  ASSERT_THAT(access, IsOk());
  EXPECT_EQ(access->namespace_name, "tf");
  EXPECT_THAT(access->client->ListPods({.namespace_name = "tf"}, kLong, {}), IsOk());
}

}  // namespace
}  // namespace millrace
