#include "millrace/tf_config_resolver.h"

#include <string>
#include <utility>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr char kTwoWorkers[] =
    R"({"cluster": {"ps": ["p:1"], "worker": ["a:1", "b:1"]},
        "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc", "environment": "cloud"})";

class TfConfigResolverTest : public testing::Test {
 protected:
  // Reads `variable_`, afresh each time.
  std::unique_ptr<TfConfigResolver> Make(TfConfigResolverOptions options = {}) {
    options.read = [this] { return variable_; };
    absl::StatusOr<std::unique_ptr<TfConfigResolver>> resolver =
        TfConfigResolver::Create(std::move(options));
    EXPECT_THAT(resolver, IsOk());
    return *std::move(resolver);
  }
  std::unique_ptr<TfConfigResolver> MakeAsTensorFlow() {
    return Make({.behavior = ResolverBehavior::kTensorFlow});
  }

  std::optional<std::string> variable_;
};

TEST_F(TfConfigResolverTest, ReadsTheVariable) {
  variable_ = kTwoWorkers;
  const auto resolver = Make();
  const auto spec = resolver->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(), R"({"ps":["p:1"],"worker":["a:1","b:1"]})");
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(Optional(std::string("worker"))));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(1)));
  EXPECT_THAT(resolver->rpc_layer(), IsOkAndHolds(Optional(std::string("grpc"))));
  EXPECT_THAT(resolver->environment(), IsOkAndHolds(Optional(std::string("cloud"))));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://b:1"));
  EXPECT_THAT(resolver->master("ps", 0, ""), IsOkAndHolds("p:1"));
  EXPECT_THAT(resolver->master("evaluator", 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TfConfigResolverTest, AsksAfreshEachTime) {
  const auto resolver = Make();
  EXPECT_TRUE(resolver->cluster_spec()->empty());
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(resolver->master(), IsOkAndHolds(""));
  variable_ = kTwoWorkers;
  EXPECT_EQ(resolver->cluster_spec()->total_tasks(), 3);
  variable_ = "{";
  EXPECT_THAT(resolver->cluster_spec(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(TfConfigResolverTest, WhatIsSetReplacesTheVariablesTask) {
  variable_ = kTwoWorkers;
  const auto resolver = Make({.properties = {.task_id = 0, .rpc_layer = ""}});
  EXPECT_THAT(resolver->master(), IsOkAndHolds("a:1"));
  EXPECT_THAT(resolver->set_task_type("ps"), IsOk());
  EXPECT_THAT(resolver->master(), IsOkAndHolds("p:1"));
  EXPECT_THAT(resolver->set_task_type(std::nullopt), IsOk());
  EXPECT_THAT(resolver->master(), IsOkAndHolds("a:1"));
  EXPECT_THAT(TfConfigResolver::Create({.properties = {.task_id = -2}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(TfConfigResolverTest, SessionMasterIsTakenAsItIs) {
  variable_ =
      R"({"cluster": {"worker": ["a:1", "b:1"]}, "session_master": "local", "rpc_layer": "x"})";
  EXPECT_THAT(Make()->master("worker", 1, "y"), IsOkAndHolds("local"));
  EXPECT_THAT(MakeAsTensorFlow()->master("worker", 1, "y"), IsOkAndHolds("local"));
}

TEST_F(TfConfigResolverTest, AloneItsMasterIsEmptyUnlessATaskIsAskedFor) {
  variable_ = R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})";
  EXPECT_THAT(Make()->master(), IsOkAndHolds(""));
  EXPECT_THAT(Make()->master("worker", 0), IsOkAndHolds("a:1"));
  EXPECT_THAT(MakeAsTensorFlow()->master("worker", 0), IsOkAndHolds(""));
}

TEST_F(TfConfigResolverTest, ReadsTheSparseClusterOfKubeflow) {
  variable_ =
      R"({"sparseCluster": {"worker": {"2": "c:1"}, "ps": ["p:1"]}, "task": {"type": "worker", "index": "2"}})";
  const auto resolver = Make();
  EXPECT_EQ(resolver->cluster_spec()->ToJson(), R"({"worker":{"2":"c:1"},"ps":["p:1"]})");
  EXPECT_THAT(resolver->master(), IsOkAndHolds("c:1"));
  EXPECT_TRUE(MakeAsTensorFlow()->cluster_spec()->empty());
}

TEST_F(TfConfigResolverTest, EmptyIsAnErrorThatSaysWhatItShouldBe) {
  for (const char* empty : {"", " \n"}) {
    variable_ = empty;
    EXPECT_THAT(Make()->cluster_spec(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("TF_CONFIG"), HasSubstr("set but empty"),
                               HasSubstr(R"("cluster": {"worker")"))));
  }
}

TEST_F(TfConfigResolverTest, ErrorsNameTheMember) {
  const auto fails = [this](const std::string& variable, const std::string& substring) {
    variable_ = variable;
    const auto resolver = Make();
    absl::Status status = resolver->cluster_spec().status();
    if (status.ok()) status = resolver->task_type().status();
    if (status.ok()) status = resolver->task_id().status();
    if (status.ok()) status = resolver->rpc_layer().status();
    if (status.ok()) status = resolver->environment().status();
    if (status.ok()) status = resolver->master().status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("TF_CONFIG"), HasSubstr(substring))))
        << variable;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  };
  fails("{bad", "offset");
  fails("[1]", "JSON object, found array");
  fails(R"({"cluster": []})", "`cluster` must be a dictionary");
  fails(R"({"cluster": {"w": [5]}})", "must be a string");
  fails(R"({"cluster": {"w": {"-1": "a"}}})", "-1");
  fails(R"({"task": "worker"})", "\"task\" must be an object");
  fails(R"({"task": {"type": 5}})", "\"task.type\" must be a string, found integer");
  fails(R"({"task": {"index": "x"}})", "\"task.index\"");
  fails(R"({"task": {"index": -1}})", "\"task.index\"");
  fails(R"({"task": {"index": 1.0}})", "\"task.index\" must be an integer");
  fails(R"({"task": {"index": 99999999999}})", "\"task.index\"");
  fails(R"({"rpc_layer": 1})", "\"rpc_layer\"");
  fails(R"({"environment": []})", "\"environment\"");
  fails(R"({"session_master": {}})", "\"session_master\"");
  fails(std::string(100000, '['), "deeper");
}

TEST_F(TfConfigResolverTest, TensorFlowsErrorsAreThoseOfPython) {
  const auto fails = [this](const std::string& variable, const std::string& python_class,
                            const std::string& message) {
    variable_ = variable;
    const absl::Status status = MakeAsTensorFlow()->task_id().status();
    EXPECT_EQ(status.message(), message);
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(python_class)) << status;
  };
  fails("", "JSONDecodeError", "Expecting value: line 1 column 1 (char 0)");
  fails("5", "TypeError", "argument of type 'int' is not iterable");
  fails(R"({"task": null})", "TypeError", "argument of type 'NoneType' is not iterable");
  fails(R"({"task": {"index": null}})", "TypeError",
        "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'");
  fails(R"({"task": {"index": "1.5"}})", "ValueError",
        "invalid literal for int() with base 10: '1.5'");
  variable_ = R"({"task": {"type": null, "index": 1.9}})";
  EXPECT_THAT(MakeAsTensorFlow()->task_id(), IsOkAndHolds(Optional(1)));
  EXPECT_THAT(MakeAsTensorFlow()->task_type(), IsOkAndHolds(Optional(std::string("None"))));
}

TEST_F(TfConfigResolverTest, TensorFlowWithoutATaskFailsByItsName) {
  variable_ = R"({"cluster": {"worker": ["a:1", "b:1"]}})";
  EXPECT_EQ(MakeAsTensorFlow()->master().status().message(), "No such job in cluster: None");
  EXPECT_THAT(Make()->master(), IsOkAndHolds(""));
  variable_ = R"({"cluster": {"worker": {"3": "a:1"}}})";  // one task, but a list of four
  EXPECT_EQ(MakeAsTensorFlow()->master("worker", 0).status().message(),
            "No task with index 0 in job 'worker'");
}

TEST_F(TfConfigResolverTest, AWatchAsksAgain) {
  UpdateRecorder updates;
  variable_ = kTwoWorkers;
  const auto resolver = Make();
  const auto watch = resolver->Watch(updates.callback(), {.poll_interval = absl::Milliseconds(2)});
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 1 && update.spec.total_tasks() == 3;
  }));
}

}  // namespace
}  // namespace millrace
