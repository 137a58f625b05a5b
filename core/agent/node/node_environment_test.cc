#include "core/agent/node/node_environment.h"

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

NodeEnvironmentInputs Inputs(const std::string& job, int index) {
  NodeEnvironmentInputs inputs;
  inputs.registered.set_cluster_id("c");
  inputs.registered.set_job_name(job);
  inputs.registered.set_task_index(index);
  inputs.registered.set_nonce("0123456789abcdef");
  inputs.registered.mutable_node()->set_num_workers(3);
  inputs.epoch = 1;
  EXPECT_THAT(inputs.cluster_spec.AddJob("ps", {"h1:1"}), IsOk());
  EXPECT_THAT(inputs.cluster_spec.AddJob("worker", {"h1:3", "h2:4"}), IsOk());
  EXPECT_THAT(inputs.cluster_spec.AddJob("chief", {"h2:2"}), IsOk());
  inputs.address = *inputs.cluster_spec.TaskAddress(job, index);
  inputs.control_fd = 3;
  inputs.context_path = "/run/context.json";
  inputs.key_pem = "PRIVATE";
  return inputs;
}

std::map<std::string, std::string> Variables(const NodeEnvironmentInputs& inputs) {
  const auto made = MakeNodeEnvironment(inputs);
  EXPECT_THAT(made, IsOk());
  std::map<std::string, std::string> variables;
  for (const std::string& entry : made->variables) {
    variables[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
  }
  return variables;
}

TEST(NodeEnvironmentTest, RanksGoFromChiefToWorkersAndCountPerHost) {
  auto chief = Variables(Inputs("chief", 0));
  EXPECT_EQ(chief["RANK"], "0");
  EXPECT_EQ(chief["LOCAL_RANK"], "0");
  EXPECT_EQ(chief["MASTER_ADDR"], "h2");
  EXPECT_EQ(chief["MASTER_PORT"], "2");
  EXPECT_EQ(chief["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(chief["GROUP_RANK"], "0");
  auto first = Variables(Inputs("worker", 0));
  EXPECT_EQ(first["RANK"], "1");
  EXPECT_EQ(first["LOCAL_RANK"], "0");
  EXPECT_EQ(first["LOCAL_WORLD_SIZE"], "1");
  EXPECT_EQ(first["GROUP_RANK"], "1");
  EXPECT_EQ(first["NODE_RANK"], "1");
  auto last = Variables(Inputs("worker", 1));
  EXPECT_EQ(last["RANK"], "2");
  EXPECT_EQ(last["LOCAL_RANK"], "1");
  EXPECT_EQ(last["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(last["GROUP_RANK"], "0");
  EXPECT_EQ(last["NODE_RANK"], "0");
  EXPECT_EQ(last["WORLD_SIZE"], "3");
  EXPECT_EQ(last["MASTER_ADDR"], "h2");
}

TEST(NodeEnvironmentTest, NodesThatAreNotFedHaveNoRank) {
  NodeEnvironmentInputs inputs = Inputs("ps", 0);
  inputs.inherited = {"RANK=5", "WORLD_SIZE=9", "NODE_RANK=1", "TF_CONFIG=old", "PATH=/bin"};
  auto variables = Variables(inputs);
  EXPECT_EQ(variables.count("RANK"), 0u);
  EXPECT_EQ(variables.count("WORLD_SIZE"), 0u);
  EXPECT_EQ(variables.count("NODE_RANK"), 0u);
  EXPECT_EQ(variables.count("LOCAL_WORLD_SIZE"), 0u);
  EXPECT_EQ(variables["PATH"], "/bin");
  EXPECT_EQ(variables["MASTER_PORT"], "2");
  EXPECT_EQ(variables["TF_CONFIG"],
            R"({"cluster":{"ps":["h1:1"],"worker":["h1:3","h2:4"],"chief":["h2:2"]},)"
            R"("task":{"type":"ps","index":0},"environment":"cloud"})");
}

TEST(NodeEnvironmentTest, StrongerVariablesWin) {
  NodeEnvironmentInputs inputs = Inputs("ps", 0);
  inputs.inherited = {"A=1", "B=1", "C=1"};
  (*inputs.registered.mutable_node()->mutable_env())["B"] = "2";
  (*inputs.registered.mutable_node()->mutable_env())["C"] = "2";
  (*inputs.registered.mutable_node()->mutable_env())["MILLRACE_CONTROL_FD"] = "2";
  inputs.host_env = {{"C", "3"}};
  auto variables = Variables(inputs);
  EXPECT_EQ(variables["A"], "1");
  EXPECT_EQ(variables["B"], "2");
  EXPECT_EQ(variables["C"], "3");
  EXPECT_EQ(variables["MILLRACE_CONTROL_FD"], "3");
}

TEST(NodeEnvironmentTest, ClaimedGpusAreAllThatTheNodeSees) {
  NodeEnvironmentInputs inputs = Inputs("worker", 0);
  inputs.inherited = {"CUDA_VISIBLE_DEVICES=0,1", "CUDA_DEVICE_ORDER=FASTEST_FIRST"};
  auto untouched = Variables(inputs);
  EXPECT_EQ(untouched["CUDA_VISIBLE_DEVICES"], "0,1");
  EXPECT_EQ(untouched["CUDA_DEVICE_ORDER"], "FASTEST_FIRST");
  inputs.host_env["CUDA_VISIBLE_DEVICES"] = "7";
  inputs.gpus = {"GPU-a", "MIG-b"};
  inputs.registered.mutable_node()->set_feed_port_range("9000-9100");
  inputs.registered.mutable_node()->set_feed_shared_memory(true);
  auto claimed = Variables(inputs);
  EXPECT_EQ(claimed["CUDA_VISIBLE_DEVICES"], "GPU-a,MIG-b");
  EXPECT_EQ(claimed["CUDA_DEVICE_ORDER"], "PCI_BUS_ID");
  EXPECT_THAT(claimed["MILLRACE_CONTEXT"], HasSubstr(R"("gpus":["GPU-a","MIG-b"])"));
  EXPECT_THAT(claimed["MILLRACE_CONTEXT"], HasSubstr(R"("feed_port_range":"9000-9100")"));
  EXPECT_THAT(claimed["MILLRACE_CONTEXT"], HasSubstr(R"("feed_shared_memory":true)"));
  inputs.gpus.emplace();
  auto none = Variables(inputs);
  EXPECT_EQ(none.count("CUDA_VISIBLE_DEVICES"), 1u);
  EXPECT_EQ(none["CUDA_VISIBLE_DEVICES"], "");
}

TEST(NodeEnvironmentTest, InlineContextHasNoSecrets) {
  const auto made = MakeNodeEnvironment(Inputs("worker", 0));
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->context_json, HasSubstr("PRIVATE"));
  EXPECT_THAT(made->context_json, HasSubstr("0123456789abcdef"));
  for (const std::string& entry : made->variables) {
    EXPECT_THAT(entry, Not(HasSubstr("PRIVATE")));
    EXPECT_THAT(entry, Not(HasSubstr("0123456789abcdef")));
  }
}

TEST(NodeEnvironmentTest, LargeClusterKeepsItsContextInTheFileOnly) {
  NodeEnvironmentInputs inputs = Inputs("worker", 0);
  ASSERT_THAT(inputs.cluster_spec.SetTask("worker", 2, std::string(kMaxInlineBytes, 'h')), IsOk());
  (*inputs.registered.mutable_node()->mutable_env())["TF_CONFIG"] = "mine";
  const auto made = MakeNodeEnvironment(inputs);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->left_out, ElementsAre("MILLRACE_CONTEXT", "TF_CONFIG"));
  for (const std::string& entry : made->variables) EXPECT_LT(entry.size(), kMaxInlineBytes);
  EXPECT_THAT(ParseJson(made->context_json), IsOk());
}

TEST(NodeEnvironmentTest, LimitIsWhereItIsDocumented) {
  NodeEnvironmentInputs inputs = Inputs("worker", 0);
  size_t low = 1;
  size_t high = kMaxInlineBytes;  // the longest name with which TF_CONFIG is still set
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    ASSERT_THAT(inputs.cluster_spec.SetTask("worker", 2, std::string(middle, 'h')), IsOk());
    auto variables = Variables(inputs);
    if (variables.count("TF_CONFIG") > 0) {
      EXPECT_LT(variables["TF_CONFIG"].size(), kMaxInlineBytes);
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  ASSERT_THAT(inputs.cluster_spec.SetTask("worker", 2, std::string(low, 'h')), IsOk());
  EXPECT_EQ(Variables(inputs)["TF_CONFIG"].size(), kMaxInlineBytes - 1);
}

TEST(NodeEnvironmentTest, VariablesThatCannotBeSetAreRefused) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"", "x"}, {"A=B", "x"}, {std::string("A\0B", 3), "x"}, {"A", std::string("\0", 1)}}) {
    NodeEnvironmentInputs inputs = Inputs("worker", 0);
    inputs.host_env = {{name, value}};
    EXPECT_THAT(MakeNodeEnvironment(inputs), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace millrace
