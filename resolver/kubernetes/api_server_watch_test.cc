// Watches of a real API server, and what breaks them.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/kubernetes/api_server_test_base.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

bool IsWatch(const std::string& request) { return absl::StrContains(request, "watch="); }

bool NotOk(const MembershipUpdate& update) { return !update.status.ok(); }

class ApiServerWatchTest : public ApiServerTest {
 protected:
  // Begins a watch of job=w; all pods that are there count.
  void Watch(const HttpKubernetesClient::Options& client = ClientOptions()) {
    KubernetesResolverOptions options = Workers(Client(client));
    options.completeness = MemberCompleteness::kAvailable;
    auto resolver = KubernetesResolver::Create(std::move(options));
    ASSERT_THAT(resolver, IsOk());
    resolver_ = *std::move(resolver);
    auto watch = resolver_->Watch(log_.callback());
    ASSERT_THAT(watch, IsOk());
    watch_ = *std::move(watch);
  }

  // "ClusterSpec({'worker': [...]})" of these addresses.
  static std::string Spec(const std::vector<std::string>& addresses) {
    ClusterSpec spec;
    std::vector<std::string> tasks;
    for (const std::string& address : addresses) tasks.push_back(address + ":8470");
    EXPECT_THAT(spec.AddJob("worker", tasks), IsOk());
    return spec.AsText();
  }

  UpdateLog log_;
  std::unique_ptr<KubernetesResolver> resolver_;
  std::unique_ptr<MembershipWatch> watch_;  // ends first
};

TEST_F(ApiServerWatchTest, EveryChangeOfAPodIsToldAtOnce) {
  AddPod("w", "worker-0", "10.1.0.1");
  Watch();
  EXPECT_EQ(log_.WaitForSpec(Spec({"10.1.0.1"})).epoch, 1);

  // Pending, then Running.
  ASSERT_THAT(server().CreatePod(ns(), "worker-1", {.labels = {{"job", "w"}}}), IsOk());
  ASSERT_THAT(server().SetPodStatus(ns(), "worker-1", {.pod_ip = "10.1.0.2"}), IsOk());
  const MembershipUpdate added = log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));
  EXPECT_EQ(added.epoch, 2);
  EXPECT_EQ(added.diff.ToString(), "added worker:1 10.1.0.2:8470");

  // It comes again elsewhere.
  ASSERT_THAT(server().DeletePod(ns(), "worker-1"), IsOk());
  AddPod("w", "worker-1", "10.1.0.3");
  const MembershipUpdate moved = log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.3"}));
  EXPECT_EQ(moved.spec.AsText(), Spec({"10.1.0.1", "10.1.0.3"}));

  // Out of the selector and back.
  ASSERT_THAT(server().LabelPod(ns(), "worker-1", "job", "other"), IsOk());
  log_.WaitForSpec(Spec({"10.1.0.1"}));
  ASSERT_THAT(server().LabelPod(ns(), "worker-1", "job", "w"), IsOk());
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.3"}));

  // It fails.
  ASSERT_THAT(server().SetPodStatus(ns(), "worker-1", {.phase = "Failed", .pod_ip = "10.1.0.3"}),
              IsOk());
  log_.WaitForSpec(Spec({"10.1.0.1"}));
  EXPECT_THAT(log_.all(), Each(Field(&MembershipUpdate::status, IsOk())));
}

TEST_F(ApiServerWatchTest, APodThatIsBeingDeletedIsLeftOutAtOnce) {
  AddPod("w", "worker-0", "10.1.0.1");
  ASSERT_THAT(
      server().CreatePod(ns(), "worker-1", {.labels = {{"job", "w"}}, .node_name = "node-1"}),
      IsOk());
  ASSERT_THAT(server().SetPodStatus(ns(), "worker-1", {.pod_ip = "10.1.0.2"}), IsOk());
  Watch();
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));
  ASSERT_THAT(server().DeletePod(ns(), "worker-1", absl::Seconds(300)), IsOk());
  log_.WaitForSpec(Spec({"10.1.0.1"}));
}

TEST_F(ApiServerWatchTest, AWatchThatTheServerEndsGoesOnUnseen) {
  AddPod("w", "worker-0", "10.1.0.1");
  const auto proxy = FaultProxy::Start(server());
  ASSERT_THAT(proxy, IsOk());
  HttpKubernetesClient::Options options =
      ClientOptions(KubeApiServer::kAdminToken, (*proxy)->url());
  options.watch_duration = absl::Seconds(1);
  Watch(options);
  log_.WaitForSpec(Spec({"10.1.0.1"}));
  EXPECT_TRUE(Eventually(
      [&] {
        const auto requests = (*proxy)->requests();
        return std::count_if(requests.begin(), requests.end(), IsWatch) >= 3;
      },
      kPatience));
  EXPECT_THAT(log_.all(), SizeIs(1));
  AddPod("w", "worker-1", "10.1.0.2");
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));
}

TEST_F(ApiServerWatchTest, AWatchWithoutTheRightSaysSoUntilItHasIt) {
  AddPod("w", "worker-0", "10.1.0.1");
  ASSERT_THAT(server().Allow("reader", ns(), {"list"}), IsOk());
  Watch(ClientOptions(KubeApiServer::kReaderToken));
  const MembershipUpdate refused = log_.WaitFor("the watch is refused", NotOk);
  EXPECT_THAT(refused.status, StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("watch")));
  ASSERT_THAT(server().Allow("reader", ns(), {"watch"}), IsOk());
  AddPod("w", "worker-1", "10.1.0.2");
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));
}

// ---- the server goes away -----------------------------------------------------------------------

class ApiServerRestartTest : public ApiServerWatchTest, public testing::WithParamInterface<int> {};

TEST_P(ApiServerRestartTest, AWatchFindsTheServerAgainAndWhatChangedMeanwhile) {
  AddPod("w", "worker-0", "10.1.0.1");
  AddPod("w", "worker-1", "10.1.0.2");
  Watch();
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));

  server().Stop(GetParam());
  const MembershipUpdate lost = log_.WaitFor("the server is lost", NotOk);
  EXPECT_THAT(lost.status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr(server().url())));
  // Old, and marked as such.
  EXPECT_EQ(lost.spec.AsText(), Spec({"10.1.0.1", "10.1.0.2"}));
  EXPECT_EQ(lost.epoch, 1);
  // While it is away there is no answer rather than an old one.
  EXPECT_THAT(resolver_->cluster_spec(), StatusIs(absl::StatusCode::kUnavailable));

  ASSERT_THAT(server().StartAgain(), IsOk());
  ASSERT_THAT(server().DeletePod(ns(), "worker-1"), IsOk());
  AddPod("w", "worker-1", "10.1.0.7");
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.7"}));
}

INSTANTIATE_TEST_SUITE_P(Signals, ApiServerRestartTest, testing::Values(SIGTERM, SIGKILL),
                         [](const auto& info) { return info.param == SIGTERM ? "Term" : "Kill"; });

TEST_F(ApiServerWatchTest, AVersionThatIsForgottenLeadsToANewList) {
  AddPod("w", "worker-0", "10.1.0.1");
  AddPod("w", "worker-1", "10.1.0.2");
  const auto list = Client()->ListPods(Pods("job=w"), kPatience, {});
  ASSERT_THAT(list, IsOk());
  const auto proxy = FaultProxy::Start(server());
  ASSERT_THAT(proxy, IsOk());
  const auto away = std::make_shared<std::atomic<bool>>(false);
  (*proxy)->SetRule([away](const std::string& request) {
    // The first watch has hardly begun when its connection breaks.
    if (!*away) return IsWatch(request) ? ProxyFault{.end_after_bytes = 0} : ProxyFault();
    return ProxyFault{.status = 503, .body = "{}"};
  });
  Watch(ClientOptions(KubeApiServer::kAdminToken, (*proxy)->url()));
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));
  *away = true;
  // The new server's cache begins after what it cannot read from etcd any more.
  ASSERT_THAT(server().DeletePod(ns(), "worker-1"), IsOk());
  ASSERT_THAT(server().Compact(), IsOk());
  ASSERT_THAT(server().Restart(SIGKILL), IsOk());
  AddPod("w", "worker-2", "10.1.0.3");
  (*proxy)->SetRule(nullptr);
  const MembershipUpdate update =
      log_.WaitFor("worker-2 is there", [](const MembershipUpdate& update) {
        return update.status.ok() && absl::StrContains(update.spec.AsText(), "10.1.0.3");
      });
  EXPECT_FALSE(absl::StrContains(update.spec.AsText(), "10.1.0.2")) << update.spec.AsText();

  // The form of 410 that a watch gets: 200, then an event of type ERROR.
  const auto ignore = [](const PodEvent&) { return absl::OkStatus(); };
  EXPECT_THAT(Client()->WatchPods(Pods("job=w"), "1", ignore, {}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(Client()->WatchPods(Pods("job=w"), list->resource_version, ignore, {}),
              StatusIs(absl::StatusCode::kOutOfRange));
}

// ---- the connection breaks ----------------------------------------------------------------------

class ApiServerBrokenWatchTest : public ApiServerWatchTest {
 protected:
  void SetUp() override {
    ApiServerWatchTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto proxy = FaultProxy::Start(server());
    ASSERT_THAT(proxy, IsOk());
    proxy_ = *std::move(proxy);
    AddPod("w", "worker-0", "10.1.0.1");
  }

  HttpKubernetesClient::Options ProxyOptions() const {
    HttpKubernetesClient::Options options =
        ClientOptions(KubeApiServer::kAdminToken, proxy_->url());
    options.first_pause = absl::Milliseconds(10);
    return options;
  }

  std::unique_ptr<FaultProxy> proxy_;
};

TEST_F(ApiServerBrokenWatchTest, AStreamThatIsCutAnywhereLosesNothing) {
  // Each watch ends a little later than the one before: between events, within lines, within sizes.
  const auto watches = std::make_shared<std::atomic<int>>(0);
  proxy_->SetRule([watches](const std::string& request) {
    if (!IsWatch(request)) return ProxyFault();
    const int count = ++*watches;
    if (count > 14) return ProxyFault();
    return ProxyFault{.end_after_bytes = 397 * count,
                      .end = count % 2 == 0 ? ProxyFault::End::kClose : ProxyFault::End::kReset};
  });
  Watch(ProxyOptions());
  std::vector<std::string> expected = {"10.1.0.1"};
  for (int i = 1; i < 12; ++i) {
    AddPod("w", absl::StrCat("worker-", i), absl::StrCat("10.1.0.", i + 1));
    expected.push_back(absl::StrCat("10.1.0.", i + 1));
  }
  ASSERT_THAT(server().DeletePod(ns(), "worker-11"), IsOk());
  expected.pop_back();
  log_.WaitForSpec(Spec(expected));
  AddPod("w", "worker-11", "10.1.0.99");
  expected.push_back("10.1.0.99");
  log_.WaitForSpec(Spec(expected));
  EXPECT_GT(*watches, 3);
  int64_t epoch = 0;
  for (const MembershipUpdate& update : log_.all()) {
    EXPECT_TRUE(update.epoch == epoch || update.epoch == epoch + 1);
    epoch = update.epoch;
  }
}

TEST_F(ApiServerBrokenWatchTest, AStreamThatFallsSilentIsNotBelievedForEver) {
  const auto watches = std::make_shared<std::atomic<int>>(0);
  proxy_->SetRule([watches](const std::string& request) {
    if (!IsWatch(request) || ++*watches > 1) return ProxyFault();
    return ProxyFault{.end_after_bytes = 0, .end = ProxyFault::End::kStall};
  });
  HttpKubernetesClient::Options options = ProxyOptions();
  options.watch_silence = absl::Seconds(2);
  Watch(options);
  log_.WaitForSpec(Spec({"10.1.0.1"}));
  AddPod("w", "worker-1", "10.1.0.2");
  log_.WaitForSpec(Spec({"10.1.0.1", "10.1.0.2"}));
  EXPECT_GE(*watches, 2);
}

TEST_F(ApiServerBrokenWatchTest, AServerThatRefusesForAWhileIsToldAsLost) {
  const auto status = std::make_shared<std::atomic<int>>(0);
  // A watch ends soon, so that the next one meets the refusal.
  HttpKubernetesClient::Options options = ProxyOptions();
  options.watch_duration = absl::Seconds(1);
  options.max_attempts = 2;
  proxy_->SetRule([status](const std::string&) {
    return ProxyFault{.status = *status, .body = R"({"kind":"Status","message":"too busy"})"};
  });
  Watch(options);
  log_.WaitForSpec(Spec({"10.1.0.1"}));
  for (const int refusal : {429, 500, 503}) {
    *status = refusal;
    const MembershipUpdate lost = log_.WaitFor(absl::StrCat("HTTP ", refusal, " is told"), NotOk);
    EXPECT_THAT(lost.status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("too busy")));
    *status = 0;
    log_.WaitForSpec(Spec({"10.1.0.1"}));
  }
  // What is no Kubernetes at all.
  proxy_->SetRule([](const std::string&) {
    return ProxyFault{.status = 200, .body = "<html>Please log in</html>"};
  });
  EXPECT_FALSE(log_.WaitFor("the answer is refused", NotOk).status.ok());
  proxy_->SetRule(nullptr);
  log_.WaitForSpec(Spec({"10.1.0.1"}));
}

TEST_F(ApiServerBrokenWatchTest, ATokenThatExpiresIsToldAndTheNextOneIsFound) {
  const auto folder = TempDir::Create("token");
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "token");
  ASSERT_THAT(WriteFileAtomic(path, KubeApiServer::kAdminToken), IsOk());
  HttpKubernetesClient::Options options = ProxyOptions();
  options.credentials.token = "";
  options.credentials.token_file = path;
  options.watch_duration = absl::Seconds(1);
  Watch(options);
  log_.WaitForSpec(Spec({"10.1.0.1"}));
  ASSERT_THAT(WriteFileAtomic(path, "expired"), IsOk());
  const MembershipUpdate refused = log_.WaitFor("the token is refused", NotOk);
  EXPECT_THAT(refused.status, StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr(path)));
  ASSERT_THAT(WriteFileAtomic(path, KubeApiServer::kAdminToken), IsOk());
  log_.WaitForSpec(Spec({"10.1.0.1"}));
}

TEST_F(ApiServerBrokenWatchTest, AWatchEndsAtOnceWhateverItWaitsFor) {
  for (const ProxyFault& fault :
       {ProxyFault{.delay = absl::Seconds(300)},
        ProxyFault{.end_after_bytes = 0, .end = ProxyFault::End::kStall},
        ProxyFault{.status = 429, .headers = "Retry-After: 300\r\n", .body = "{}"}}) {
    for (const bool only_watches : {false, true}) {
      proxy_->SetRule([fault, only_watches](const std::string& request) {
        return only_watches && !IsWatch(request) ? ProxyFault() : fault;
      });
      const size_t before = proxy_->requests().size();
      Watch(ProxyOptions());
      const size_t awaited = before + (only_watches ? 2 : 1);
      EXPECT_TRUE(Eventually([&] { return proxy_->requests().size() >= awaited; }, kPatience));
      const absl::Time begin = absl::Now();
      watch_.reset();
      EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
      resolver_.reset();
    }
  }
}

}  // namespace
}  // namespace millrace
