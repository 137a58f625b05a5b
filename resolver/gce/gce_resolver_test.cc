#include "millrace/gce_resolver.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/http/loopback_server.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr char kZone[] =
    "https://www.googleapis.com/compute/v1/projects/my-project/zones/us-central1-a";
constexpr char kList[] =
    "/projects/my-project/zones/us-central1-a/instanceGroups/train/listInstances?orderBy=name";

// The answers of the API and of the metadata server, in the form that their references have.
class GceResolverTest : public testing::Test {
 protected:
  GceResolverTest() {
    server_ = *LoopbackServer::Start({}, [this](const auto& request, LoopbackServer::Peer& peer) {
      MutexLock lock(&mu_);
      const auto found = answers_.find(request.target);
      if (found == answers_.end()) {
        peer.Answer(404, R"({"error": {"code": 404, "message": "The resource was not found"}})");
      } else {
        peer.Answer(found->second.first, found->second.second);
      }
    });
    Metadata("project/project-id", "my-project");
    Metadata("instance/zone", "projects/123456789/zones/us-central1-a");
    Metadata("instance/name", "train-2");
    Metadata("instance/service-accounts/default/token",
             R"({"access_token":"ya29.secret","expires_in":3599,"token_type":"Bearer"})");
  }

  void Answer(const std::string& target, int status, const std::string& body) {
    MutexLock lock(&mu_);
    answers_[target] = {status, body};
  }
  void Forget(const std::string& target) {
    MutexLock lock(&mu_);
    answers_.erase(target);
  }
  void Metadata(const std::string& path, const std::string& body) {
    Answer("/computeMetadata/v1/" + path, 200, body);
  }
  // The whole group: name to status.
  void List(const std::map<std::string, std::string>& instances, const std::string& target = kList,
            const std::string& next = "") {
    Json answer = {{"kind", "compute#instanceGroupsListInstances"}};
    for (const auto& [name, status] : instances) {
      answer["items"].push_back(
          {{"instance", absl::StrCat(kZone, "/instances/", name)}, {"status", status}});
    }
    if (!next.empty()) answer["nextPageToken"] = next;
    Answer(target, 200, DumpJson(answer));
  }
  void Instance(const std::string& name, const Json& interface) {
    Json answer = {{"kind", "compute#instance"}, {"name", name}, {"status", "RUNNING"}};
    answer["networkInterfaces"].push_back(interface);
    Answer(PathOf(name), 200, DumpJson(answer));
  }
  static std::string PathOf(const std::string& name) {
    return "/projects/my-project/zones/us-central1-a/instances/" + name;
  }
  void ThreeInstances() {
    List({{"train-1", "RUNNING"}, {"train-10", "RUNNING"}, {"train-2", "RUNNING"}});
    Instance("train-1", {{"networkIP", "10.128.0.9"}});
    Instance("train-2", {{"networkIP", "10.128.0.10"}});
    Instance("train-10", {{"networkIP", "10.128.0.100"}});
  }

  std::unique_ptr<GceResolver> Make(GceResolverOptions options = {}) {
    options.instance_group = "train";
    options.api_url = server_->url() + "/";
    options.metadata_url = server_->url();
    auto resolver = GceResolver::Create(std::move(options));
    EXPECT_THAT(resolver, IsOk());
    return *std::move(resolver);
  }

  Mutex mu_;
  std::map<std::string, std::pair<int, std::string>> answers_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<LoopbackServer> server_;
};

TEST_F(GceResolverTest, InstancesAreTasksInTheOrderOfTheNumbersInTheirNames) {
  ThreeInstances();
  const auto resolver = Make();
  const auto spec = resolver->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(),
            R"({"worker":["10.128.0.9:8470","10.128.0.10:8470","10.128.0.100:8470"]})");
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(Optional(std::string("worker"))));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(1)));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://10.128.0.10:8470"));
  EXPECT_THAT(resolver->master("worker", 2, ""), IsOkAndHolds("10.128.0.100:8470"));
  for (const LoopbackServer::Request& request : server_->requests()) {
    const bool metadata = absl::StartsWith(request.target, "/computeMetadata/");
    EXPECT_EQ(request.headers.count("metadata-flavor"), metadata ? 1 : 0);
    EXPECT_EQ(request.headers.count("authorization"), metadata ? 0 : 1);
    if (!metadata) {
      EXPECT_EQ(request.headers.at("authorization"), "Bearer ya29.secret");
    }
    if (request.target == kList) {
      EXPECT_EQ(request.method, "POST");
      EXPECT_EQ(request.body, R"({"instanceState":"ALL"})");
    }
  }
}

TEST_F(GceResolverTest, TakesJobPortAndATokenOfAFile) {
  ThreeInstances();
  const std::string token_file = testing::TempDir() + "/token";
  ASSERT_THAT(WriteFileAtomic(token_file, "of-a-file\n"), IsOk());
  const auto resolver = Make({.project = "my-project",
                              .zone = "us-central1-a",
                              .port = 7077,
                              .token_file = token_file,
                              .properties = {.task_type = "ps", .rpc_layer = ""}});
  EXPECT_EQ(resolver->cluster_spec()->ToJson(),
            R"({"ps":["10.128.0.9:7077","10.128.0.10:7077","10.128.0.100:7077"]})");
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(resolver->master("ps", 0), IsOkAndHolds("10.128.0.9:7077"));
  for (const LoopbackServer::Request& request : server_->requests()) {
    EXPECT_EQ(request.headers.at("authorization"), "Bearer of-a-file") << request.target;
  }
  ASSERT_THAT(WriteFileAtomic(token_file, "two\nlines"), IsOk());
  EXPECT_THAT(resolver->cluster_spec(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(token_file)));
}

TEST_F(GceResolverTest, CountsTheGpusOfThisHost) {
  const auto resolver = Make({.count_accelerators = [] {
    return std::map<std::string, int>{{"GPU", 2}};
  }});
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(std::map<std::string, int>{{"GPU", 2}}));
  EXPECT_THAT(resolver->environment(), IsOkAndHolds(Optional(std::string())));
}

TEST_F(GceResolverTest, FollowsPages) {
  ThreeInstances();
  List({{"train-1", "RUNNING"}}, kList, "a b&c");
  List({{"train-2", "RUNNING"}}, absl::StrCat(kList, "&pageToken=a%20b%26c"));
  EXPECT_EQ(Make()->cluster_spec()->ToJson(),
            R"({"worker":["10.128.0.9:8470","10.128.0.10:8470"]})");
}

TEST_F(GceResolverTest, PutsIPv6IntoBrackets) {
  List({{"train-1", "RUNNING"}});
  Instance("train-1", {{"ipv6Address", "fd20::5"}});
  EXPECT_EQ(Make()->cluster_spec()->ToJson(), R"({"worker":["[fd20::5]:8470"]})");
}

TEST_F(GceResolverTest, InstancesThatEndAreNoMembersAndThoseThatStartAreMissed) {
  ThreeInstances();
  List({{"train-1", "STOPPING"}, {"train-2", "RUNNING"}, {"train-3", "TERMINATED"}});
  EXPECT_EQ(Make()->cluster_spec()->ToJson(), R"({"worker":["10.128.0.10:8470"]})");
  List({{"train-1", "RUNNING"}, {"train-2", "RUNNING"}, {"train-3", "STAGING"}});
  EXPECT_THAT(Make()->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("have 2 of 3"), HasSubstr("train-3 (STAGING)"))));
  EXPECT_EQ(Make({.completeness = MemberCompleteness::kAvailable})->cluster_spec()->total_tasks(),
            2);
  Instance("train-3", Json::object());
  List({{"train-1", "RUNNING"}, {"train-2", "RUNNING"}, {"train-3", "RUNNING"}});
  EXPECT_THAT(Make()->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("train-3 (no address)")));
  // It is gone between the two questions.
  Forget(PathOf("train-3"));
  EXPECT_EQ(Make()->cluster_spec()->total_tasks(), 2);
}

TEST_F(GceResolverTest, HoldsTheGroupToTheNumberThatIsExpected) {
  ThreeInstances();
  EXPECT_THAT(Make({.expected_tasks = 3})->cluster_spec(), IsOk());
  for (const int expected : {2, 4}) {
    EXPECT_THAT(
        Make({.expected_tasks = expected})->cluster_spec(),
        StatusIs(StatusCode::kFailedPrecondition, HasSubstr(absl::StrCat("3 of ", expected))));
  }
  List({});
  EXPECT_THAT(Make()->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("0 of 1")));
}

TEST_F(GceResolverTest, WaitsUntilTheGroupIsComplete) {
  ThreeInstances();
  List({{"train-1", "RUNNING"}, {"train-2", "PROVISIONING"}});
  const auto resolver = Make({.completeness = MemberCompleteness::kWait});
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), {.poll_interval = absl::Milliseconds(5)});
  ASSERT_THAT(watch, IsOk());
  ASSERT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return absl::IsFailedPrecondition(update.status) && update.epoch == 0;
  }));
  List({{"train-1", "RUNNING"}, {"train-2", "RUNNING"}});
  ASSERT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  EXPECT_EQ(resolver->cluster_spec()->total_tasks(), 2);
  Instance("train-2", {{"networkIP", "10.128.0.77"}});
  ASSERT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 2 && update.diff.moved.size() == 1;
  }));
}

TEST_F(GceResolverTest, WaitingEnds) {
  List({{"train-1", "STAGING"}});
  EXPECT_THAT(
      Make({.completeness = MemberCompleteness::kWait, .wait_timeout = absl::Milliseconds(1)})
          ->cluster_spec(),
      StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("train-1 (STAGING)")));
}

TEST_F(GceResolverTest, SaysWhatTheApiRefuses) {
  struct Case {
    int status;
    StatusCode code;
    std::string said;
  };
  for (const Case& refused :
       std::vector<Case>{{400, StatusCode::kInvalidArgument, "no good"},
                         {401, StatusCode::kUnauthenticated, "access token"},
                         {403, StatusCode::kPermissionDenied, "compute.instanceGroups.list"},
                         {404, StatusCode::kNotFound, "instance group train of project my-project"},
                         {429, StatusCode::kUnavailable, "no good"},
                         {503, StatusCode::kUnavailable, "no good"},
                         {302, StatusCode::kDataLoss, "302"}}) {
    Answer(kList, refused.status, R"({"error": {"message": "no good"}})");
    EXPECT_THAT(Make()->cluster_spec(),
                StatusIs(refused.code, AllOf(HasSubstr(refused.said), HasSubstr(server_->url()),
                                             HasSubstr("no good"))));
  }
}

TEST_F(GceResolverTest, RefusesWhatIsNoAnswerOfTheApi) {
  for (const char* body :
       {"<html>", "[]", R"({"items": 5})", R"({"items": [5]})", R"({"items": [{}]})",
        R"({"items": [{"instance": 7}]})", R"({"items": [{"instance": "a", "status": 7}]})",
        R"({"nextPageToken": 7})"}) {
    Answer(kList, 200, body);
    EXPECT_THAT(Make()->cluster_spec(), StatusIs(StatusCode::kDataLoss, HasSubstr("train")))
        << body;
  }
  // Pages without an end.
  List({}, kList, "x");
  List({}, absl::StrCat(kList, "&pageToken=x"), "x");
  EXPECT_THAT(Make()->cluster_spec(), StatusIs(StatusCode::kDataLoss, HasSubstr("pages")));
  Metadata("instance/service-accounts/default/token", "{}");
  EXPECT_THAT(Make()->cluster_spec(), StatusIs(StatusCode::kDataLoss, HasSubstr("access_token")));
}

TEST_F(GceResolverTest, SaysWhereThereIsNoMetadataServer) {
  GceResolverOptions options;
  options.instance_group = "train";
  options.metadata_url = "http://127.0.0.1:1";
  const auto resolver = GceResolver::Create(options);
  ASSERT_THAT(resolver, IsOk());
  EXPECT_THAT((*resolver)->cluster_spec(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("token_file")));
}

TEST_F(GceResolverTest, RefusesOptionsThatMakeNoSense) {
  const auto create = [](GceResolverOptions options, bool named = true) {
    if (named) options.instance_group = "train";
    return GceResolver::Create(std::move(options)).status();
  };
  EXPECT_THAT(create({}, false), StatusIs(StatusCode::kInvalidArgument, HasSubstr("group")));
  EXPECT_THAT(create({.port = 0}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("port")));
  EXPECT_THAT(create({.expected_tasks = 0}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected_tasks")));
  EXPECT_THAT(create({.wait_timeout = absl::ZeroDuration()}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("wait_timeout")));
  EXPECT_THAT(create({.timeout = absl::ZeroDuration()}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("timeout")));
  EXPECT_THAT(create({.api_url = "compute"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("api_url")));
  EXPECT_THAT(create({.metadata_url = "ftp://x"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("metadata_url")));
  EXPECT_THAT(create({.properties = {.task_id = -1}}), StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
