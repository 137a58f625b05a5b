// File: millrace/agent_ticket.h
//
// What an agent is started with.
//
// Defines: AgentTicket.
//
// Thread safety: ordinary values.

#ifndef MILLRACE_AGENT_TICKET_H_
#define MILLRACE_AGENT_TICKET_H_

#include <string>

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
};

}  // namespace millrace

#endif  // MILLRACE_AGENT_TICKET_H_
