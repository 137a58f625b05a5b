// File: millrace/local_launcher.h
//
// Agents on this machine: one `millrace-agent` process per slot, children of the driver.
//
// Defines: LocalLauncherOptions, LocalLauncher.
#ifndef MILLRACE_LOCAL_LAUNCHER_H_
#define MILLRACE_LOCAL_LAUNCHER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/launcher.h"

namespace millrace {

struct LocalLauncherOptions {
  // The agent's executable. Empty: $MILLRACE_AGENT, then the driver's Bazel runfiles, then beside
  // the driver's own executable, then PATH.
  std::string agent_path;
  // A descriptor of this process that is the stdin of one node, in each of its attempts: nobody
  // copies it, so that the program reads, waits and comes to its end as if it had been started
  // here. Not owned; open while a cluster runs, and no terminal, which the node could not read.
  // -1: no node's. The stdin of all others is empty.
  int stdin_fd = -1;
  int stdin_executor = 0;  // whose
};

// One thread watches the agents: it reads what they say and reaps them. Agents get a process group
// of their own (Ctrl-C reaches the driver only) and end when the driver does, however it dies:
// their stdin closes.
class LocalLauncher : public Launcher {
 public:
  explicit LocalLauncher(LocalLauncherOptions options = {});
  ~LocalLauncher() override;

  // Returns NOT_FOUND naming every place looked at if there is no agent, RESOURCE_EXHAUSTED or the
  // system's error if a process cannot be made.
  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override;
  absl::Status Relaunch(const AgentTicket& ticket) override;
  absl::Status Pause() override;
  void Resume() override;
  void Stop(absl::Duration grace) override;
  [[nodiscard]] std::string DriverBindAddress() const override { return "127.0.0.1"; }

  // The agent that Launch would start. Returns NOT_FOUND as Launch.
  [[nodiscard]] static absl::StatusOr<std::string> FindAgent(const LocalLauncherOptions& options);

 private:
  class Watch;  // the agents of one cluster and the thread that watches them
  struct State;
  std::shared_ptr<Watch> CurrentWatch();

  const LocalLauncherOptions options_;
  const std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_LOCAL_LAUNCHER_H_
