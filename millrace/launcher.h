// File: millrace/launcher.h
//
// Where a cluster's agents come from.
//
// Defines: Launcher.
#ifndef MILLRACE_LAUNCHER_H_
#define MILLRACE_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "millrace/agent_exit.h"
#include "millrace/agent_ticket.h"

namespace millrace {

// Starts one agent per slot and knows when one is dead.
//
// Ownership: Cluster::Run borrows a launcher for the cluster's life. Thread safety: one caller at a
// time. `events` are called from Launch or the launcher's own thread, and not after Stop has
// returned. A launcher serves one cluster at a time.
class Launcher {
 public:
  struct Events {
    // The agent of this slot is a process now.
    std::function<void(int executor_id, int64_t pid)> on_started;
    // The same, where another driver is to look for it: AgentTicket::place of that one's ticket.
    // For launchers that find agents, after on_started.
    std::function<void(int executor_id, const std::string& place)> on_found;
    // It is gone for certain: its exit was seen, or it could not be started (pid 0).
    std::function<void(const AgentExit& exit)> on_exit;
    // The slot has no agent yet, for the reason given; the launcher goes on trying.
    std::function<void(int executor_id, const std::string& why)> on_awaited;
    // Agents have another driver of this cluster (AgentTicket::driver_epoch): ABORTED, naming it.
    std::function<void(const absl::Status& why)> on_taken_over;
  };

  virtual ~Launcher() = default;

  // Starts an agent for each ticket. Returns once they are starting, not running. An error means
  // that nothing was started, or that what was is ended again.
  virtual absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) = 0;
  // Starts another agent for a slot of the cluster that Launch serves; one that is there still is
  // killed first. Returns at once: what becomes of it is told by the events, an agent that could
  // not be started by on_exit with pid 0. Thread safety: from any thread, while Launch and Stop run
  // too. Returns UNIMPLEMENTED where somebody else starts agents again (the default),
  // FAILED_PRECONDITION if nothing is launched (any more).
  virtual absl::Status Relaunch(const AgentTicket& /*ticket*/) {
    return absl::UnimplementedError("this launcher does not start agents again");
  }
  // Stops all nodes where they are, as Ctrl-Z does, until Resume(). Their agents keep them for as
  // long as the driver is silent. Does not wait until they have stopped. Thread safety: from any
  // thread. Returns UNIMPLEMENTED where agents cannot be told (the default), FAILED_PRECONDITION if
  // nothing is launched (any more).
  virtual absl::Status Pause() {
    return absl::UnimplementedError("this launcher cannot pause its nodes");
  }
  virtual void Resume() {}
  // Ends every agent and removes what Launch made; after `grace` by force. Idempotent.
  virtual void Stop(absl::Duration grace) = 0;
  // Whether agents live on when this process dies, so that another driver can find them
  // (Cluster::Resume): Launch then heeds AgentTicket::standing.
  [[nodiscard]] virtual bool AgentsOutliveDriver() const { return false; }
  // Lets go of the agents without ending them, since another driver has them now; in place of
  // Stop(). Only where they outlive the driver.
  virtual void Leave() {}
  // The address at which these agents reach the driver: what the coordinator binds. "127.0.0.1" for
  // agents of this machine.
  [[nodiscard]] virtual std::string DriverBindAddress() const = 0;
  // Whether driver and agents share their folders. If so, an empty working directory means the
  // driver's, and otherwise the agent's own.
  [[nodiscard]] virtual bool SharesDriverFolders() const { return true; }
};

}  // namespace millrace

#endif  // MILLRACE_LAUNCHER_H_
