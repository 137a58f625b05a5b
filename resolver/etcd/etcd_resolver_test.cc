#include "millrace/etcd_resolver.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/http/loopback_server.h"
#include "resolver/update_recorder.h"
#include "testing/kube_apiserver/etcd_server.h"
#include "testing/kube_apiserver/test_pki.h"

namespace millrace {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<EtcdResolver> Make(EtcdResolverOptions options) {
  if (options.prefix.empty()) options.prefix = "/c/train";
  auto resolver = EtcdResolver::Create(std::move(options));
  EXPECT_THAT(resolver, IsOk());
  return *std::move(resolver);
}

// Each on a real etcd of its own.
class EtcdResolverTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = EtcdServer::Unavailable()) GTEST_SKIP() << *why;
    auto etcd = EtcdServer::Start();
    ASSERT_THAT(etcd, IsOk());
    etcd_ = *std::move(etcd);
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_THAT(etcd_->Put(key, value), IsOk());
  }

  std::unique_ptr<EtcdServer> etcd_;
};

TEST_F(EtcdResolverTest, KeysBelowThePrefixAreTasks) {
  Put("/c/train/worker/1", "h1:7077\n");
  Put("/c/train/worker/0", "h0:7077");
  Put("/c/train/worker/10", "h10:7077");
  Put("/c/train/ps/0", "[fd00::1]:2222");
  Put("/c/train2/ps/0", "another:1");
  Put("/c/trai", "another:1");
  for (const char* prefix : {"/c/train", "/c/train//"}) {
    const auto resolver = Make({.endpoints = {etcd_->url() + "/"}, .prefix = prefix});
    const auto spec = resolver->cluster_spec();
    ASSERT_THAT(spec, IsOk());
    EXPECT_EQ(spec->ToJson(), R"({"ps":["[fd00::1]:2222"],)"
                              R"("worker":{"0":"h0:7077","1":"h1:7077","10":"h10:7077"}})");
  }
  const auto resolver =
      Make({.endpoints = {etcd_->url()}, .properties = {.task_type = "worker", .task_id = 1}});
  EXPECT_THAT(resolver->master(), IsOkAndHolds("h1:7077"));
}

TEST_F(EtcdResolverTest, SaysWhichTasksAreMissing) {
  const auto resolver = [&](EtcdResolverOptions options) {
    options.endpoints = {etcd_->url()};
    return Make(std::move(options));
  };
  EXPECT_THAT(resolver({})->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("/c/train/"), HasSubstr("have 0 of 1"))));
  Put("/c/train/worker/0", "h0:1");
  EXPECT_THAT(resolver({.expected_tasks = {{"ps", 1}, {"worker", 2}}})->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ps: have 0 of 1"), HasSubstr("worker: have 1 of 2"))));
  EXPECT_THAT(
      resolver({.completeness = MemberCompleteness::kAvailable, .expected_tasks = {{"worker", 2}}})
          ->cluster_spec(),
      IsOk());
  EXPECT_THAT(resolver({.completeness = MemberCompleteness::kWait,
                        .expected_tasks = {{"worker", 2}},
                        .wait_timeout = absl::Milliseconds(1)})
                  ->cluster_spec(),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("have 1 of 2")));
}

TEST_F(EtcdResolverTest, RefusesKeysAndValuesThatAreNoTasks) {
  const auto resolver = Make({.endpoints = {etcd_->url()}});
  for (const char* key : {"x", "/0", "worker/", "worker/x", "worker/-1", "worker/01", "worker/1/2",
                          "worker/99999999999"}) {
    const std::string whole = absl::StrCat("/c/train/", key);
    Put(whole, "h:1");
    EXPECT_THAT(resolver->cluster_spec(), StatusIs(StatusCode::kInvalidArgument, HasSubstr(whole)));
    ASSERT_THAT(etcd_->Delete(whole), IsOk());
  }
  Put("/c/train/worker/0", " ");
  EXPECT_THAT(resolver->cluster_spec(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("/c/train/worker/0")));
}

TEST_F(EtcdResolverTest, AWatchHearsEveryChange) {
  Put("/c/train/worker/0", "h0:1");
  // It would ask once an hour: what it knows was pushed.
  const WatchOptions hourly = {.poll_interval = absl::Hours(1)};
  const auto resolver = Make({.endpoints = {etcd_->url()}});
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), hourly);
  ASSERT_THAT(watch, IsOk());
  ASSERT_TRUE(updates.WaitForNext([](const auto& update) { return update.epoch == 1; }));
  Put("/c/train/worker/1", "h1:1");
  auto next = updates.WaitForNext([](const auto& update) { return update.epoch == 2; });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->spec.ToJson(), R"({"worker":["h0:1","h1:1"]})");
  Put("/c/train/worker/1", "h9:1");
  next = updates.WaitForNext([](const auto& update) { return update.epoch == 3; });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->diff.moved.size(), 1);
  ASSERT_THAT(etcd_->Delete("/c/train/worker/0"), IsOk());
  next = updates.WaitForNext([](const auto& update) { return update.epoch == 4; });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->spec.ToJson(), R"({"worker":{"1":"h9:1"}})");
  ASSERT_THAT(etcd_->Delete("/c/train/worker/1"), IsOk());
  EXPECT_TRUE(updates.WaitForNext(
      [](const auto& update) { return absl::IsFailedPrecondition(update.status); }));
}

TEST_F(EtcdResolverTest, AWatchOutlivesTheServer) {
  Put("/c/train/worker/0", "h0:1");
  const auto resolver = Make({.endpoints = {etcd_->url()}});
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), {.poll_interval = absl::Milliseconds(20)});
  ASSERT_THAT(watch, IsOk());
  ASSERT_TRUE(updates.WaitForNext([](const auto& update) { return update.epoch == 1; }));
  etcd_->Stop();
  const auto lost =
      updates.WaitForNext([](const auto& update) { return absl::IsUnavailable(update.status); });
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->spec.ToJson(), R"({"worker":["h0:1"]})");
  EXPECT_THAT(resolver->cluster_spec(),
              StatusIs(StatusCode::kUnavailable, HasSubstr(etcd_->url())));
  ASSERT_THAT(etcd_->StartAgain(), IsOk());
  ASSERT_TRUE(updates.WaitForNext([](const auto& update) { return update.status.ok(); }));
  Put("/c/train/worker/1", "h1:1");
  EXPECT_TRUE(updates.WaitForNext([](const auto& update) { return update.epoch == 2; }));
}

TEST_F(EtcdResolverTest, AsksTheNextEndpointWhereOneDoesNotAnswer) {
  Put("/c/train/worker/0", "h0:1");
  EXPECT_THAT(Make({.endpoints = {"http://127.0.0.1:1", etcd_->url()}})->cluster_spec(), IsOk());
  EXPECT_THAT(Make({.endpoints = {"http://127.0.0.1:1", "http://127.0.0.1:2"}})->cluster_spec(),
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("127.0.0.1:2"))));
}

TEST_F(EtcdResolverTest, LogsInAndIsToldWhatIsMissing) {
  Put("/c/train/worker/0", "h0:1");
  const auto call = [&](const std::string& path, const Json& body) {
    EXPECT_THAT(etcd_->Call("/v3/auth/" + path, body), IsOk()) << path;
  };
  call("user/add", {{"name", "root"}, {"password", "r"}});
  call("user/grant", {{"user", "root"}, {"role", "root"}});
  call("role/add", {{"name", "reader"}});
  call("role/grant", {{"name", "reader"},
                      {"perm",
                       {{"permType", "READ"},
                        {"key", absl::Base64Escape("/c/train/")},
                        {"range_end", absl::Base64Escape("/c/train0")}}}});
  for (const char* user : {"one", "nobody"}) {
    call("user/add", {{"name", user}, {"password", "p w"}});
  }
  call("user/grant", {{"user", "one"}, {"role", "reader"}});
  call("enable", Json::object());

  const std::string password = testing::TempDir() + "/password";
  ASSERT_THAT(WriteFileAtomic(password, "p w\n"), IsOk());
  const auto as = [&](const std::string& user) {
    return Make(
        {.endpoints = {etcd_->url()}, .user = user, .password_file = user.empty() ? "" : password});
  };
  const auto resolver = as("one");
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_THAT(as("nobody")->cluster_spec(),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("grant-permission")));
  EXPECT_THAT(as("")->cluster_spec(),
              StatusIs(StatusCode::kUnauthenticated, HasSubstr("password_file")));
  EXPECT_THAT(as("stranger")->cluster_spec(), StatusIs(StatusCode::kUnauthenticated));
  // After this the token that it has is not valid any more.
  const auto root = etcd_->Call("/v3/auth/authenticate", {{"name", "root"}, {"password", "r"}});
  ASSERT_THAT(root, IsOk());
  ASSERT_THAT(etcd_->Call("/v3/auth/disable", Json::object(), (*root)["token"]), IsOk());
  call("enable", Json::object());
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  ASSERT_THAT(WriteFileAtomic(password, "wrong"), IsOk());
  EXPECT_THAT(as("one")->cluster_spec(), StatusIs(StatusCode::kUnauthenticated));
}

TEST(EtcdResolverTlsTest, ShowsItsCertificateAndTrustsOnlyTheAuthority) {
  if (const auto why = EtcdServer::Unavailable()) GTEST_SKIP() << *why;
  const auto pki = TestPki::Create("etcd-ca");
  ASSERT_THAT(pki, IsOk());
  const auto etcd = EtcdServer::Start({.pki = pki->get()});
  ASSERT_THAT(etcd, IsOk());
  ASSERT_THAT((*etcd)->Put("/c/train/worker/0", "h0:1"), IsOk());
  EtcdResolverOptions options = {.endpoints = {(*etcd)->url()},
                                 .tls = {.ca_file = (*etcd)->File("ca.crt")},
                                 .certificate_file = (*etcd)->File("client.crt"),
                                 .key_file = (*etcd)->File("client.key")};
  EXPECT_THAT(Make(options)->cluster_spec(), IsOk());
  EtcdResolverOptions without = options;
  without.certificate_file = without.key_file = "";
  EXPECT_THAT(Make(without)->cluster_spec(), StatusIs(StatusCode::kUnavailable));
  options.tls.ca_file = "";
  EXPECT_THAT(Make(options)->cluster_spec(), StatusIs(StatusCode::kUnavailable));
}

TEST(EtcdResolverAnswersTest, RefusesWhatIsNoEtcd) {
  std::string body;
  int status = 200;
  const auto server = LoopbackServer::Start(
      {}, [&](const auto&, LoopbackServer::Peer& peer) { peer.Answer(status, body); });
  ASSERT_THAT(server, IsOk());
  const auto resolver = Make({.endpoints = {(*server)->url()}});
  for (const char* text : {"", "[]", "<html>", "{}", R"({"header": {"revision": "x"}})",
                           R"({"header": {"revision": "1"}, "kvs": {}})",
                           R"({"header": {"revision": "1"}, "kvs": [{"key": "***"}]})"}) {
    body = text;
    EXPECT_THAT(resolver->cluster_spec(),
                StatusIs(StatusCode::kDataLoss, HasSubstr((*server)->url())))
        << text;
  }
  status = 404;
  body = "404 page not found";
  EXPECT_THAT(resolver->cluster_spec(), StatusIs(StatusCode::kDataLoss, HasSubstr("page not")));
}

TEST(EtcdResolverOptionsTest, RefusesOptionsThatMakeNoSense) {
  const EtcdResolverOptions good = {.endpoints = {"http://h:2379"}, .prefix = "/c"};
  const auto refused = [&](auto change, const char* said) {
    EtcdResolverOptions options = good;
    change(options);
    EXPECT_THAT(EtcdResolver::Create(options),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(said)));
  };
  EXPECT_THAT(EtcdResolver::Create(good), IsOk());
  refused([](auto& o) { o.endpoints.clear(); }, "endpoints");
  refused([](auto& o) { o.endpoints = {"h:2379"}; }, "endpoints");
  refused([](auto& o) { o.prefix = "//"; }, "prefix");
  refused([](auto& o) { o.user = "u"; }, "password_file");
  refused([](auto& o) { o.key_file = "k"; }, "certificate_file");
  refused([](auto& o) { o.timeout = absl::ZeroDuration(); }, "timeout");
  refused([](auto& o) { o.wait_timeout = absl::ZeroDuration(); }, "wait_timeout");
  refused([](auto& o) { o.expected_tasks = {{"w", -1}}; }, "expected_tasks");
  refused([](auto& o) { o.properties.task_id = -1; }, "task_id");
}

}  // namespace
}  // namespace millrace
