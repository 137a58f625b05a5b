// Runs real agents on fake NVML: what their nodes find, and what they hold.

#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/agent/agent_test_fixture.h"
#include "core/base/random.h"
#include "core/gpu/gpu_claims.h"
#include "core/gpu/gpu_snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// One agent with its coordinator.
struct Node {
  std::unique_ptr<FakeCoordinator> coordinator;
  std::unique_ptr<AgentHarness> agent;
};

class AgentGpuTest : public AgentTest {
 protected:
  void SetUp() override { Script(2); }

  std::string Uuid(int index) const { return absl::StrCat("GPU-", index, "-", salt_); }

  void Script(int gpus, const std::string& more = "") {
    std::string text = "driver 550\nnvml 12\n";
    for (int i = 0; i < gpus; ++i) {
      absl::StrAppend(&text, "gpu ", i, " uuid=", Uuid(i), " total=1000 mig_mode=0\n");
    }
    ASSERT_TRUE(WriteFileAtomic(Path("gpus"), text + more).ok());
  }

  Node Start(int index, const std::vector<std::string>& args, int gpus_per_node,
             const Json& more_params = Json::object(),
             const std::vector<std::string>& more_env = {}, bool restarts = false) {
    FakeCoordinator::Options options;
    options.program = TestFile("test_node");
    options.args = args;
    options.num_workers = 2;
    options.registered.set_job_name("worker");
    options.registered.set_task_index(index);
    options.registered.mutable_node()->set_gpus_per_node(gpus_per_node);
    options.registered.set_restarts(restarts);
    Node node;
    node.coordinator = std::make_unique<FakeCoordinator>(options);
    // Of equal names the first counts.
    std::vector<std::string> env = more_env;
    env.push_back(absl::StrCat("MILLRACE_GPU_HELPER=", RunfilePath("core/gpu/millrace-gpu")));
    env.push_back(
        absl::StrCat("MILLRACE_NVML_LIBRARY=", RunfilePath("testing/fake_nvml/libfake_nvml.so")));
    env.push_back(absl::StrCat("FAKE_NVML_SCRIPT=", Path("gpus")));
    node.agent =
        std::make_unique<AgentHarness>(std::vector<std::string>{"agent", "--parent=stdin"}, env);
    Json params = {{"coordinator", node.coordinator->StartParams()},
                   {"runtime_dir", Path("run")},
                   {"log_dir", Path("log")},
                   {"working_dir", Path("work")}};
    params.update(more_params);
    node.agent->Start(params);
    return node;
  }

  // Until the node has finished, and everything it wrote has come.
  static void Finish(const Node& node) {
    EXPECT_FALSE(node.agent->ReadState("finished").is_null()) << node.agent->stderr_text();
    EXPECT_EQ(node.agent->WaitExit(), 0);
  }

  // The value of a variable that the node has written; "unset" without.
  static std::string Variable(const Node& node, const std::string& name) {
    const std::string prefix = absl::StrCat("env ", name, "=");
    for (const std::string& line : node.coordinator->LogLines()) {
      if (absl::StartsWith(line, prefix)) return line.substr(prefix.size());
    }
    return "unset";
  }

  // Whether somebody holds GPU `index`.
  bool Held(int index) const {
    GpuSnapshot snapshot;
    GpuReading gpu;
    gpu.index = index;
    gpu.uuid = Uuid(index);
    snapshot.gpus.push_back(gpu);
    for (;;) {
      const auto claim = ClaimGpus(snapshot, {.count = 1}, {.cluster_id = "c", .node = "test:0"});
      if (!absl::IsAborted(claim.status())) return !claim.ok();
    }
  }

  bool WaitUntilFree(int index) const {
    return Eventually([&] { return !Held(index); });
  }

  const std::string salt_ = RandomHex(8);
};

TEST_F(AgentGpuTest, NodesOfOneHostGetGpusOfTheirOwn) {
  Node one = Start(0, {"pause"}, 1);
  EXPECT_FALSE(one.agent->ReadState("running").is_null()) << one.agent->stderr_text();
  EXPECT_TRUE(Held(0));
  Node two = Start(1, {"describe"}, 1);
  Finish(two);
  EXPECT_EQ(Variable(two, "CUDA_VISIBLE_DEVICES"), Uuid(1));
  EXPECT_EQ(Variable(two, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_THAT(Variable(two, "MILLRACE_CONTEXT"),
              HasSubstr(absl::StrCat("\"gpus\":[\"", Uuid(1), "\"]")));
  EXPECT_FALSE(Held(1));
  EXPECT_TRUE(Held(0));
  one.agent->CloseStdin();
  EXPECT_EQ(one.agent->WaitExit(), 0);
  EXPECT_FALSE(Held(0));
}

TEST_F(AgentGpuTest, TooFewFreeGpusFailTheLaunchAndNameTheHolder) {
  Node one = Start(0, {"pause"}, 2);
  EXPECT_FALSE(one.agent->ReadState("running").is_null());
  Node two = Start(1, {"pause"}, 1);
  const Json failed = two.agent->ReadState("failed");
  ASSERT_FALSE(failed.is_null());
  EXPECT_EQ(failed.value("code", ""), "RESOURCE_EXHAUSTED");
  EXPECT_THAT(failed.value("message", ""), HasSubstr("worker:1 needs 1 GPU; of 2 on host"));
  EXPECT_THAT(failed.value("message", ""), HasSubstr("is held by worker:0 of cluster test"));
  EXPECT_TRUE(two.coordinator->WaitForState(v1::NODE_STATE_LAUNCH_FAILED));
  EXPECT_EQ(two.agent->WaitExit(), 1);
}

// The first attempt has no program that could end.
TEST_F(AgentGpuTest, ANodeThatFoundNoGpusGetsThemInItsNextAttempt) {
  Node one = Start(0, {"pause"}, 2);
  EXPECT_FALSE(one.agent->ReadState("running").is_null());
  Node two = Start(1, {"describe"}, 1, Json::object(), {}, /*restarts=*/true);
  const Json waits = two.agent->ReadState("restarting");
  ASSERT_FALSE(waits.is_null()) << two.agent->stderr_text();
  EXPECT_EQ(waits.value("code", ""), "RESOURCE_EXHAUSTED");
  one.agent->CloseStdin();
  EXPECT_EQ(one.agent->WaitExit(), 0);
  v1::CoordinatorMessage next;
  next.mutable_start()->set_attempt(1);
  two.coordinator->Send(next);
  Finish(two);
  EXPECT_EQ(Variable(two, "CUDA_VISIBLE_DEVICES"), Uuid(0));
}

TEST_F(AgentGpuTest, AKilledAgentLeavesItsGpusFree) {
  Node one = Start(0, {"pause"}, 2);
  EXPECT_FALSE(one.agent->ReadState("running").is_null());
  kill(one.agent->pid(), SIGKILL);
  EXPECT_TRUE(WaitUntilFree(0));
  EXPECT_TRUE(WaitUntilFree(1));
}

TEST_F(AgentGpuTest, TheParentMayNameTheGpus) {
  Node named = Start(0, {"describe"}, 0, Json{{"gpus", {1}}});
  Finish(named);
  EXPECT_EQ(Variable(named, "CUDA_VISIBLE_DEVICES"), Uuid(1));
  Node none = Start(0, {"describe"}, 1, Json{{"gpus", 0}});
  Finish(none);
  EXPECT_EQ(Variable(none, "CUDA_VISIBLE_DEVICES"), "");
}

TEST_F(AgentGpuTest, AnInheritedListIsRespected) {
  Node claimed = Start(0, {"describe"}, 1, Json::object(), {"CUDA_VISIBLE_DEVICES=1"});
  Finish(claimed);
  EXPECT_EQ(Variable(claimed, "CUDA_VISIBLE_DEVICES"), Uuid(1));
  // A cluster that asks for none leaves it alone.
  Node untouched = Start(0, {"describe"}, 0, Json::object(), {"CUDA_VISIBLE_DEVICES=1"});
  Finish(untouched);
  EXPECT_EQ(Variable(untouched, "CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(Variable(untouched, "CUDA_DEVICE_ORDER"), "unset");
}

TEST_F(AgentGpuTest, InstancesOfAGpuInMigModeAreDealt) {
  const std::string mig = absl::StrCat("MIG-", salt_);
  ASSERT_TRUE(WriteFileAtomic(Path("gpus"), absl::StrCat("gpu 0 uuid=", Uuid(0), " mig_mode=1\n",
                                                         "mig 0 uuid=", mig, " gi=1 ci=0\n"))
                  .ok());
  Node node = Start(0, {"describe"}, 1);
  Finish(node);
  EXPECT_EQ(Variable(node, "CUDA_VISIBLE_DEVICES"), mig);
}

TEST_F(AgentGpuTest, AHostWithoutADriverFailsTheLaunchWithTheReason) {
  Node node = Start(0, {"pause"}, 1, Json::object(),
                    {"MILLRACE_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1", "PATH=/nonexistent"});
  const Json failed = node.agent->ReadState("failed");
  ASSERT_FALSE(failed.is_null());
  EXPECT_EQ(failed.value("code", ""), "FAILED_PRECONDITION");
  EXPECT_THAT(failed.value("message", ""),
              HasSubstr("/nonexistent/libnvidia-ml.so.1 cannot be loaded"));
}

// A driver that hangs for one GPU: the other is dealt, and the agent goes on.
TEST_F(AgentGpuTest, AHangingDriverCostsItsGpuOnly) {
  Script(2, "hang 0 nvmlDeviceGetTemperature\n");
  Node node = Start(0, {"describe"}, 1);
  Finish(node);
  EXPECT_EQ(Variable(node, "CUDA_VISIBLE_DEVICES"), Uuid(1));
  EXPECT_THAT(node.agent->stderr_text(),
              HasSubstr("does not return from nvmlDeviceGetTemperature"));
}

TEST_F(AgentGpuTest, AProgramMayClaimMoreAndGiveBack) {
  Node node = Start(0,
                    {"frames", R"({"id":1,"method":"hello","params":{"protocol":1}})",
                     R"({"id":2,"method":"gpu.claim","params":{"count":1}})",
                     R"({"id":3,"method":"gpu.claim","params":{"ids":["7"]}})",
                     R"({"id":4,"method":"gpu.claim","params":{}})",
                     R"({"id":5,"method":"gpu.release","params":{"ids":["GPU-none"]}})"},
                    1);
  EXPECT_TRUE(node.coordinator->WaitFor([](const std::vector<v1::AgentMessage>& messages) {
    int replies = 0;
    for (const v1::AgentMessage& message : messages) {
      for (const std::string& line : message.log().lines()) {
        replies += absl::StartsWith(line, "reply ") ? 1 : 0;
      }
    }
    return replies == 5;
  }));
  EXPECT_TRUE(Held(0));
  EXPECT_TRUE(Held(1));
  v1::CoordinatorMessage stop;
  stop.mutable_stop()->set_reason("done");
  node.coordinator->Send(stop);
  Finish(node);
  const std::vector<std::string> lines = node.coordinator->LogLines();
  EXPECT_THAT(lines, Contains(HasSubstr(absl::StrCat(R"("result":{"ids":[")", Uuid(1), R"("]})"))));
  EXPECT_THAT(lines, Contains(HasSubstr("NOT_FOUND")));
  EXPECT_THAT(lines, Contains(HasSubstr("must have either")));
  EXPECT_FALSE(Held(0));
  EXPECT_FALSE(Held(1));
}

TEST_F(AgentGpuTest, SamplesTellTheHostsGpusAndWhichAreTheNodes) {
  Node node = Start(0, {"pause"}, 1);
  v1::NodeSample sample;
  const auto all_known = [&](const std::vector<v1::AgentMessage>& messages) {
    for (const v1::AgentMessage& message : messages) {
      if (message.has_sample() && message.sample().gpus_size() == 2) sample = message.sample();
    }
    return sample.gpus_size() == 2;
  };
  ASSERT_TRUE(node.coordinator->WaitFor(all_known)) << node.agent->stderr_text();
  ASSERT_EQ(sample.claimed_gpus_size(), 1);
  EXPECT_EQ(sample.claimed_gpus(0), Uuid(0));
  EXPECT_EQ(sample.gpus(1).uuid(), Uuid(1));
  EXPECT_EQ(sample.gpus(1).memory_total_bytes(), 1000u);
  EXPECT_EQ(sample.gpus(1).source(), "nvml");
  EXPECT_EQ(sample.gpus_unknown(), "");
  EXPECT_TRUE(sample.process().has_rss_bytes());
  node.agent->CloseStdin();
  EXPECT_EQ(node.agent->WaitExit(), 0);
}

}  // namespace
}  // namespace millrace
