// File: millrace/adopting_launcher.h
//
// Agents that already listen, on hosts or in pods (`millrace-agent agent --listen`), where a
// resolver says they are. docs/hosts.md and docs/kubernetes.md show the whole.
//
// Defines: AdoptingLauncherOptions, AdoptingLauncher, ClusterShape, ShapeOf().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto resolver, KubernetesResolver::Create(...));
//   millrace::AdoptingLauncher launcher(*resolver, {.secret = {.dir = "/etc/millrace/agent"}});
//   MILLRACE_ASSIGN_OR_RETURN(millrace::ClusterSpec members, resolver->cluster_spec());
//   MILLRACE_ASSIGN_OR_RETURN(millrace::ClusterShape shape, millrace::ShapeOf(members));
//   MILLRACE_ASSIGN_OR_RETURN(
//       auto cluster, millrace::Cluster::Run(launcher, millrace::NodeProgram::File("digits_node"),
//                                            {.num_executors = shape.num_executors,
//                                             .num_ps = shape.num_ps,
//                                             .master_node = shape.master_node,
//                                             .eval_node = shape.eval_node}));
//
// The slot worker:2 gets the agent that the resolver names for task 2 of job "worker". When the
// resolver names another address, because a pod was replaced, the new agent is adopted into the
// slot with a higher attempt, and within max_restarts the node starts again there.
#ifndef MILLRACE_ADOPTING_LAUNCHER_H_
#define MILLRACE_ADOPTING_LAUNCHER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/adoption_options.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/launcher.h"
#include "millrace/membership.h"
#include "millrace/secret_place.h"

namespace millrace {

struct AdoptingLauncherOptions {
  // The secret that the agents have. It is read for each adoption, so that it may be replaced;
  // drivers need no key.
  SecretPlace secret;
  // What the coordinator binds: agents dial back to it.
  std::string bind_address = "0.0.0.0";
  // The host name or address at which agents reach the coordinator. Empty: the address of this
  // driver that each agent sees on its call, which is right unless addresses are translated in
  // between.
  std::string driver_host;
  // How often a source that cannot push is asked.
  absl::Duration poll_interval = WatchOptions().poll_interval;
  AdoptionOptions adoption;
  // Called with one line for a person once the cluster has waited for a while, which says for what
  // and why, and again when the wait is over. Runs on the launcher's thread and must not block.
  // Unset: a warning in the log.
  std::function<void(const std::string& line)> on_note;
};

// One thread, "mr-adopter", makes every decision; gRPC's threads and the resolver's watch hand it
// what they hear. A resolver that fails or an agent that is not there yet is not an error: the
// launcher waits for it up to ClusterOptions::reservation_timeout, and the error after that says
// for each slot what was missing. An agent with another secret or version, an address that is given
// twice, and a resolver that refuses are errors at once.
//
// Ownership: borrows the resolver, which must outlive it.
class AdoptingLauncher : public Launcher {
 public:
  AdoptingLauncher(ClusterResolver& resolver, AdoptingLauncherOptions options);
  ~AdoptingLauncher() override;

  // Returns an error if the secret cannot be read or the watch cannot be started; everything else
  // is reported by the events.
  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override;
  absl::Status Relaunch(const AgentTicket& ticket) override;
  void Stop(absl::Duration grace) override;
  [[nodiscard]] bool AgentsOutliveDriver() const override { return true; }
  void Leave() override;
  [[nodiscard]] std::string DriverBindAddress() const override { return options_.bind_address; }
  [[nodiscard]] bool SharesDriverFolders() const override { return false; }

 private:
  class Board;  // the slots of one cluster and the thread that serves them
  struct State;
  std::shared_ptr<Board> CurrentBoard();

  ClusterResolver& resolver_;
  const AdoptingLauncherOptions options_;
  const std::unique_ptr<State> state_;
};

// The options of a cluster that has exactly the tasks of a spec.
struct ClusterShape {
  int num_executors = 0;
  int num_ps = 0;
  std::string master_node;
  bool eval_node = false;
};

// Returns INVALID_ARGUMENT, naming the job, for a job other than ps, chief, master, evaluator and
// worker, for a second chief, master or evaluator, for indices with gaps, and for a spec without a
// chief, master or worker.
[[nodiscard]] absl::StatusOr<ClusterShape> ShapeOf(const ClusterSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_ADOPTING_LAUNCHER_H_
