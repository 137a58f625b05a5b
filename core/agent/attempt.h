// File: core/agent/attempt.h
//
// One attempt of an agent's node.
//
// Defines: Attempt.

#ifndef CORE_AGENT_ATTEMPT_H_
#define CORE_AGENT_ATTEMPT_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/agent/node/node_runner.h"
#include "core/agent/node/sidecar_runner.h"
#include "core/base/json.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// From the moment at which the agent may start its node until another attempt takes its place, or
// the agent is over. Thread safety: the loop's thread.
struct Attempt {
  enum class Gpus { kNone, kClaiming, kClaimed };

  // The program was started and something of it is left.
  [[nodiscard]] bool alive() const { return runner != nullptr && runner->alive(); }
  // To the program, or kept for it until Launched(). Beyond a bound those kept are dropped.
  void Push(const Json& frame);
  void Launched();
  // What the program and its sidecars published; absent: nothing.
  [[nodiscard]] std::optional<v1::NodeEndpoints> Published() const;
  void StopSidecars();

  Gpus gpus = Gpus::kNone;
  std::unique_ptr<NodeRunner> runner;  // null: not launched yet, or retired
  std::string context_path;            // from the launch
  std::vector<std::unique_ptr<SidecarRunner>> sidecars;
  std::map<std::string, std::string> sidecar_urls;  // by name
  std::optional<v1::NodeEndpoints> endpoints;       // of the program
  std::optional<v1::NodeUpdate> last_update;        // sent again with every Register
  bool restart_asked = false;                       // by the coordinator: another attempt follows
  absl::Status error;  // once the agent waits for another attempt: how this one ended

 private:
  std::vector<Json> early_pushes_;
};

}  // namespace millrace

#endif  // CORE_AGENT_ATTEMPT_H_
