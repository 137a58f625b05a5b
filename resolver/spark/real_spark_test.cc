// SparkResolver and the REST API of a live application on a real Spark.

#include <signal.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/membership.h"
#include "millrace/spark_resolver.h"
#include "resolver/update_recorder.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kLong = absl::Seconds(200);

// One Spark for all tests: its start takes longer than they do.
class RealSparkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto process = ChildProcess::Start({RunfilePath("testing/spark/spark_3_5_cluster"),
                                        "--executors=2", "--gpus=4", "--executor-gpus=2"});
    ASSERT_THAT(process, IsOk());
    spark_ = process->release();
    const auto cluster = Event("cluster");
    if (!cluster.has_value()) return;
    master_ui_ = *GetString(*cluster, "master_ui");
    const auto application = Event("application");
    ASSERT_TRUE(application.has_value());
    id_ = *GetString(*application, "id");
    ui_ = *GetString(*application, "ui");
  }
  static void TearDownTestSuite() {
    if (spark_ == nullptr) return;
    spark_->Kill(SIGTERM);
    EXPECT_THAT(spark_->Wait(kLong), IsOk());
    delete std::exchange(spark_, nullptr);
  }

  void SetUp() override {
    if (!unavailable_.empty()) GTEST_SKIP() << unavailable_;
    ASSERT_FALSE(ui_.empty());
  }

  // The next event of the fixture, which must be this one.
  static std::optional<Json> Event(const std::string& name) {
    const auto line = spark_->WaitForLine("{\"event\"", kLong);
    EXPECT_THAT(line, IsOk());
    if (!line.ok()) return std::nullopt;
    const auto event = ParseJson(*line);
    EXPECT_THAT(event, IsOk());
    const std::string found = GetString(*event, "event").value_or("");
    if (found == "unavailable") unavailable_ = GetString(*event, "reason").value_or("?");
    if (found == "unavailable") return std::nullopt;
    EXPECT_EQ(found, name);
    return *event;
  }

  static SparkResolverOptions Options() {
    return {.url = ui_,
            .timeout = absl::Seconds(60),
            .jobs = {{"ps", 1}, {"worker", std::nullopt}},
            .port_base = 2222,
            .completeness = MemberCompleteness::kWait,
            .wait_timeout = kLong};
  }
  static std::unique_ptr<SparkResolver> Resolver(SparkResolverOptions options) {
    auto resolver = SparkResolver::Create(std::move(options));
    EXPECT_THAT(resolver, IsOk());
    return *std::move(resolver);
  }

  static inline ChildProcess* spark_ = nullptr;
  static inline std::string unavailable_;
  static inline std::string master_ui_;
  static inline std::string id_;
  static inline std::string ui_;
};

TEST_F(RealSparkTest, AnExecutorThatIsKilledIsToldAndReplaced) {
  const auto resolver = Resolver(Options());
  const auto spec = resolver->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(), R"({"ps":["127.0.0.1:2222"],"worker":["127.0.0.1:2223"]})");
  const auto before = resolver->Tasks();
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(*before, SizeIs(2));

  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), {.poll_interval = absl::Milliseconds(50)});
  ASSERT_THAT(watch, IsOk());
  const auto works = [](const MembershipUpdate& update) { return update.status.ok(); };
  ASSERT_TRUE(updates.WaitForNext(works, kLong).has_value());
  spark_->Kill(SIGUSR1);
  const auto killed = Event("killed");
  ASSERT_TRUE(killed.has_value());
  EXPECT_EQ(*GetString(*killed, "executor"), (*before)[0].executor.id);
  const auto lacks_one = [](const MembershipUpdate& update) {
    return absl::IsFailedPrecondition(update.status) &&
           testing::Value(update.status.message(), HasSubstr("have 1 of 2"));
  };
  ASSERT_TRUE(updates.WaitForNext(lacks_one, kLong).has_value());
  ASSERT_TRUE(updates.WaitForNext(works, kLong).has_value());
  const auto after = resolver->Tasks();
  ASSERT_THAT(after, IsOk());
  ASSERT_THAT(*after, SizeIs(2));
  // The one that stayed is the first now.
  EXPECT_EQ((*after)[0].executor.id, (*before)[1].executor.id);
  EXPECT_NE((*after)[1].executor.id, (*before)[0].executor.id);
}

TEST_F(RealSparkTest, GpusAreThoseThatSparkGaveTheExecutor) {
  auto options = Options();
  options.application_id = id_;
  const auto resolver = Resolver(std::move(options));
  ASSERT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_THAT(resolver->num_accelerators("ps", 0), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
  EXPECT_THAT(resolver->num_accelerators("worker", 0), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
  EXPECT_THAT(resolver->num_accelerators("worker", 1), StatusIs(absl::StatusCode::kNotFound));
  const auto tasks = resolver->Tasks();
  ASSERT_THAT(tasks, IsOk());
  std::vector<std::string> addresses;
  for (const SparkTask& task : *tasks) {
    for (const std::string& address : task.executor.resources.at("gpu")) {
      addresses.push_back(address);
    }
  }
  EXPECT_THAT(addresses, UnorderedElementsAre("0", "1", "2", "3"));
}

TEST_F(RealSparkTest, TheExecutorThatThisProcessRunsOnIsItsTask) {
  const auto tasks = Resolver(Options())->Tasks();
  ASSERT_THAT(tasks, IsOk());
  auto options = Options();
  options.executor_id = tasks->back().executor.id;
  const auto resolver = Resolver(std::move(options));
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(std::optional<std::string>("worker")));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(std::optional<int>(0)));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("127.0.0.1:2223"));
}

TEST_F(RealSparkTest, MoreTasksThanExecutorsIsSaid) {
  auto options = Options();
  options.jobs = {{"worker", 4}};
  options.completeness = MemberCompleteness::kRequireAll;
  EXPECT_THAT(Resolver(std::move(options))->cluster_spec(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("have 2 of 4 (worker 4)"), HasSubstr(id_))));
}

TEST_F(RealSparkTest, AnUnknownApplicationIsSaid) {
  auto options = Options();
  options.application_id = "app-20010101000000-0000";
  EXPECT_THAT(Resolver(std::move(options))->cluster_spec(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("has no application app-20010101000000-0000")));
}

TEST_F(RealSparkTest, AMastersPageIsNoApi) {
  auto options = Options();
  options.url = master_ui_;
  EXPECT_THAT(
      Resolver(std::move(options))->cluster_spec(),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr(master_ui_), HasSubstr("web page"), HasSubstr("not of a master"))));
}

// The last one: it ends the application.
TEST_F(RealSparkTest, TheEndOfTheApplicationIsTold) {
  const auto resolver = Resolver(Options());
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), {.poll_interval = absl::Milliseconds(50)});
  ASSERT_THAT(watch, IsOk());
  const auto works = [](const MembershipUpdate& update) { return update.status.ok(); };
  ASSERT_TRUE(updates.WaitForNext(works, kLong).has_value());
  spark_->Kill(SIGUSR2);
  ASSERT_TRUE(Event("stopped").has_value());
  const auto is_over = [](const MembershipUpdate& update) {
    return absl::IsUnavailable(update.status) &&
           testing::Value(update.status.message(), HasSubstr("spark.ui.enabled"));
  };
  EXPECT_TRUE(updates.WaitForNext(is_over, kLong).has_value());
}

}  // namespace
}  // namespace millrace
