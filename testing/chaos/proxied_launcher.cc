#include "testing/chaos/proxied_launcher.h"

#include "absl/strings/str_cat.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace::chaos {

absl::Status ProxiedLauncher::Launch(const std::vector<AgentTicket>& tickets, Events events) {
  std::vector<AgentTicket> redirected = tickets;
  for (AgentTicket& ticket : redirected) MILLRACE_RETURN_IF_ERROR(Redirect(&ticket));
  return launcher_.Launch(redirected, std::move(events));
}

absl::Status ProxiedLauncher::Relaunch(const AgentTicket& ticket) {
  AgentTicket redirected = ticket;
  MILLRACE_RETURN_IF_ERROR(Redirect(&redirected));
  return launcher_.Relaunch(redirected);
}

bool ProxiedLauncher::CutAll(int executor_id) {
  TcpFaultProxy* const proxy = Find(executor_id);
  if (proxy != nullptr) proxy->CutAll();
  return proxy != nullptr;
}

bool ProxiedLauncher::HoldAll(int executor_id, absl::Duration duration) {
  TcpFaultProxy* const proxy = Find(executor_id);
  if (proxy != nullptr) proxy->HoldAll(duration);
  return proxy != nullptr;
}

absl::Status ProxiedLauncher::Redirect(AgentTicket* ticket) {
  MILLRACE_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(ticket->coordinator_address));
  TcpFaultProxy* proxy = Find(ticket->executor_id);
  if (proxy == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(auto started,
                              TcpFaultProxy::Start(address.port, [](bool) { return TcpFault(); }));
    MutexLock lock(&mu_);
    proxy = (proxies_[ticket->executor_id] = std::move(started)).get();
  }
  ticket->coordinator_address = absl::StrCat("127.0.0.1:", proxy->port());
  return absl::OkStatus();
}

TcpFaultProxy* ProxiedLauncher::Find(int executor_id) {
  MutexLock lock(&mu_);
  const auto found = proxies_.find(executor_id);
  return found == proxies_.end() ? nullptr : found->second.get();
}

}  // namespace millrace::chaos
