// File: testing/chaos/proxied_launcher.h
//
// A launcher whose agents reach the coordinator through proxies, one a slot, which break their
// connections.
//
// Defines: ProxiedLauncher.

#ifndef TESTING_CHAOS_PROXIED_LAUNCHER_H_
#define TESTING_CHAOS_PROXIED_LAUNCHER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "millrace/agent_ticket.h"
#include "millrace/launcher.h"
#include "testing/ledger/tcp_fault_proxy.h"

namespace millrace::chaos {

// Thread safety: as Launcher; CutAll and HoldAll from any thread. Ownership: borrows the launcher.
class ProxiedLauncher final : public Launcher {
 public:
  explicit ProxiedLauncher(Launcher& launcher) : launcher_(launcher) {}

  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override;
  absl::Status Relaunch(const AgentTicket& ticket) override;
  absl::Status Pause() override { return launcher_.Pause(); }
  void Resume() override { launcher_.Resume(); }
  void Stop(absl::Duration grace) override { launcher_.Stop(grace); }
  [[nodiscard]] std::string DriverBindAddress() const override {
    return launcher_.DriverBindAddress();
  }
  [[nodiscard]] bool SharesDriverFolders() const override {
    return launcher_.SharesDriverFolders();
  }

  // False if the slot has no proxy yet.
  bool CutAll(int executor_id);
  bool HoldAll(int executor_id, absl::Duration duration);

 private:
  absl::Status Redirect(AgentTicket* ticket);
  TcpFaultProxy* Find(int executor_id);

  Launcher& launcher_;
  Mutex mu_;
  std::map<int, std::unique_ptr<TcpFaultProxy>> proxies_ ABSL_GUARDED_BY(mu_);  // by executor id
};

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_PROXIED_LAUNCHER_H_
