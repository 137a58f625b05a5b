#include "resolver/tensorflow/tensorflow_cluster_spec.h"

#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

OrderedJson Parse(const std::string& text) {
  absl::StatusOr<OrderedJson> value = ParseOrderedJson(text);
  EXPECT_THAT(value, IsOk());
  return value.value_or(OrderedJson());
}

TensorFlowClusterSpec Make(const std::string& cluster) {
  absl::StatusOr<TensorFlowClusterSpec> spec = TensorFlowClusterSpec::FromJson(Parse(cluster));
  EXPECT_THAT(spec, IsOk());
  return spec.value_or(TensorFlowClusterSpec());
}

void ExpectError(const absl::Status& status, const std::string& python_class,
                 const std::string& message) {
  EXPECT_EQ(status.message(), message);
  EXPECT_THAT(TensorFlowErrorClass(status), Optional(python_class)) << status;
}

std::string AsDict(const TensorFlowClusterSpec& spec) {
  const absl::StatusOr<OrderedJson> dict = spec.AsDict();
  EXPECT_THAT(dict, IsOk());
  return dict.ok() ? DumpJson(*dict) : "";
}

TEST(TensorFlowClusterSpecTest, DensityDecidesBetweenListAndDict) {
  EXPECT_EQ(AsDict(Make(R"({"w": {"1": "b", "0": "a"}, "ps": {"2": "c"}, "e": []})")),
            R"({"w":["a","b"],"ps":{"2":"c"},"e":{}})");
  EXPECT_EQ(AsDict(Make(R"({"w": {"-1": "a", "0": "b"}})")), R"({"w":{"-1":"a","0":"b"}})");
}

TEST(TensorFlowClusterSpecTest, NegativeIndicesCountFromTheEndOfTheList) {
  // -1 and 1: the largest + 1 is the number of tasks, so this passes for dense.
  EXPECT_EQ(AsDict(Make(R"({"w": {"-1": "a", "1": "b"}})")), R"({"w":[null,"b"]})");
  EXPECT_EQ(AsDict(Make(R"({"w": {"1": "b", "-1": "a"}})")), R"({"w":[null,"a"]})");
  EXPECT_EQ(DumpJson(*Make(R"({"w": {"-1": "a", "0": "b"}})").JobTasks("w")), R"(["b"])");
  ExpectError(Make(R"({"w": {"-1": "a"}})").JobTasks("w").status(), "IndexError",
              "list assignment index out of range");
  EXPECT_THAT(Make(R"({"w": {"-1": "a"}})").ToClusterSpec(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorFlowClusterSpecTest, RefusesWhatItsConstructorRefusesInItsOrder) {
  const auto fails = [](const std::string& cluster, const std::string& python_class,
                        const std::string& message) {
    ExpectError(TensorFlowClusterSpec::FromJson(Parse(cluster)).status(), python_class, message);
  };
  fails(R"("w")", "TypeError",
        "`cluster` must be a dictionary mapping one or more job names to lists of network "
        "addresses, or a `ClusterDef` protocol buffer");
  fails(R"({"it's": 5})", "TypeError",
        "The tasks for job \"it's\" must be a list or a dictionary from integers to strings.");
  fails(R"({"w": {"1.5": "a"}})", "ValueError", "invalid literal for int() with base 10: '1.5'");
  // Keys of all jobs come before the addresses of any, and these in the order of job names.
  fails(R"({"z": [1], "a": {"x": "b"}})", "ValueError",
        "invalid literal for int() with base 10: 'x'");
  fails(R"({"z": [1], "a": [{"k": 2.5}]})", "TypeError",
        "Task address {'k': 2.5} must be bytes or unicode");
  fails(R"({"w": {"2147483648": "a"}})", "ValueError", "Value out of range: 2147483648");
}

TEST(TensorFlowClusterSpecTest, EqualKeysKeepTheLastAddress) {
  EXPECT_EQ(AsDict(Make(R"({"w": {"0": "a", " 0": "b", "1": "c"}})")), R"({"w":["b","c"]})");
}

TEST(TensorFlowClusterSpecTest, ACopyHasItsJobsSorted) {
  const TensorFlowClusterSpec spec = Make(R"({"z": ["a"], "b": ["c"]})");
  EXPECT_THAT(spec.jobs(), ElementsAre("z", "b"));
  EXPECT_THAT(spec.Copy().jobs(), ElementsAre("b", "z"));
  EXPECT_TRUE(spec.Equals(spec.Copy()));
}

TEST(TensorFlowClusterSpecTest, LooksTasksUpAsADictOfPythonDoes) {
  const TensorFlowClusterSpec spec = Make(R"({"w": {"1": "a", "4": "b"}})");
  EXPECT_THAT(spec.TaskAddress("w", true), IsOkAndHolds("a"));
  EXPECT_THAT(spec.TaskAddress("w", 4.0), IsOkAndHolds("b"));
  EXPECT_THAT(spec.NumTasks("w"), IsOkAndHolds(2));
  EXPECT_THAT(spec.TaskIndices("w"), IsOkAndHolds(ElementsAre(1, 4)));
  ExpectError(spec.TaskAddress("w", "1").status(), "ValueError",
              "No task with index '1' in job 'w'");
  ExpectError(spec.TaskAddress("w", nullptr).status(), "ValueError",
              "No task with index None in job 'w'");
  ExpectError(spec.TaskAddress(nullptr, 1).status(), "ValueError", "No such job in cluster: None");
  ExpectError(spec.NumTasks(5).status(), "ValueError", "No such job in cluster: 5");
  ExpectError(spec.JobTasks(OrderedJson::array()).status(), "TypeError", "unhashable type: 'list'");
  EXPECT_EQ(DumpJson(*spec.JobTasks("w")), R"([null,"a",null,null,"b"])");
  ExpectError(Make(R"({"e": {}})").JobTasks("e").status(), "ValueError",
              "max() arg is an empty sequence");
}

TEST(TensorFlowClusterSpecTest, HugeIndicesMakeNoHugeLists) {
  const TensorFlowClusterSpec spec = Make(R"({"w": {"2147483647": "a"}})");
  EXPECT_THAT(spec.JobTasks("w"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(AsDict(spec), R"({"w":{"2147483647":"a"}})");
}

TEST(TensorFlowClusterSpecTest, WritesItsRepr) {
  EXPECT_THAT(Make(R"({"w": ["it's"], "e": [], "ps": {"3": "b", "1": "a"}})").Repr(),
              IsOkAndHolds("ClusterSpec({'e': {}, 'ps': {1: 'a', 3: 'b'}, 'w': [\"it's\"]})"));
  EXPECT_THAT(Make("{}").Repr(), IsOkAndHolds("ClusterSpec({})"));
  EXPECT_FALSE(Make("{}").Truth());
  EXPECT_TRUE(Make(R"({"e": []})").Truth());
}

TEST(TensorFlowClusterSpecTest, EqualsADictOfDictsAndNoDictOfLists) {
  const TensorFlowClusterSpec spec = Make(R"({"w": ["a", "b"], "e": []})");
  EXPECT_TRUE(spec.EqualsDict(Parse(R"({"e": {}, "w": {"1": "b", "0": "a"}})")));
  for (const char* other : {R"({"w": ["a", "b"], "e": []})", R"({"w": {"0": "a"}, "e": {}})",
                            R"({"w": {"0": "a", "1": "c"}, "e": {}})", R"({"e": {}})", "[]", "null",
                            R"({"w": {"0": "a", "x": "b"}, "e": {}})"}) {
    EXPECT_FALSE(spec.EqualsDict(Parse(other))) << other;
  }
  EXPECT_FALSE(spec.Equals(Make(R"({"w": ["b", "a"], "e": []})")));
}

}  // namespace
}  // namespace millrace
