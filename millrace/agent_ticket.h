// File: millrace/agent_ticket.h
//
// What an agent is started with.
//
// Defines: AgentTicket.
//
// Thread safety: ordinary values.

#ifndef MILLRACE_AGENT_TICKET_H_
#define MILLRACE_AGENT_TICKET_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace millrace {

// What an agent needs to reach its coordinator, and which slot to take.
struct AgentTicket {
  int executor_id = 0;
  std::string coordinator_address;  // host:port
  std::string cluster_id;
  std::string ca_pem;
  // A client certificate of the cluster with its key. Secret, as the token is: both travel by
  // stdin, a 0600 file or an encrypted call, never by argv or environment.
  std::string identity_pem;
  std::string token;
  std::string working_dir;  // of the node; empty: the agent's own
  // The slot's role, for launchers that find agents by it, and whether its node may be started
  // again elsewhere.
  std::string job_name;
  int task_index = 0;
  bool restarts = false;
  // The host under which the node is announced; empty: the agent finds it out.
  std::string advertise;
  // How long the agent tries to reach its coordinator for the first time. Zero: a minute.
  absl::Duration connect_timeout;
  // Other agents of the cluster are on its host, and it shares a connection to the coordinator with
  // those of them that are told so too.
  bool share_connection = false;
  // What there is of the slot's agent where a driver takes a cluster over (Cluster::Resume).
  enum class Standing {
    kNew,       // none has had the slot, though one may be about to: it is found, or started
    kTaken,     // one has the slot, or may have it: it is found, or is gone
    kReplaced,  // the one that had it is gone, and another is to have it: as kNew, as Relaunch()
    kEnded,     // nothing is to be done
  };
  Standing standing = Standing::kNew;
  // Where a driver before has found that agent (Launcher::Events::on_found); empty: not known.
  std::string place;
  // The id with which that agent has registered (AgentExit::agent_id); empty: not known.
  std::string agent_id;
  // Counts the drivers of a cluster that can be resumed, from 1: an agent heeds none that is lower
  // than one it has heard. 0: the cluster has this driver only.
  uint64_t driver_epoch = 0;
};

}  // namespace millrace

#endif  // MILLRACE_AGENT_TICKET_H_
