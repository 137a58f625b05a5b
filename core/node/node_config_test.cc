#include "core/node/node_config.h"

#include <stdlib.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The context of docs/control_protocol.md, section 3, of a fed worker.
Json GoodContext() {
  return Json{{"protocol", 1},
              {"cluster_id", "c1"},
              {"executor_id", 2},
              {"job_name", "worker"},
              {"task_index", 1},
              {"attempt", 3},
              {"nonce", "0123456789abcdef"},
              {"epoch", 4},
              {"cluster_spec", {{"ps", {"h:1"}}, {"worker", {"h:2", "h:3"}}}},
              {"num_workers", 2},
              {"rank", 1},
              {"local_rank", 0},
              {"input_mode", "FEED"},
              {"queues", {"input", "output"}},
              {"default_fs", "hdfs://nn"},
              {"working_dir", "/work"},
              {"log_dir", "/log"},
              {"gpus", {"GPU-1"}},
              {"address", "h:3"},
              {"port", 3},
              {"port_fd", 5},
              {"feed_budget_bytes", 1 << 28},
              {"feed_shared_memory", true},
              {"tls", {{"ca", "CA"}, {"certificate", "CERT"}, {"key", "KEY"}}}};
}

TEST(NodeConfigTest, ReadsEveryMember) {
  const absl::StatusOr<NodeConfig> config = ParseNodeConfig(DumpJson(GoodContext()));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->cluster_id, "c1");
  EXPECT_EQ(config->executor_id, 2);
  EXPECT_EQ(config->job_name, "worker");
  EXPECT_EQ(config->task_index, 1);
  EXPECT_EQ(config->attempt, 3);
  EXPECT_EQ(config->nonce, "0123456789abcdef");
  EXPECT_EQ(config->epoch, 4u);
  EXPECT_THAT(config->cluster_spec.TaskAddress("worker", 1), IsOkAndHolds("h:3"));
  EXPECT_EQ(config->num_workers, 2);
  EXPECT_EQ(config->rank, 1);
  EXPECT_EQ(config->local_rank, 0);
  EXPECT_TRUE(config->input_feed);
  EXPECT_THAT(config->queues, ElementsAre("input", "output"));
  EXPECT_EQ(config->default_fs, "hdfs://nn");
  EXPECT_EQ(config->working_dir, "/work");
  EXPECT_EQ(config->log_dir, "/log");
  EXPECT_THAT(config->gpus, ElementsAre("GPU-1"));
  EXPECT_EQ(config->address, "h:3");
  EXPECT_EQ(config->port, 3);
  EXPECT_EQ(config->port_fd, 5);
  EXPECT_EQ(config->feed_budget_bytes, 1 << 28);
  EXPECT_TRUE(config->feed_shared_memory);
  EXPECT_EQ(config->tls.ca, "CA");
  EXPECT_EQ(config->tls.certificate, "CERT");
  EXPECT_EQ(config->tls.key, "KEY");
}

TEST(NodeConfigTest, FillsInWhatMayBeAbsentOrNull) {
  for (const bool as_null : {false, true}) {
    Json context = GoodContext();
    context["job_name"] = "ps";
    context["input_mode"] = "DIRECT";
    for (const char* key : {"nonce", "rank", "local_rank", "default_fs", "working_dir", "log_dir",
                            "gpus", "port_fd", "feed_shared_memory", "tls"}) {
      if (as_null) {
        context[key] = nullptr;
      } else {
        context.erase(key);
      }
    }
    context["from_a_later_version"] = 1;
    const absl::StatusOr<NodeConfig> config = ParseNodeConfig(DumpJson(context));
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->nonce, "");
    EXPECT_EQ(config->rank, std::nullopt);
    EXPECT_EQ(config->local_rank, std::nullopt);
    EXPECT_FALSE(config->input_feed);
    EXPECT_EQ(config->default_fs, "file://");
    EXPECT_THAT(config->gpus, IsEmpty());
    EXPECT_EQ(config->port_fd, std::nullopt);
    EXPECT_FALSE(config->feed_shared_memory);
    EXPECT_EQ(config->tls.key, "");
  }
}

class RequiredMember : public testing::TestWithParam<const char*> {};

TEST_P(RequiredMember, IsNamedWhenMissing) {
  Json missing = GoodContext();
  missing.erase(GetParam());
  const std::string quoted = absl::StrCat("\"", GetParam(), "\"");
  EXPECT_THAT(
      ParseNodeConfig(DumpJson(missing)),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(quoted), HasSubstr("missing"))));
}

INSTANTIATE_TEST_SUITE_P(Members, RequiredMember,
                         testing::Values("protocol", "cluster_id", "executor_id", "job_name",
                                         "task_index", "attempt", "epoch", "cluster_spec",
                                         "num_workers", "rank", "input_mode", "queues", "address",
                                         "port", "feed_budget_bytes"));

TEST(NodeConfigTest, NamesEveryMemberOfTheWrongType) {
  const Json good = GoodContext();
  for (const auto& [key, value] : good.items()) {
    Json wrong = GoodContext();
    wrong[key] = value.is_boolean() ? Json(1) : Json(true);
    EXPECT_THAT(ParseNodeConfig(DumpJson(wrong)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)))
        << key;
  }
  for (const char* key : {"ca", "certificate", "key"}) {
    Json wrong = GoodContext();
    wrong["tls"].erase(key);
    EXPECT_THAT(ParseNodeConfig(DumpJson(wrong)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat("tls.", key))));
  }
}

TEST(NodeConfigTest, RefusesNumbersOutOfRange) {
  const std::vector<std::pair<const char*, Json>> wrong = {
      {"executor_id", -1}, {"task_index", int64_t{1} << 31}, {"port", 65536}, {"port", -1},
      {"port_fd", -1},     {"feed_budget_bytes", 0},         {"epoch", -1},   {"attempt", 1.5},
      {"rank", -1}};
  for (const auto& [key, value] : wrong) {
    Json context = GoodContext();
    context[key] = value;
    EXPECT_THAT(ParseNodeConfig(DumpJson(context)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)))
        << key << " = " << value;
  }
}

TEST(NodeConfigTest, RefusesAnUnknownInputModeWithoutEchoingControls) {
  Json context = GoodContext();
  context["input_mode"] = "SPARK\n";
  EXPECT_THAT(ParseNodeConfig(DumpJson(context)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "field \"input_mode\" must be FEED or DIRECT, found \"SPARK\\n\""));
}

TEST(NodeConfigTest, SaysWhatToDoAboutAnotherProtocolBeforeItReadsTheRest) {
  EXPECT_THAT(ParseNodeConfig(R"({"protocol": 2})"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "the agent speaks control protocol 2, this program 1; build both from the "
                       "same version of Millrace"));
}

TEST(NodeConfigTest, RefusesGarbageWithoutRepeatingSecrets) {
  const std::string good = DumpJson(GoodContext());
  for (const std::string& garbage :
       {std::string(), std::string("null"), std::string("[]"), std::string("\xff\xfe"),
        good.substr(0, good.size() - 1), absl::StrCat(good, "x"), std::string(100, '['),
        std::string("{\"tls\": {\"key\": \"KEY\"")}) {
    EXPECT_THAT(ParseNodeConfig(garbage),
                StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("KEY"))))
        << garbage.substr(0, 40);
  }
}

TEST(NodeConfigTest, ReadsTheSpecOfALargeClusterAndRefusesAnEndlessFile) {
  Json context = GoodContext();
  Json workers = Json::array();
  for (int i = 0; i < 10000; ++i) workers.push_back(absl::StrCat("host-", i, ".example:", i));
  context["cluster_spec"]["worker"] = workers;
  const absl::StatusOr<NodeConfig> config = ParseNodeConfig(DumpJson(context));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->cluster_spec.NumTasks("worker"), IsOkAndHolds(10000));

  EXPECT_THAT(ParseNodeConfig(std::string((size_t{64} << 20) + 1, ' ')),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(NodeConfigTest, KnowsTheFedJobs) {
  for (const char* job : {"chief", "master", "worker"}) EXPECT_TRUE(IsFedJob(job)) << job;
  for (const char* job : {"ps", "evaluator", "", "workers"}) EXPECT_FALSE(IsFedJob(job)) << job;
}

class EnvironmentTest : public testing::Test {
 protected:
  ~EnvironmentTest() override { ::unsetenv("MILLRACE_CONTEXT_FILE"); }
};

TEST_F(EnvironmentTest, SaysThatAClusterStartsNodes) {
  ::unsetenv("MILLRACE_CONTEXT_FILE");
  const auto started_by_hand =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "this is a Millrace node program: a cluster starts it, it does not run by itself "
               "(MILLRACE_CONTEXT_FILE is not set)");
  EXPECT_THAT(ReadNodeConfigFromEnvironment(), started_by_hand);
  ::setenv("MILLRACE_CONTEXT_FILE", "", 1);
  EXPECT_THAT(ReadNodeConfigFromEnvironment(), started_by_hand);
}

TEST_F(EnvironmentTest, ReadsTheFileAndNamesItInErrors) {
  const absl::StatusOr<TempDir> dir = TempDir::Create("node_config");
  ASSERT_THAT(dir, IsOk());
  const std::string path = JoinPath(dir->path(), "context.json");
  ::setenv("MILLRACE_CONTEXT_FILE", path.c_str(), 1);
  EXPECT_THAT(ReadNodeConfigFromEnvironment(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("MILLRACE_CONTEXT_FILE")));

  ASSERT_THAT(WriteFileAtomic(path, DumpJson(GoodContext())), IsOk());
  const absl::StatusOr<NodeConfig> config = ReadNodeConfigFromEnvironment();
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->job_name, "worker");

  ASSERT_THAT(WriteFileAtomic(path, "{}"), IsOk());
  EXPECT_THAT(
      ReadNodeConfigFromEnvironment(),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(path), HasSubstr("protocol"))));
}

}  // namespace
}  // namespace millrace
