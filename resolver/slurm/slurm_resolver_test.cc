#include "millrace/slurm_resolver.h"

#include <map>
#include <string>
#include <utility>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/slurm/slurm_resolver_fixture.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::SizeIs;

using Accelerators = std::map<std::string, int>;

TEST_F(SlurmResolverTest, DealsRanksOverTheHostsInTheOrderOfTheNodeList) {
  EXPECT_EQ(
      SpecOf(),
      R"({"worker":["t02n13:8888","t02n13:8889","t02n41:8888","t02n41:8889","t02n43:8888"]})");
  EXPECT_EQ(
      SpecOf({.jobs = {{{"worker", 4}, {"ps", 1}}}, .port_base = 100}),
      R"({"worker":["t02n13:100","t02n13:101","t02n41:100","t02n41:101"],"ps":["t02n43:100"]})");
}

TEST_F(SlurmResolverTest, UnpaddedHostsKeepTheirRanks) {
  environment_ = {{"SLURM_PROCID", "9"},
                  {"SLURM_STEP_NUM_TASKS", "12"},
                  {"SLURM_STEP_NODELIST", "n[1-12]"},
                  {"SLURM_STEP_TASKS_PER_NODE", "1(x12)"}};
  const auto resolver = Make({.properties = {.rpc_layer = ""}});
  EXPECT_EQ(resolver->GetTaskInfo(), (SlurmTaskInfo{.task_type = "worker", .task_id = 9}));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("n10:8888"));
}

TEST_F(SlurmResolverTest, FollowsTheDistribution) {
  environment_["SLURM_DISTRIBUTION"] = "cyclic";
  EXPECT_EQ(
      SpecOf(),
      R"({"worker":["t02n13:8888","t02n41:8888","t02n43:8888","t02n13:8889","t02n41:8889"]})");
  environment_["SLURM_DISTRIBUTION"] = "plane=2";
  EXPECT_EQ(
      SpecOf(),
      R"({"worker":["t02n13:8888","t02n13:8889","t02n41:8888","t02n41:8889","t02n43:8888"]})");
  // As srun sets it for --distribution=plane=2.
  const std::string by_two = SpecOf();
  environment_["SLURM_DISTRIBUTION"] = "plane";
  environment_["SLURM_DIST_PLANESIZE"] = "2";
  EXPECT_EQ(SpecOf(), by_two);
  for (const char* none : {"0", "x", ""}) {
    environment_["SLURM_DIST_PLANESIZE"] = none;
    EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("plane")));
  }
  environment_["SLURM_DISTRIBUTION"] = "block:cyclic,Pack";
  EXPECT_THAT(Create(), IsOk());
  for (const char* other : {"arbitrary", "plane", "plane=0", "plane=x"}) {
    environment_["SLURM_DISTRIBUTION"] = other;
    EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("SLURM_DISTRIBUTION"), HasSubstr(other))));
  }
}

TEST_F(SlurmResolverTest, KnowsItsOwnTask) {
  const auto resolver = Make({.jobs = {{{"ps", 1}, {"worker", 4}}}});
  EXPECT_EQ(resolver->GetTaskInfo(), (SlurmTaskInfo{.task_type = "worker", .task_id = 0}));
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(Optional(std::string("worker"))));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(0)));
  EXPECT_THAT(resolver->rpc_layer(), IsOkAndHolds(Optional(std::string("grpc"))));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://t02n13:8889"));
  EXPECT_THAT(resolver->master("ps", 0, ""), IsOkAndHolds("t02n13:8888"));
  EXPECT_THAT(resolver->set_task_id(3), IsOk());
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://t02n43:8888"));
  EXPECT_EQ(resolver->GetTaskInfo(), (SlurmTaskInfo{.task_type = "worker", .task_id = 0}));
  const auto told = Make(
      {.jobs = {{{"ps", 1}, {"worker", 4}}}, .properties = {.task_type = "worker", .task_id = 3}});
  EXPECT_THAT(told->master(), IsOkAndHolds("grpc://t02n43:8888"));
}

TEST_F(SlurmResolverTest, OutsideAStepItSaysWhatToDo) {
  for (const char* variable : {"SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE",
                               "SLURM_STEP_NUM_TASKS"}) {
    const auto kept = environment_;
    environment_.erase(variable);
    EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr(variable), HasSubstr("srun"))));
    environment_ = kept;
  }
}

TEST_F(SlurmResolverTest, NamesBothOfTwoVariablesThatContradictEachOther) {
  const auto kept = environment_;
  environment_["SLURM_STEP_TASKS_PER_NODE"] = "2(x2)";
  ExpectRefused({}, "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE \"2(x2)\" has 2 counts");
  environment_ = kept;
  environment_["SLURM_STEP_NUM_TASKS"] = "4";
  ExpectRefused({}, "SLURM_STEP_NUM_TASKS has 4 tasks", "SLURM_STEP_TASKS_PER_NODE");
  ExpectRefused({.jobs = {{{"worker", 6}}}}, "jobs has 6 tasks", "5 are on the hosts");
  environment_ = kept;
  environment_["SLURM_PROCID"] = "5";
  ExpectRefused({}, "SLURM_PROCID is 5", "SLURM_STEP_TASKS_PER_NODE");
  environment_ = kept;
  environment_["SLURM_NODEID"] = "1";
  ExpectRefused({}, "SLURM_NODEID is 1", "SLURM_PROCID) should have 0");
  environment_ = kept;
  environment_["SLURM_LOCALID"] = "0";
  ExpectRefused({}, "SLURM_LOCALID is 0", "should have 1");
  environment_["SLURM_LOCALID"] = "1";
  environment_["SLURM_NODEID"] = "0";
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(SlurmResolverTest, NamesTheVariableThatIsMalformed) {
  const std::vector<std::pair<std::string, std::string>> malformed = {
      {"SLURM_PROCID", "-1"},
      {"SLURM_PROCID", "x"},
      {"SLURM_PROCID", "99999999999"},
      {"SLURM_STEP_NUM_TASKS", ""},
      {"SLURM_STEP_NODELIST", "n[1-"},
      {"SLURM_STEP_NODELIST", ""},
      {"SLURM_STEP_NODELIST", "a,b,a"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(y)"},
      {"SLURM_NODEID", "?"},
      {"SLURM_GPUS_PER_TASK", "many"}};
  for (const auto& [name, value] : malformed) {
    const auto kept = environment_;
    environment_[name] = value;
    ExpectRefused({}, name);
    environment_ = kept;
  }
}

TEST_F(SlurmResolverTest, HostileSizesAreRefusedAtOnce) {
  environment_["SLURM_STEP_NODELIST"] = "n[1-999999999]";
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kResourceExhausted));
  environment_["SLURM_STEP_NODELIST"] = "n[1-2]";
  environment_["SLURM_STEP_TASKS_PER_NODE"] = "2000000000(x2)";
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(SlurmResolverTest, RefusesOptionsThatCannotBe) {
  ExpectRefused({.port_base = 0}, "port_base");
  ExpectRefused({.port_base = 65535}, "port_base must be in 1..65534");
  ExpectRefused({.jobs = {{{"a", 6}, {"b", -1}}}}, "must not be negative");
  ExpectRefused({.jobs = {{{"a", 2}, {"a", 3}}}}, "name of another");
  ExpectRefused({.gpus_per_node = -1}, "gpus_per_node");
  ExpectRefused({.gpus_per_task = -1}, "gpus_per_task");
  ExpectRefused({.tasks_per_node = 0}, "no task");
  ExpectRefused({.tasks_per_node = -1}, "must not be negative");
  ExpectRefused({.properties = {.task_id = -1}}, "task_id");
}

TEST_F(SlurmResolverTest, TasksPerNodeReplaceTheVariable) {
  environment_.erase("SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(SpecOf({.jobs = {{{"w", 3}}}, .tasks_per_node = 1}),
            R"({"w":["t02n13:8888","t02n41:8888","t02n43:8888"]})");
  environment_.erase("SLURM_STEP_NODELIST");
  EXPECT_EQ(SpecOf({.jobs = {{{"w", 3}}},
                    .tasks_per_node = SlurmResolverOptions::TasksOfHosts{{"z", 1}, {"a", 2}}}),
            R"({"w":["z:8888","a:8888","a:8889"]})");
}

TEST_F(SlurmResolverTest, AnEmptyJobStays) {
  EXPECT_EQ(SpecOf({.jobs = {{{"e", 0}, {"w", 5}}}}).substr(0, 9), R"({"e":{},")");
}

TEST_F(SlurmResolverTest, HostsWithoutGpusAreFine) {
  const auto resolver = Make();
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(Accelerators()));
  EXPECT_THAT(resolver->VisibleDevices(), IsOkAndHolds(""));
  EXPECT_FALSE(environment_.contains("CUDA_VISIBLE_DEVICES"));
  for (const char* none : {"", "-1", "NoDevFiles"}) {
    environment_["CUDA_VISIBLE_DEVICES"] = none;
    EXPECT_THAT(Make()->num_accelerators(), IsOkAndHolds(Accelerators())) << none;
  }
}

TEST_F(SlurmResolverTest, TheGpusOfTheHostAreDividedAmongItsTasks) {
  gpus_of_host_ = 4;
  const auto resolver = Make();
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(Accelerators{{"GPU", 2}}));
  EXPECT_THAT(resolver->num_accelerators("worker", 4), IsOkAndHolds(Accelerators{{"GPU", 2}}));
  EXPECT_THAT(resolver->num_accelerators("worker", 5), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(resolver->VisibleDevices(), IsOkAndHolds("2,3"));
  gpus_of_host_ = absl::UnavailableError("driver");
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Create({.gpus_per_node = 2}), IsOk());
}

TEST_F(SlurmResolverTest, TakesSlicesOfTheInheritedIds) {
  environment_["CUDA_VISIBLE_DEVICES"] = "7, 5,GPU-8f2e,2";
  EXPECT_THAT(Make()->VisibleDevices(), IsOkAndHolds("GPU-8f2e,2"));
  EXPECT_THAT(Make({.gpus_per_task = 1})->VisibleDevices(), IsOkAndHolds("5"));
  ExpectRefused({.gpus_per_node = 8, .gpus_per_task = 3}, "CUDA_VISIBLE_DEVICES has 4 ids",
                "gpus_per_node, 8");
  ExpectRefused({.gpus_per_task = 3}, "gpus_per_task is 3", "gpus_per_node is 4");
}

TEST_F(SlurmResolverTest, KeepsTheGpusThatSrunGaveToEachTask) {
  environment_["CUDA_VISIBLE_DEVICES"] = "0,1";
  environment_["SLURM_GPUS_PER_TASK"] = "a100:2";
  EXPECT_THAT(Make()->VisibleDevices(), IsOkAndHolds("0,1"));
  EXPECT_THAT(Make()->num_accelerators(), IsOkAndHolds(Accelerators{{"GPU", 2}}));
  EXPECT_THAT(Make({.gpus_per_node = 4})->VisibleDevices(), IsOkAndHolds("0,1"));
  environment_["SLURM_GPUS_PER_TASK"] = "3";
  ExpectRefused({}, "CUDA_VISIBLE_DEVICES has 2 ids", "SLURM_GPUS_PER_TASK is 3");
}

TEST_F(SlurmResolverTest, SetsTheVariableWhenAsked) {
  environment_["CUDA_VISIBLE_DEVICES"] = "4,6";
  const auto resolver = Make({.auto_set_gpu = true});
  EXPECT_EQ(environment_["CUDA_VISIBLE_DEVICES"], "4,6");
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_EQ(environment_["CUDA_VISIBLE_DEVICES"], "6");
  // The ids were inherited once: asking again does not slice the slice.
  EXPECT_THAT(resolver->cluster_spec(), IsOk());
  EXPECT_EQ(environment_["CUDA_VISIBLE_DEVICES"], "6");
}

TEST_F(SlurmResolverTest, AWatchTellsOnce) {
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback());
  ASSERT_THAT(watch, IsOk());
  ASSERT_THAT(updates.updates(), SizeIs(1));
  EXPECT_EQ(updates.updates()[0].spec.total_tasks(), 5);
}

}  // namespace
}  // namespace millrace
