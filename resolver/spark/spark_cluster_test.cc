#include "resolver/spark/spark_cluster.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/member_completeness.h"
#include "resolver/member_completeness.h"
#include "resolver/spark/spark_application.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

SparkExecutor Executor(const std::string& id, const std::string& host) {
  return {.id = id, .host = host, .active = true};
}

SparkApplication Application(std::vector<SparkExecutor> executors) {
  return {.id = "app-1", .name = "test", .executors = std::move(executors)};
}

std::vector<SparkJob> Jobs(std::vector<SparkJob> jobs) {
  auto checked = CheckSparkJobs(std::move(jobs));
  EXPECT_THAT(checked, IsOk());
  return checked.ok() ? *std::move(checked) : std::vector<SparkJob>();
}

std::string SpecOf(const SparkApplication& application, const std::vector<SparkJob>& jobs,
                   MemberCompleteness completeness = MemberCompleteness::kRequireAll) {
  const auto cluster = MakeSparkCluster(application, jobs, completeness);
  return cluster.ok() ? cluster->spec.ToJson() : std::string(cluster.status().message());
}

TEST(SparkClusterTest, ExecutorsAreDealtByIdInTheOrderOfRoles) {
  const auto jobs = Jobs({{"worker", std::nullopt, 2222},
                          {"other", 1, 4444},
                          {"evaluator", 1, 2222},
                          {"chief", 1, 2222},
                          {"ps", 2, 3333}});
  const auto application =
      Application({Executor("0", "a"), Executor("1", "b"), Executor("2", "a"), Executor("3", "a"),
                   Executor("4", "c"), Executor("5", "b"), Executor("10", "b")});
  EXPECT_EQ(SpecOf(application, jobs),
            R"({"ps":["a:3333","b:3333"],"chief":["a:2222"],"evaluator":["a:2223"],)"
            R"("other":["c:4444"],"worker":["b:2222","b:2223"]})");
}

TEST(SparkClusterTest, OnlyActiveExecutorsThatAreNotExcludedAreMembers) {
  auto application = Application({Executor("0", "a"), Executor("1", "b"), Executor("2", "c")});
  application.executors[0].active = false;
  application.executors[1].excluded = true;
  EXPECT_EQ(SpecOf(application, Jobs({{"worker", std::nullopt, 1000}})),
            R"({"worker":["c:1000"]})");
  EXPECT_THAT(SpecOf(application, Jobs({{"worker", 2, 1000}})),
              AllOf(HasSubstr("have 1 of 2 (worker 2)"), HasSubstr("1 excluded")));
}

TEST(SparkClusterTest, MissingExecutorsAreCounted) {
  const auto jobs = Jobs({{"ps", 1, 1000}, {"worker", std::nullopt, 1000}});
  EXPECT_THAT(
      MakeSparkCluster(Application({Executor("0", "a")}), jobs, MemberCompleteness::kRequireAll),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "application app-1 does not have its executors: have 1 of 2 (ps 1, worker at "
               "least 1)"));
  EXPECT_THAT(SpecOf(Application({}), jobs), HasSubstr("in local mode there are none"));
  EXPECT_EQ(SpecOf(Application({Executor("0", "a")}), jobs, MemberCompleteness::kAvailable),
            R"({"ps":["a:1000"],"worker":{}})");
  EXPECT_EQ(SpecOf(Application({}), jobs, MemberCompleteness::kAvailable),
            R"({"ps":{},"worker":{}})");
}

TEST(SparkClusterTest, ExecutorsThatNoJobTakesAreNoMembers) {
  EXPECT_EQ(
      SpecOf(Application({Executor("0", "a"), Executor("1", "b")}), Jobs({{"worker", 1, 1000}})),
      R"({"worker":["a:1000"]})");
}

TEST(SparkClusterTest, Ipv6HostsHaveBrackets) {
  EXPECT_EQ(SpecOf(Application({Executor("0", "fd00::2")}), Jobs({{"worker", 1, 1000}})),
            R"({"worker":["[fd00::2]:1000"]})");
}

TEST(SparkClusterTest, PortsThatCollideOrRunOutAreRefused) {
  const auto two = Application({Executor("0", "a"), Executor("1", "a"), Executor("2", "a")});
  EXPECT_THAT(MakeSparkCluster(two, Jobs({{"ps", 2, 1000}, {"worker", 1, 1001}}),
                               MemberCompleteness::kRequireAll),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("ps:1 and worker:0 would both be at a:1001")));
  EXPECT_THAT(MakeSparkCluster(two, Jobs({{"worker", 3, 65534}}), MemberCompleteness::kRequireAll),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65536")));
  EXPECT_THAT(MakeSparkCluster(Application({Executor("7", "")}), Jobs({{"worker", 1, 1000}}),
                               MemberCompleteness::kRequireAll),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("executor 7, which would be worker:0, has no host yet")));
}

TEST(SparkClusterTest, JobsThatMakeNoSenseAreRefused) {
  const auto refused = [](std::vector<SparkJob> jobs, const std::string& why) {
    EXPECT_THAT(CheckSparkJobs(std::move(jobs)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({}, "no job");
  refused({{"", 1, 1000}}, "no name");
  refused({{"ps", 0, 1000}}, "1 task or more");
  refused({{"ps", 1, 0}}, "1 to 65535");
  refused({{"ps", 1, 65536}}, "1 to 65535");
  refused({{"ps", 1, 1000}, {"ps", 1, 2000}}, "there twice");
  refused({{"ps", std::nullopt, 1000}, {"worker", std::nullopt, 2000}}, "both ps and worker");
}

absl::StatusOr<std::vector<SparkExecutor>> Executors(const std::string& text) {
  return SparkExecutorsFromJson(*ParseJson(text));
}

TEST(SparkApplicationTest, ExecutorsAreReadAndSorted) {
  const auto executors = Executors(R"([
    {"id": "driver", "hostPort": "10.0.0.1:40000", "isActive": true},
    {"id": "10", "hostPort": "10.0.0.2:1", "isActive": true, "isBlacklisted": true},
    {"id": "x-1", "hostPort": "[fd00::2]:35000", "isActive": true, "totalCores": 4,
     "resources": {"gpu": {"name": "gpu", "addresses": ["0", "1"]}}},
    {"id": "9", "hostPort": "worker-9", "isActive": false, "isExcluded": true}])");
  ASSERT_THAT(executors, IsOk());
  ASSERT_THAT(*executors, SizeIs(3));
  EXPECT_EQ((*executors)[0].id, "9");
  EXPECT_EQ((*executors)[0].host, "worker-9");
  EXPECT_FALSE((*executors)[0].active);
  EXPECT_TRUE((*executors)[0].excluded);
  EXPECT_EQ((*executors)[1].id, "10");
  EXPECT_TRUE((*executors)[1].excluded);
  EXPECT_EQ((*executors)[2].host, "fd00::2");
  EXPECT_EQ((*executors)[2].total_cores, 4);
  EXPECT_THAT((*executors)[2].resources, ElementsAre(Pair("gpu", ElementsAre("0", "1"))));
}

TEST(SparkApplicationTest, WhatIsNoListOfExecutorsIsDataLoss) {
  for (const char* text :
       {"{}", "[1]", "[null]", R"([{"id": 7}])", R"([{"id": "1", "hostPort": "a:1"}])",
        R"([{"id": "1", "hostPort": "a:1", "isActive": "yes"}])",
        R"([{"id": "1", "hostPort": "a:1", "isActive": true, "resources": {"gpu": 3}}])"}) {
    EXPECT_THAT(Executors(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  }
  EXPECT_THAT(Executors("[]"), IsOkAndHolds(IsEmpty()));
}

TEST(SparkApplicationTest, TheNewestAttemptCounts) {
  const auto application = SparkApplicationFromJson(*ParseJson(
      R"({"id": "app-1", "name": "n", "attempts": [{"attemptId": "2", "completed": false},
                                                   {"attemptId": "1", "completed": true}]})"));
  ASSERT_THAT(application, IsOk());
  EXPECT_EQ(application->attempt, "2");
  EXPECT_FALSE(application->completed);
  for (const char* text : {"[]", "{}", R"({"id": 1, "attempts": []})", R"({"id": "a"})"}) {
    EXPECT_THAT(SparkApplicationFromJson(*ParseJson(text)), StatusIs(absl::StatusCode::kDataLoss))
        << text;
  }
}

TEST(MemberCompletenessTest, WaitsUntilTheAnswerIsAnotherOne) {
  int calls = 0;
  const auto ask = [&]() -> absl::StatusOr<ClusterSpec> {
    if (++calls < 3) return absl::FailedPreconditionError("have 1 of 2");
    return ClusterSpec();
  };
  EXPECT_THAT(AskUntilComplete(ask, absl::Minutes(5)), IsOk());
  EXPECT_EQ(calls, 3);
  const auto never = []() -> absl::StatusOr<ClusterSpec> {
    return absl::FailedPreconditionError("have 1 of 2");
  };
  EXPECT_THAT(AskUntilComplete(never, absl::Milliseconds(10)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("have 1 of 2")));
  const auto broken = []() -> absl::StatusOr<ClusterSpec> { return absl::UnavailableError("x"); };
  EXPECT_THAT(AskUntilComplete(broken, absl::Minutes(5)), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace millrace
