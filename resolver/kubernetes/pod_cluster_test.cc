#include "resolver/kubernetes/pod_cluster.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/kubernetes/pod_member.h"
#include "resolver/kubernetes/pod_order.h"

namespace millrace {
namespace {

using Source = PodOrdinal::Source;
using testing::AllOf;
using testing::HasSubstr;

constexpr MemberCompleteness kPolicies[] = {
    MemberCompleteness::kRequireAll, MemberCompleteness::kWait, MemberCompleteness::kAvailable};

// A pod that is there, at "NAME:1"; its ordinal from the name as PodOrdinalOf() has it.
PodMember There(const std::string& name) {
  return {.name = name,
          .namespace_name = "ml",
          .uid = absl::StrCat("uid-", name),
          .address = absl::StrCat(name, ":1"),
          .ordinal = PodOrdinalOf({.name = name})};
}

PodMember Absent(const std::string& name, const std::string& why = "is Pending") {
  PodMember member = There(name);
  member.address = "";
  member.absence = why;
  return member;
}

PodMember Gone(const std::string& name) {
  PodMember member = Absent(name, "is Succeeded");
  member.gone = true;
  return member;
}

PodMember Indexed(const std::string& name, Source source, int value) {
  PodMember member = There(name);
  member.ordinal = PodOrdinal{source, value};
  return member;
}

PodJob::Selected Selected(const std::string& selector, const std::vector<PodMember>& pods) {
  PodJob::Selected selected{.selector = selector};
  for (const PodMember& pod : pods) selected.pods.push_back(std::make_shared<PodMember>(pod));
  return selected;
}

PodJob Job(const std::vector<PodMember>& pods, std::optional<int> expected = std::nullopt) {
  return {.name = "worker", .selected = {Selected("app=w", pods)}, .expected_tasks = expected};
}

std::string Spec(const std::vector<PodJob>& jobs, MemberCompleteness completeness) {
  const absl::StatusOr<PodCluster> cluster = MakePodCluster(jobs, completeness, "in namespace ml");
  if (!cluster.ok()) return cluster.status().ToString();
  // The tasks say the same as the spec.
  EXPECT_EQ(cluster->tasks.size(), cluster->spec.total_tasks());
  for (const PodCluster::Task& task : cluster->tasks) {
    EXPECT_THAT(cluster->spec.TaskAddress(task.job, task.index), IsOkAndHolds(task.pod->address));
  }
  return cluster->spec.ToJson();
}

void ExpectSpec(const PodJob& job, const std::string& json) {
  for (const MemberCompleteness policy : kPolicies) EXPECT_EQ(Spec({job}, policy), json);
}

TEST(PodClusterTest, PutsWorkerTenAfterWorkerNine) {
  std::vector<PodMember> pods;
  std::string expected;
  for (int i = 0; i < 12; ++i) {
    pods.push_back(There(absl::StrCat("worker-", i)));
    absl::StrAppend(&expected, i == 0 ? "" : ",", "\"worker-", i, ":1\"");
  }
  std::sort(pods.begin(), pods.end(),
            [](const PodMember& a, const PodMember& b) { return a.name < b.name; });
  ExpectSpec(Job(pods), absl::StrCat("{\"worker\":[", expected, "]}"));
  std::reverse(pods.begin(), pods.end());
  ExpectSpec(Job(pods), absl::StrCat("{\"worker\":[", expected, "]}"));
}

TEST(PodClusterTest, OrdersByNameWhereThereAreNoNumbers) {
  ExpectSpec(Job({There("def456"), There("w10"), There("999999"), There("abc123"), There("w9")}),
             R"({"worker":["999999:1","abc123:1","def456:1","w9:1","w10:1"]})");
}

TEST(PodClusterTest, TakesPodsWithoutNumbersLast) {
  ExpectSpec(Job({There("a"), There("z-1"), Indexed("y", Source::kPodIndex, 4),
                  Indexed("x", Source::kCompletionIndex, 9)}),
             R"({"worker":["x:1","y:1","z-1:1","a:1"]})");
}

TEST(PodClusterTest, KeepsTheOrderOfTheSelectorsAndTakesAPodOnce) {
  PodJob job{.name = "worker",
             .selected = {Selected("b", {There("b-1"), There("b-0")}),
                          Selected("a", {There("a-0"), There("b-1"), There("a-1")})}};
  ExpectSpec(job, R"({"worker":["b-0:1","b-1:1","a-0:1","a-1:1"]})");
}

TEST(PodClusterTest, TakesPodsOfOneNameWithDifferentUids) {
  PodMember other = There("w-0");
  other.uid = "another";
  other.namespace_name = "lm";
  other.address = "other:1";
  ExpectSpec(Job({There("w-0"), other}), R"({"worker":["other:1","w-0:1"]})");
}

TEST(PodClusterTest, APodMayBeATaskOfTwoJobs) {
  const PodJob ps{.name = "ps", .selected = {Selected("app=ps", {There("w-0")})}};
  EXPECT_EQ(Spec({ps, Job({There("w-0")})}, MemberCompleteness::kRequireAll),
            R"({"ps":["w-0:1"],"worker":["w-0:1"]})");
}

TEST(PodClusterTest, IndicesThatKubernetesGaveAreTheTasks) {
  const auto pods = [](Source source) {
    return Job({Indexed("c", source, 0), Indexed("b", source, 2), Indexed("a", source, 3)});
  };
  ExpectSpec(pods(Source::kCompletionIndex), R"({"worker":{"0":"c:1","2":"b:1","3":"a:1"}})");
  ExpectSpec(pods(Source::kPodIndex), R"({"worker":{"0":"c:1","2":"b:1","3":"a:1"}})");
}

TEST(PodClusterTest, IndicesThatTwoPodsHaveAreOnlyAnOrder) {
  ExpectSpec(
      Job({Indexed("b", Source::kCompletionIndex, 0), Indexed("c", Source::kCompletionIndex, 1),
           Indexed("a", Source::kCompletionIndex, 1)}),
      R"({"worker":["b:1","a:1","c:1"]})");
}

TEST(PodClusterTest, NumbersInNamesAreIndicesOnlyOfWhatIsAvailable) {
  const PodJob job = Job({There("w-2"), There("w-5")});
  EXPECT_EQ(Spec({job}, MemberCompleteness::kRequireAll), R"({"worker":["w-2:1","w-5:1"]})");
  EXPECT_EQ(Spec({job}, MemberCompleteness::kAvailable), R"({"worker":{"2":"w-2:1","5":"w-5:1"}})");
}

TEST(PodClusterTest, AMissingPodDoesNotMoveTheOthers) {
  EXPECT_EQ(
      Spec({Job({There("w-0"), Absent("w-1"), There("w-2")})}, MemberCompleteness::kAvailable),
      R"({"worker":{"0":"w-0:1","2":"w-2:1"}})");
  EXPECT_EQ(
      Spec({Job({Absent("w-0"), There("w-1"), There("w-2")})}, MemberCompleteness::kAvailable),
      R"({"worker":{"1":"w-1:1","2":"w-2:1"}})");
}

TEST(PodClusterTest, APodThatIsGoneKeepsItsPlace) {
  ExpectSpec(Job({There("w-0"), Gone("w-1"), There("w-2")}),
             R"({"worker":{"0":"w-0:1","2":"w-2:1"}})");
  // Until another takes it,
  PodMember again = There("w-1");
  again.uid = "again";
  ExpectSpec(Job({There("w-0"), Gone("w-1"), again, There("w-2")}),
             R"({"worker":["w-0:1","w-1:1","w-2:1"]})");
  // unless it was the last,
  ExpectSpec(Job({There("w-0"), There("w-1"), Gone("w-2")}), R"({"worker":["w-0:1","w-1:1"]})");
  // and not if it was of another set.
  EXPECT_EQ(Spec({Job({There("w-3"), Gone("v-1"), There("w-4")})}, MemberCompleteness::kRequireAll),
            R"({"worker":["w-3:1","w-4:1"]})");
}

TEST(PodClusterTest, PodsWithoutNumbersCloseUp) {
  ExpectSpec(Job({There("a"), Gone("b"), There("c")}), R"({"worker":["a:1","c:1"]})");
  EXPECT_EQ(Spec({Job({There("a"), Absent("b"), There("c")})}, MemberCompleteness::kAvailable),
            R"({"worker":["a:1","c:1"]})");
}

TEST(PodClusterTest, SaysWhichPodsAreNotThereAndWhy) {
  const std::vector<PodJob> jobs = {
      Job({There("w-0"), Absent("w-1"), Absent("w-2", "has no IP yet")}),
      {.name = "ps", .selected = {Selected("app=ps", {}), Selected("app=server", {Gone("x")})}}};
  const std::string expected =
      "the pods in namespace ml are not complete: job \"worker\": 1 of 3 pods are there: w-1 is "
      "Pending, w-2 has no IP yet; job \"ps\": no pod matches \"app=ps\" or \"app=server\" (not "
      "counting 1 that ended or are being deleted). Wait for them (completeness wait), or take "
      "those that are there "
      "(available)";
  for (const MemberCompleteness policy :
       {MemberCompleteness::kRequireAll, MemberCompleteness::kWait}) {
    EXPECT_THAT(MakePodCluster(jobs, policy, "in namespace ml"),
                StatusIs(absl::StatusCode::kFailedPrecondition, expected));
  }
  EXPECT_EQ(Spec(jobs, MemberCompleteness::kAvailable), R"({"worker":["w-0:1"],"ps":{}})");
}

TEST(PodClusterTest, NamesAFewOfManyPods) {
  std::vector<PodMember> pods;
  for (int i = 0; i < 1000; ++i) pods.push_back(Absent(absl::StrCat("w-", i)));
  EXPECT_THAT(MakePodCluster({Job(pods)}, MemberCompleteness::kRequireAll, "here"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("0 of 1000 pods are there: w-0 is Pending"),
                             HasSubstr("w-4 is Pending, and 995 more."))));
}

TEST(PodClusterTest, CountsThePodsThatAreExpected) {
  const auto status = [](const std::vector<PodMember>& pods, int expected) {
    return MakePodCluster({Job(pods, expected)}, MemberCompleteness::kRequireAll, "here").status();
  };
  const auto lacks = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text));
  };
  EXPECT_THAT(status({There("w-0"), There("w-1")}, 2), IsOk());
  EXPECT_THAT(status({There("w-0"), Gone("w-1")}, 1), IsOk());
  EXPECT_THAT(status({}, 0), IsOk());
  EXPECT_THAT(status({There("w-0"), There("w-1")}, 4), lacks("2 of 4 pods are there"));
  EXPECT_THAT(status({There("w-0"), Absent("w-1")}, 4),
              lacks("1 of 4 pods are there: w-1 is Pending"));
  EXPECT_THAT(status({There("w-0"), There("w-1")}, 1), lacks("2 pods match, 1 expected"));
  EXPECT_THAT(status({}, 3), lacks("no pod matches \"app=w\", 3 expected"));
  EXPECT_EQ(Spec({Job({There("w-0")}, 4)}, MemberCompleteness::kAvailable),
            R"({"worker":["w-0:1"]})");
}

}  // namespace
}  // namespace millrace
