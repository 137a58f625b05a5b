#include "millrace/roles.h"

#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr ResolverBehavior kTensorFlow = ResolverBehavior::kTensorFlow;

ClusterSpec Spec(const std::string& json) {
  absl::StatusOr<ClusterSpec> spec = ClusterSpec::FromJsonText(json);
  EXPECT_THAT(spec, IsOk());
  return spec.value_or(ClusterSpec());
}

const ClusterSpec& WithChief() {
  static const ClusterSpec* const spec =
      new ClusterSpec(Spec(R"({"chief":["c"],"worker":["a","b"],"ps":["p"],"evaluator":["e"]})"));
  return *spec;
}

const ClusterSpec& WorkersOnly() {
  static const ClusterSpec* const spec =
      new ClusterSpec(Spec(R"({"worker":["a","b"],"ps":["p"]})"));
  return *spec;
}

class BothBehaviorsTest : public testing::TestWithParam<ResolverBehavior> {};

INSTANTIATE_TEST_SUITE_P(Roles, BothBehaviorsTest,
                         testing::Values(ResolverBehavior::kCorrect, kTensorFlow));

TEST_P(BothBehaviorsTest, TheChiefIsTheChiefOrTheFirstWorkerWithoutOne) {
  EXPECT_THAT(IsChief(WithChief(), "chief", 0, GetParam()), IsOkAndHolds(true));
  EXPECT_THAT(IsChief(WithChief(), "worker", 0, GetParam()), IsOkAndHolds(false));
  EXPECT_THAT(IsChief(WithChief(), "ps", 0, GetParam()), IsOkAndHolds(false));
  EXPECT_THAT(IsChief(WorkersOnly(), "worker", 0, GetParam()), IsOkAndHolds(true));
  EXPECT_THAT(IsChief(WorkersOnly(), "worker", 1, GetParam()), IsOkAndHolds(false));
}

TEST_P(BothBehaviorsTest, AnEvaluatorIsAChiefInTheSpecOrNot) {
  EXPECT_THAT(IsChief(WithChief(), "evaluator", 0, GetParam()), IsOkAndHolds(true));
  EXPECT_THAT(IsChief(WorkersOnly(), "evaluator", 0, GetParam()), IsOkAndHolds(true));
}

TEST_P(BothBehaviorsTest, TheLeaderIsTheChiefOrTheFirstWorker) {
  EXPECT_THAT(CollectiveLeader(WithChief(), "worker", 1, GetParam()),
              IsOkAndHolds("/job:chief/replica:0/task:0"));
  EXPECT_THAT(CollectiveLeader(WorkersOnly(), "ps", 0, GetParam()),
              IsOkAndHolds("/job:worker/replica:0/task:0"));
  EXPECT_THAT(CollectiveLeader(WithChief(), "evaluator", 0, GetParam()), IsOkAndHolds(""));
  EXPECT_THAT(CollectiveLeader(ClusterSpec(), "worker", 0, GetParam()), IsOkAndHolds(""));
  EXPECT_FALSE(CollectiveLeader(Spec(R"({"ps":["p"]})"), "ps", 0, GetParam()).ok());
}

TEST_P(BothBehaviorsTest, TheLeaderOfCoordinationIsTheSameWhoeverAsks) {
  EXPECT_THAT(CoordinationLeader(WithChief(), GetParam()),
              IsOkAndHolds("/job:chief/replica:0/task:0"));
  EXPECT_THAT(CoordinationLeader(WorkersOnly(), GetParam()),
              IsOkAndHolds("/job:worker/replica:0/task:0"));
  EXPECT_THAT(CoordinationLeader(ClusterSpec(), GetParam()), IsOkAndHolds(""));
  EXPECT_FALSE(CoordinationLeader(Spec(R"({"ps":["p"]})"), GetParam()).ok());
}

TEST_P(BothBehaviorsTest, CountsChiefAndWorkersTogether) {
  EXPECT_THAT(WorkerCount(WithChief(), "worker", GetParam()), IsOkAndHolds(3));
  EXPECT_THAT(WorkerCount(WithChief(), "chief", GetParam()), IsOkAndHolds(3));
  EXPECT_THAT(WorkerCount(WithChief(), "evaluator", GetParam()), IsOkAndHolds(1));
  EXPECT_THAT(WorkerCount(WithChief(), "ps", GetParam()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(BothBehaviorsTest, IdsBeginWithTheChief) {
  EXPECT_THAT(IdInCluster(WithChief(), "chief", 0, GetParam()), IsOkAndHolds(0));
  EXPECT_THAT(IdInCluster(WithChief(), "worker", 1, GetParam()), IsOkAndHolds(2));
  EXPECT_THAT(IdInCluster(WorkersOnly(), "worker", 1, GetParam()), IsOkAndHolds(1));
  EXPECT_THAT(IdInCluster(WithChief(), "evaluator", 0, GetParam()), IsOkAndHolds(0));
  EXPECT_THAT(IdInCluster(WithChief(), "ps", 0, GetParam()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RolesTest, ASparseJobHasIdsWithoutGaps) {
  const ClusterSpec spec = Spec(R"({"worker":{"3":"a","7":"b"}})");
  EXPECT_THAT(IsChief(spec, "worker", 3), IsOkAndHolds(true));
  EXPECT_THAT(IdInCluster(spec, "worker", 7), IsOkAndHolds(1));
  EXPECT_THAT(WorkerCount(spec, "worker"), IsOkAndHolds(2));
  EXPECT_THAT(CollectiveLeader(spec, "worker", 7), IsOkAndHolds("/job:worker/replica:0/task:3"));
  EXPECT_THAT(IsChief(spec, "worker", 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST(RolesTest, AMasterIsAChiefAndAnEmptyChiefJobIsNone) {
  const ClusterSpec spec = Spec(R"({"chief":[],"master":["m"],"worker":["a"],"data":["d"]})");
  EXPECT_THAT(IsChief(spec, "master", 0), IsOkAndHolds(true));
  EXPECT_THAT(IsChief(spec, "worker", 0), IsOkAndHolds(false));
  EXPECT_THAT(IsChief(spec, "data", 0), IsOkAndHolds(false));
  EXPECT_THAT(WorkerCount(spec, "worker"), IsOkAndHolds(2));
  EXPECT_THAT(CollectiveLeader(spec, "worker", 0), IsOkAndHolds("/job:master/replica:0/task:0"));
  EXPECT_THAT(IsChief(Spec(R"({"chief":[],"worker":["a"]})"), "worker", 0), IsOkAndHolds(true));
}

TEST(RolesTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(IsChief(WithChief(), "worker", 2),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("No task with index 2")));
  EXPECT_THAT(IsChief(WithChief(), std::nullopt, 2),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("set task_type")));
  EXPECT_THAT(IsChief(Spec(R"({"chief":["a","b"]})"), "chief", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chief")));
  EXPECT_THAT(IdInCluster(Spec(R"({"evaluator":["a","b"],"worker":["c"]})"), "worker", 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("evaluator")));
  EXPECT_THAT(WorkerCount(Spec(R"({"ps":["p"]})"), "worker"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(RolesTest, TensorFlowsErrorsAreItsValueErrors) {
  const auto fails = [](const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status.message(), message);
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(std::string("ValueError")));
  };
  const auto chief = [](const std::string& json, std::optional<std::string> type,
                        std::optional<int> id) {
    return IsChief(Spec(json), type, id, kTensorFlow).status();
  };
  fails(chief(R"({"master":["m"]})", "master", 0),
        "Disallowed task type found in cluster spec. Allowed types are ('chief', 'worker', "
        "'evaluator', 'ps', None) and the cluster spec is ClusterSpec({'master': ['m']}).");
  fails(chief(R"({"worker":["a"]})", "master", 0),
        "Unrecognized task_type: master, valid task types are: ('chief', 'worker', 'evaluator', "
        "'ps', None)");
  fails(chief(R"({"worker":["a"]})", "ps", 0), "`task_type` 'ps' not found in cluster_spec.");
  fails(chief(R"({"chief":["a","b"]})", std::nullopt, std::nullopt),
        "There must be at most one 'chief' job.");
  fails(chief(R"({"evaluator":["a","b"]})", "evaluator", 0),
        "There must be at most one 'evaluator' job.");
  fails(chief(R"({"worker":["a"]})", "worker", 1),
        "The `task_id` 1 exceeds the maximum id of worker.");
  fails(WorkerCount(WithChief(), "ps", kTensorFlow).status(), "Unexpected `task_type` 'ps'");
  fails(IdInCluster(WithChief(), "ps", 0, kTensorFlow).status(),
        "There is no id for task_type 'ps'");
  EXPECT_THAT(IsChief(WorkersOnly(), std::nullopt, std::nullopt, kTensorFlow), IsOkAndHolds(false));
  const absl::Status evaluator = WorkerCount(WorkersOnly(), "evaluator", kTensorFlow).status();
  EXPECT_THAT(TensorFlowErrorClass(evaluator), Optional(std::string("KeyError")));
  // Not checked against gaps: index 1 of a job that has 0 and 5.
  EXPECT_THAT(IdInCluster(Spec(R"({"worker":{"0":"a","5":"b"}})"), "worker", 1, kTensorFlow),
              IsOkAndHolds(1));
}

}  // namespace
}  // namespace millrace
