// File: core/agent/agent_test_fixture.h
//
// What the tests of the whole agent share: a fake coordinator, an agent process, folders. Test
// only.

#ifndef CORE_AGENT_AGENT_TEST_FIXTURE_H_
#define CORE_AGENT_AGENT_TEST_FIXTURE_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/agent/agent_harness.h"
#include "core/agent/fake_coordinator.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/proto/coordinator.pb.h"
#include "gtest/gtest.h"

namespace millrace {

class AgentTest : public ::testing::Test {
 protected:
  AgentTest() : dir_(*TempDir::Create("agent_test")) {
    for (const char* name : {"run", "log", "work"}) {
      mkdir(JoinPath(dir_.path(), name).c_str(), 0700);
    }
  }

  // A coordinator whose node is the test program in this mode.
  void MakeCoordinator(const std::vector<std::string>& args,
                       FakeCoordinator::Options options = {}) {
    if (options.program.empty()) options.program = TestFile("test_node");
    options.args = args;
    coordinator_ = std::make_unique<FakeCoordinator>(std::move(options));
  }

  Json Params() const {
    return {{"coordinator", coordinator_->StartParams()},
            {"runtime_dir", Path("run")},
            {"log_dir", Path("log")},
            {"working_dir", Path("work")}};
  }

  void RunAgent(const std::vector<std::string>& extra_env = {}) {
    agent_ = std::make_unique<AgentHarness>(std::vector<std::string>{"agent", "--parent=stdin"},
                                            extra_env);
    agent_->Start(Params());
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  std::string Log() const {
    const auto text = ReadFile(Path("log/worker-0.0.log"));
    return text.ok() ? *text : std::string(text.status().message());
  }

  // Waits until the node has written `text` (the coordinator hears every line).
  bool NodeSaid(const std::string& text) const {
    return coordinator_->WaitFor([&](const std::vector<v1::AgentMessage>& messages) {
      for (const v1::AgentMessage& message : messages) {
        for (const std::string& line : message.log().lines()) {
          if (absl::StartsWith(line, text)) return true;
        }
      }
      return false;
    });
  }

  std::vector<pid_t> Grandchildren() const {
    std::vector<pid_t> pids;
    for (const std::string& line : coordinator_->LogLines()) {
      pid_t pid = 0;
      if (absl::StartsWith(line, "grandchild ") && absl::SimpleAtoi(line.substr(11), &pid)) {
        pids.push_back(pid);
      }
    }
    return pids;
  }

  bool WaitGrandchildren() const {
    return coordinator_->WaitFor([&](const std::vector<v1::AgentMessage>& messages) {
      int count = 0;
      for (const v1::AgentMessage& message : messages) {
        for (const std::string& line : message.log().lines()) {
          count += absl::StartsWith(line, "grandchild ") ? 1 : 0;
        }
      }
      return count == 2;
    });
  }

  std::vector<std::string> RuntimeFiles() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Path("run"))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TempDir dir_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::unique_ptr<AgentHarness> agent_;
};

}  // namespace millrace

#endif  // CORE_AGENT_AGENT_TEST_FIXTURE_H_
