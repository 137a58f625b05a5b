// File: millrace/adopting_launcher.h
//
// Agents that already listen, on hosts or in pods (`millrace-agent agent --listen`), where a
// resolver says they are. docs/hosts.md and docs/kubernetes.md show the whole.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto resolver, KubernetesResolver::Create(...));
//   millrace::AdoptingLauncher launcher(resolver.get(),
//                                       {.secret = {.dir = "/etc/millrace/agent"}});
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
#include "millrace/secret_place.h"

namespace millrace {

struct AdoptingLauncherOptions {
  // The secret that the agents have. Read afresh for each adoption, so that it may be replaced;
  // drivers need no key.
  SecretPlace secret;
  // What the coordinator binds: agents dial back to it.
  std::string bind_address = "0.0.0.0";
  // Under which host agents reach the coordinator: a name or an address. Empty: as each agent sees
  // this driver's end of its call, which is right wherever no address is translated in between.
  std::string driver_host;
  // How often a source that cannot push is asked.
  absl::Duration poll_interval = absl::Seconds(5);
  AdoptionOptions adoption;
  // One line for a person: for whom the cluster waits and why, once it has waited for a while, and
  // that this is over. From the launcher's thread; must not block. Unset: a warning in the log.
  std::function<void(const std::string& line)> on_note;
};

// One thread, "mr-adopter", makes every decision; gRPC's threads and the resolver's watch hand it
// what they hear. A resolver that fails, or an agent that is not there yet, is no error: it is
// waited for, up to ClusterOptions::reservation_timeout, whose error then says for each slot what
// was missing. An agent of another secret or version, an address given twice, or a resolver that
// refuses is one at once.
//
// Ownership: borrows the resolver, which must outlive it.
class AdoptingLauncher : public Launcher {
 public:
  AdoptingLauncher(ClusterResolver* resolver, AdoptingLauncherOptions options);
  ~AdoptingLauncher() override;

  // Returns the error of reading the secret, or of a watch that cannot be; everything else is told
  // by the events.
  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override;
  absl::Status Relaunch(const AgentTicket& ticket) override;
  void Stop(absl::Duration grace) override;
  [[nodiscard]] std::string DriverBindAddress() const override { return options_.bind_address; }
  [[nodiscard]] bool SharesDriverFolders() const override { return false; }

 private:
  class Board;  // the slots of one cluster and the thread that serves them
  struct State;
  std::shared_ptr<Board> CurrentBoard();

  ClusterResolver* const resolver_;
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

// Returns INVALID_ARGUMENT, naming it, for a job that no cluster has (there are ps, chief or
// master, evaluator and worker), for a second chief, master or evaluator, for indices with gaps,
// and for a spec without a chief, master or worker.
[[nodiscard]] absl::StatusOr<ClusterShape> ShapeOf(const ClusterSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_ADOPTING_LAUNCHER_H_
