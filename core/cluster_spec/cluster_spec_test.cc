#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::VariantWith;
using TaskList = ClusterSpec::TaskList;
using TaskMap = ClusterSpec::TaskMap;

ClusterSpec Spec(absl::string_view json) {
  absl::StatusOr<ClusterSpec> spec = ClusterSpec::FromJsonText(json);
  EXPECT_THAT(spec, IsOk()) << json;
  return spec.ok() ? *std::move(spec) : ClusterSpec();
}

std::string Canonical(absl::string_view json) { return Spec(json).ToJson(); }

TEST(ClusterSpecTest, AnswersAboutADenseJob) {
  ClusterSpec spec;
  ASSERT_THAT(spec.AddJob("worker", {"h1:1", "h2:1"}), IsOk());
  ASSERT_THAT(spec.AddJob("ps", {"h0:1"}), IsOk());
  EXPECT_THAT(spec.jobs(), ElementsAre("worker", "ps"));  // as added, not sorted
  EXPECT_THAT(spec.NumTasks("worker"), IsOkAndHolds(2));
  EXPECT_THAT(spec.TaskIndices("worker"), IsOkAndHolds(ElementsAre(0, 1)));
  EXPECT_THAT(spec.TaskAddress("worker", 1), IsOkAndHolds("h2:1"));
  EXPECT_THAT(spec.JobTasks("worker"), IsOkAndHolds(ElementsAre("h1:1", "h2:1")));
  EXPECT_EQ(spec.total_tasks(), 3u);
  EXPECT_TRUE(spec.HasJob("ps"));
  EXPECT_FALSE(spec.HasJob("chief"));
}

TEST(ClusterSpecTest, AnswersAboutASparseJob) {
  ClusterSpec spec;
  ASSERT_THAT(spec.AddSparseJob("worker", {{3, "h3"}, {1, "h1"}}), IsOk());
  EXPECT_THAT(spec.NumTasks("worker"), IsOkAndHolds(2));
  EXPECT_THAT(spec.TaskIndices("worker"), IsOkAndHolds(ElementsAre(1, 3)));
  EXPECT_THAT(spec.JobTasks("worker"),
              IsOkAndHolds(ElementsAre(std::nullopt, "h1", std::nullopt, "h3")));
  EXPECT_THAT(spec.TaskAddress("worker", 0), StatusIs(StatusCode::kNotFound));
}

TEST(ClusterSpecTest, ErrorsUseTensorFlowsWords) {
  const ClusterSpec spec = Spec(R"({"worker":["a"]})");
  const auto no_job = StatusIs(StatusCode::kNotFound, "No such job in cluster: 'x'");
  EXPECT_THAT(spec.NumTasks("x"), no_job);
  EXPECT_THAT(spec.TaskIndices("x"), no_job);
  EXPECT_THAT(spec.TaskAddress("x", 0), no_job);
  EXPECT_THAT(spec.JobTasks("x"), no_job);
  EXPECT_THAT(spec.TaskMapOf("x"), no_job);
  EXPECT_THAT(spec.TaskAddress("worker", 7),
              StatusIs(StatusCode::kNotFound, "No task with index 7 in job 'worker'"));
  EXPECT_THAT(spec.TaskAddress("worker", -1), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(ClusterSpec::FromJsonText(R"({"w":7})"),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("The tasks for job 'w' must be a list or a dictionary from "
                                 "integers to strings")));
}

TEST(ClusterSpecTest, DensityDecidesTheFormNotTheWayItWasBuilt) {
  EXPECT_EQ(Canonical(R"({"w":{"0":"a","1":"b"}})"), R"({"w":["a","b"]})");
  EXPECT_EQ(Canonical(R"({"w":{"1":"b","0":"a"}})"), R"({"w":["a","b"]})");
  EXPECT_EQ(Canonical(R"({"w":{"0":"a","2":"b"}})"), R"({"w":{"0":"a","2":"b"}})");
  EXPECT_EQ(Canonical(R"({"w":{"1":"a"}})"), R"({"w":{"1":"a"}})");
  EXPECT_EQ(Canonical(R"({"w":[]})"), R"({"w":{}})");
  EXPECT_EQ(Canonical(R"({"w":{}})"), R"({"w":{}})");
  EXPECT_EQ(Canonical("{}"), "{}");

  const ClusterSpec spec = Spec(R"({"s":{"10":"k","9":"j"},"d":{"0":"a"},"e":[]})");
  EXPECT_THAT(spec.AsDict(),
              ElementsAre(Pair("s", VariantWith<TaskMap>(TaskMap{{9, "j"}, {10, "k"}})),
                          Pair("d", VariantWith<TaskList>(TaskList{"a"})),
                          Pair("e", VariantWith<TaskMap>(TaskMap{}))));
  EXPECT_EQ(spec.ToJson(), R"({"s":{"9":"j","10":"k"},"d":["a"],"e":{}})");
}

TEST(ClusterSpecTest, AJobWithoutTasksIsAJob) {
  ClusterSpec spec;
  EXPECT_TRUE(spec.empty());
  ASSERT_THAT(spec.AddJob("w", {}), IsOk());
  EXPECT_FALSE(spec.empty());
  EXPECT_THAT(spec.NumTasks("w"), IsOkAndHolds(0));
  EXPECT_THAT(spec.TaskIndices("w"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(spec.JobTasks("w"), IsOkAndHolds(IsEmpty()));
  EXPECT_EQ(spec.AsText(), "ClusterSpec({'w': {}})");
  EXPECT_FALSE(spec == ClusterSpec());
}

TEST(ClusterSpecTest, AddressesAreNotChecked) {
  EXPECT_THAT(Spec(R"({"":["","no port","a,b"]})").JobTasks(""),
              IsOkAndHolds(ElementsAre("", "no port", "a,b")));
}

TEST(ClusterSpecTest, CreateTakesListsAndMaps) {
  const auto spec = ClusterSpec::Create(
      {{"worker", TaskList{"a", "b"}}, {"ps", TaskMap{{2, "c"}}}, {"empty", TaskList{}}});
  EXPECT_THAT(spec, IsOkAndHolds(Spec(R"({"worker":["a","b"],"ps":{"2":"c"},"empty":{}})")));
  EXPECT_THAT(ClusterSpec::Create({{"w", TaskList{"a"}}, {"w", TaskList{"b"}}}),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("'w'")));
  EXPECT_THAT(ClusterSpec::Create({{"w", TaskMap{{-1, "a"}}}}),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("-1"), HasSubstr("'w'"))));
}

TEST(ClusterSpecTest, AFailedChangeChangesNothing) {
  ClusterSpec spec = Spec(R"({"w":["a"]})");
  EXPECT_THAT(spec.AddJob("w", {"b"}), StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(spec.AddSparseJob("v", {{-5, "b"}}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(spec.SetTask("u", -1, "b"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(spec, Spec(R"({"w":["a"]})"));
}

TEST(ClusterSpecTest, SetTaskAddsAndReplaces) {
  ClusterSpec spec;
  ASSERT_THAT(spec.SetTask("w", 1, "b"), IsOk());
  EXPECT_EQ(spec.ToJson(), R"({"w":{"1":"b"}})");
  ASSERT_THAT(spec.SetTask("w", 0, "a"), IsOk());
  ASSERT_THAT(spec.SetTask("w", 1, "c"), IsOk());
  EXPECT_EQ(spec.ToJson(), R"({"w":["a","c"]})");
}

TEST(ClusterSpecTest, EqualityIgnoresTheOrderOfJobsOnly) {
  const ClusterSpec spec = Spec(R"({"a":["x"],"b":["y"]})");
  EXPECT_EQ(spec, Spec(R"({"b":{"0":"y"},"a":["x"]})"));
  EXPECT_FALSE(spec == Spec(R"({"a":["x"]})"));
  EXPECT_FALSE(spec == Spec(R"({"a":["x"],"b":["z"]})"));
  EXPECT_FALSE(spec == Spec(R"({"a":["x"],"c":["y"]})"));
  EXPECT_FALSE(spec == Spec(R"({"a":["x"],"b":{"1":"y"}})"));
  EXPECT_FALSE(spec == Spec(R"({"a":["x"],"b":["y"],"c":[]})"));
  ClusterSpec copy = spec;
  ASSERT_THAT(copy.SetTask("a", 0, "changed"), IsOk());
  EXPECT_THAT(spec.TaskAddress("a", 0), IsOkAndHolds("x"));  // a deep copy
}

TEST(ClusterSpecTest, TextIsWhatPythonPrints) {
  EXPECT_EQ(ClusterSpec().AsText(), "ClusterSpec({})");
  EXPECT_EQ(Spec(R"({"worker":["h1:1","h2:1"],"ps":["h0:1"],"Z":{"0":"a","2":"b"}})").AsText(),
            "ClusterSpec({'Z': {0: 'a', 2: 'b'}, 'ps': ['h0:1'], 'worker': ['h1:1', 'h2:1']})");
  EXPECT_EQ(Spec(R"({"it's":["say \"hi\"","it's \"x\"","a\\b\n\t\r\u0000\u001b\u007f"]})").AsText(),
            R"(ClusterSpec({"it's": ['say "hi"', 'it\'s "x"', 'a\\b\n\t\r\x00\x1b\x7f']}))");
}

TEST(ClusterSpecTest, UnicodeIsPrintedAsPythonPrintsIt) {
  EXPECT_EQ(Spec("{\"grün\":[\"€:1\",\"\U0001F600\"]}").AsText(),
            "ClusterSpec({'grün': ['€:1', '\U0001F600']})");
  EXPECT_EQ(Spec(R"({"a":["\u0085\u00a0\u00ad\u200b\u2028\ufeff\ue000","\udb40\udc01"]})").AsText(),
            R"(ClusterSpec({'a': ['\x85\xa0\xad\u200b\u2028\ufeff\ue000', '\U000e0001']}))");
  ClusterSpec spec;
  ASSERT_THAT(spec.AddJob("w", {"\xff"}), IsOk());
  EXPECT_EQ(spec.AsText(), R"(ClusterSpec({'w': ['\udcff']}))");
  EXPECT_EQ(spec.ToJson(), "{\"w\":[\"\xef\xbf\xbd\"]}");
  // Sorted by code point, as Python sorts.
  EXPECT_EQ(Spec("{\"\U0001F600\":[],\"\uffee\":[],\"é\":[],\"z\":[]}").AsText(),
            "ClusterSpec({'z': {}, 'é': {}, '\uffee': {}, '\U0001F600': {}})");
}

TEST(ClusterSpecJsonTest, RoundTripsAndKeepsTheOrderOfJobs) {
  for (const char* text :
       {R"({"worker":["a","b"],"ps":["c"],"chief":["d"]})", R"({"w":{"5":"a"},"e":{}})", "{}"}) {
    EXPECT_EQ(Canonical(text), text);
  }
  const auto parsed = ParseJson(R"({"w":["a"],"c":["b"]})");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(ClusterSpecFromJson(*parsed), IsOkAndHolds(Spec(R"({"w":["a"],"c":["b"]})")));
}

TEST(ClusterSpecJsonTest, IndicesAreReadAsPythonsIntReadsThem) {
  EXPECT_EQ(Canonical(R"({"w":{" 7\n":"a","+8":"b","0_9":"c","007":"d","-0":"e"}})"),
            R"({"w":{"0":"e","7":"d","8":"b","9":"c"}})");
  EXPECT_EQ(Canonical(R"({"w":{"1_000":"a","2147483647":"b"}})"),
            R"({"w":{"1000":"a","2147483647":"b"}})");
  EXPECT_EQ(Canonical(R"({"w":{"01":"first","1":"last"}})"), R"({"w":{"1":"last"}})");
  EXPECT_EQ(Canonical(R"({"w":{"1":"first","01":"last"}})"), R"({"w":{"1":"last"}})");
  for (const char* key : {"", " ", "+", "-", "+-1", "_1", "1_", "1__0", "1.0", "1e3", "0x1", "a",
                          "1 2", "- 1", "1\\u0000", "\\u00b2"}) {
    EXPECT_THAT(
        ClusterSpec::FromJsonText(absl::StrCat("{\"w\":{\"", key, "\":\"a\"}}")),
        StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("is no integer"), HasSubstr("'w'"))))
        << key;
  }
  for (const char* key :
       {"-1", "2147483648", "99999999999999999999999999", "-99999999999999999999"}) {
    EXPECT_THAT(ClusterSpec::FromJsonText(absl::StrCat("{\"w\":{\"", key, "\":\"a\"}}")),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("must be in 0..2147483647"), HasSubstr("'w'"))))
        << key;
  }
}

TEST(ClusterSpecJsonTest, WrongTypesNameTheJob) {
  for (const char* tasks : {"7", "\"a\"", "null", "true", "[1]", "[null]", "[[]]", "[\"a\",{}]",
                            "{\"0\":1}", "{\"0\":[\"a\"]}"}) {
    EXPECT_THAT(ClusterSpec::FromJsonText(absl::StrCat("{\"ok\":[\"x\"],\"bad\":", tasks, "}")),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("'bad'")))
        << tasks;
  }
  for (const char* text : {"[]", "null", "7", "\"w\""}) {
    EXPECT_THAT(
        ClusterSpec::FromJsonText(text),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("`cluster` must be a dictionary")));
  }
}

TEST(ClusterSpecJsonTest, TruncatedOversizedAndGarbageTextIsAnError) {
  const std::string text = R"({"worker":["a","b"],"ps":{"1":"c"}})";
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(ClusterSpec::FromJsonText(text.substr(0, size)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("cluster spec: ")))
        << size;
  }
  EXPECT_THAT(ClusterSpec::FromJsonText(text + std::string(size_t{64} << 20, ' ')),
              StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(ClusterSpec::FromJsonText(std::string(100000, '[')),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(ClusterSpec::FromJsonText("\xff\xfe"), StatusIs(StatusCode::kInvalidArgument));
  const std::string long_name(100000, 'n');
  const auto status = ClusterSpec::FromJsonText(absl::StrCat("{\"", long_name, "\":7}")).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_LT(status.message().size(), 500u);
}

TEST(ClusterSpecJsonTest, AHugeIndexCostsNothingUntilAListIsAskedFor) {
  const ClusterSpec spec = Spec(R"({"w":{"0":"a","2147483647":"b"}})");
  EXPECT_THAT(spec.NumTasks("w"), IsOkAndHolds(2));
  EXPECT_THAT(spec.JobTasks("w"), StatusIs(StatusCode::kResourceExhausted, HasSubstr("'w'")));
  EXPECT_THAT(Spec(R"({"w":{"1048575":"b"}})").JobTasks("w"), IsOk());
  EXPECT_THAT(Spec(R"({"w":{"1048576":"b"}})").JobTasks("w"),
              StatusIs(StatusCode::kResourceExhausted));
}

TEST(ClusterSpecJsonTest, ManyJobsAndTasksTakeLinearTime) {
  OrderedJson value = OrderedJson::object();
  auto& members = value.get_ref<OrderedJson::object_t&>();
  for (int i = 0; i < 50000; ++i) members.emplace_back(absl::StrCat("job", i), OrderedJson{"a"});
  const std::string text = DumpJson(value);
  EXPECT_EQ(Canonical(text), text);  // quadratic code would make this test time out
  ClusterSpec spec;
  for (int i = 0; i < 100000; ++i) ASSERT_THAT(spec.SetTask("w", 2 * i, "a"), IsOk());
  EXPECT_EQ(Spec(spec.ToJson()), spec);
}

TEST(TfConfigTest, HasTheMembersInOrder) {
  const ClusterSpec spec = Spec(R"({"worker":["a","b"],"ps":["c"]})");
  EXPECT_THAT(TfConfig(spec, "worker", 1),
              IsOkAndHolds(R"({"cluster":{"worker":["a","b"],"ps":["c"]},)"
                           R"("task":{"type":"worker","index":1},"environment":"cloud"})"));
}

TEST(TfConfigTest, TakesATaskOutsideTheSpecAndExtraMembers) {
  const Json extra = {{"rpc_layer", "grpc"}, {"environment", "local"}};
  EXPECT_THAT(TfConfig(Spec(R"({"w":{"1":"a"}})"), "evaluator", 0, extra),
              IsOkAndHolds(R"({"cluster":{"w":{"1":"a"}},"task":{"type":"evaluator","index":0},)"
                           R"("environment":"local","rpc_layer":"grpc"})"));
}

TEST(TfConfigTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(TfConfig({}, "w", -1), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(TfConfig({}, "w", 0, Json::array()), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(TfConfig({}, "w", 0, Json{{"cluster", 1}}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(TfConfig({}, "w", 0, Json{{"task", 1}}), StatusIs(StatusCode::kInvalidArgument));
}

TEST(DiffTest, EqualSpecsDoNotDiffer) {
  const ClusterSpec spec = Spec(R"({"b":["y"],"a":["x"]})");
  const ClusterSpecDiff diff = DiffClusterSpecs(spec, Spec(R"({"a":["x"],"b":["y"]})"));
  EXPECT_TRUE(diff.empty());
  EXPECT_EQ(diff.ToString(), "no change");
}

TEST(DiffTest, FindsAddedRemovedAndMovedTasks) {
  const ClusterSpecDiff diff =
      DiffClusterSpecs(Spec(R"({"worker":["a","b","c"],"ps":["p"],"gone":[]})"),
                       Spec(R"({"worker":{"0":"a","1":"B","3":"d"},"chief":["m"]})"));
  EXPECT_FALSE(diff.empty());
  EXPECT_THAT(diff.jobs_added, ElementsAre("chief"));
  EXPECT_THAT(diff.jobs_removed, ElementsAre("gone", "ps"));
  EXPECT_THAT(diff.added, ElementsAre(ClusterSpecDiff::Task{"chief", 0, "m"},
                                      ClusterSpecDiff::Task{"worker", 3, "d"}));
  EXPECT_THAT(diff.removed, ElementsAre(ClusterSpecDiff::Task{"ps", 0, "p"},
                                        ClusterSpecDiff::Task{"worker", 2, "c"}));
  EXPECT_THAT(diff.moved, ElementsAre(ClusterSpecDiff::Move{"worker", 1, "b", "B"}));
  EXPECT_EQ(diff.ToString(),
            "added job chief; removed job gone; removed job ps; added chief:0 m; "
            "added worker:3 d; removed ps:0 p; removed worker:2 c; moved worker:1 b -> B");
}

TEST(DiffTest, AnEmptyJobAloneIsADifference) {
  EXPECT_FALSE(DiffClusterSpecs(ClusterSpec(), Spec(R"({"w":[]})")).empty());
  EXPECT_FALSE(DiffClusterSpecs(Spec(R"({"w":[]})"), ClusterSpec()).empty());
}

}  // namespace
}  // namespace millrace
