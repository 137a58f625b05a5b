// File: core/cli/slurm/srun_launcher.h
//
// Agents as the tasks of one Slurm step: srun starts them on the hosts of the job in which this
// process runs.
//
// Defines: SrunLauncherOptions, SrunLauncher.
#ifndef CORE_CLI_SLURM_SRUN_LAUNCHER_H_
#define CORE_CLI_SLURM_SRUN_LAUNCHER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "millrace/launcher.h"

namespace millrace::cli {

struct SrunLauncherOptions {
  std::string srun_path;
  std::string agent_path;  // on every host
  std::string job_id;
  int job_tasks = 0;                      // as many as the job was asked for
  int job_hosts = 1;                      // with more agents than these, some share one
  std::vector<std::string> srun_options;  // before the agent
  // The host name or address at which agents reach the coordinator. Empty: the address of this host
  // from which srun reached them (SLURM_LAUNCH_NODE_IPADDR).
  std::string driver_host;
  std::string bind_address = "0.0.0.0";
  // Called with what srun has to say, a line each. Runs on the launcher's thread.
  std::function<void(const std::string& line)> on_note;
};

// The k-th task takes slot k, so that Slurm's distribution decides which slots are on which host.
// All agents are told the same line: srun hands its stdin to every task. That line has the
// cluster's token and key, which are in no argv, environment or file (docs/security.md).
//
// The end of srun's stdin, when this process ends however it does, ends all agents. One thread,
// "mr-srun", reads what srun writes and reaps it. An agent that ended is not started again:
// Relaunch() returns FAILED_PRECONDITION. Thread safety and blocking: as Launcher.
class SrunLauncher : public Launcher {
 public:
  explicit SrunLauncher(SrunLauncherOptions options);
  ~SrunLauncher() override;

  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override;
  absl::Status Relaunch(const AgentTicket& ticket) override;
  void Stop(absl::Duration grace) override;
  [[nodiscard]] std::string DriverBindAddress() const override { return options_.bind_address; }

  // What Slurm did to the agents, which explains better than they can why they have ended, once
  // Stop() has returned: it could not start them, ended them (DEADLINE_EXCEEDED: the time limit),
  // or srun was killed. OK: nothing of this.
  [[nodiscard]] absl::Status Verdict() const;

 private:
  class Step;

  const SrunLauncherOptions options_;
  std::shared_ptr<Step> step_;  // null until Launch()
};

}  // namespace millrace::cli

#endif  // CORE_CLI_SLURM_SRUN_LAUNCHER_H_
