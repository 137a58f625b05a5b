// File: core/agent/modes/listen_mode.h
//
// `millrace-agent agent --listen HOST:PORT`: waits on a host or in a pod for a driver that adopts
// it, runs an agent for one slot of that driver's cluster, and is free again when that has ended.
//
// core/agent/modes/adoption_seat.h decides which driver that is.
//
// The agent itself is a child, `millrace-agent agent --parent=stdin`, so that nothing of one
// cluster is left for the next. It ends with this process, with its coordinator, or when it is
// released.

#ifndef CORE_AGENT_MODES_LISTEN_MODE_H_
#define CORE_AGENT_MODES_LISTEN_MODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/exit_codes.h"
#include "core/agent/modes/adopt_server.h"
#include "core/agent/modes/adoption_seat.h"
#include "core/agent/modes/listen_metrics.h"
#include "core/base/json_fwd.h"
#include "core/launch/agent_process.h"
#include "core/launch/agent_secret.h"
#include "core/metrics/metrics_server.h"
#include "core/net/socket_address.h"
#include "core/process/exit_status.h"
#include "core/proto/adopt.pb.h"

namespace millrace {

struct ListenOptions {
  HostPort address;  // port 0: any, told on stdout
  SecretPlace secret;
  std::string advertise;      // as `start`'s; empty: the host of `address`, unless it is a wildcard
  bool parent_stdin = false;  // end of stdin ends it
  std::string version;
  std::vector<std::string> environment;         // "NAME=value": what the node inherits
  std::optional<MetricsServerOptions> metrics;  // where Prometheus may ask; unset: nowhere
};

// Ownership: loop and reaper must outlive it. Thread safety: the loop's thread, which must be the
// main thread. Blocking: Start() binds and reads the secret; a secret that changed is read on the
// loop, and the port bound again, half a second at most.
class ListenMode final : private AdoptionSeat::Owner {
 public:
  ListenMode(EventLoop* loop, ChildReaper* reaper, ListenOptions options);
  ~ListenMode() override;
  ListenMode(const ListenMode&) = delete;
  ListenMode& operator=(const ListenMode&) = delete;

  // Listens, and prints the address on stdout, and that of its metrics. If it cannot listen on
  // both, it says why on stderr and the loop quits.
  void Start();
  // Ends the agent there is, and then the loop; a second call kills it.
  void OnSignal(int signal);
  // Returns the exit code.
  int Cleanup();

 private:
  // AdoptionSeat::Owner:
  absl::StatusOr<int64_t> StartAgent(const v1::Hold& hold, const v1::StartAgent& start) override;
  void RedirectAgent(const v1::Redirect& redirect) override;
  void EndAgent(bool now) override;
  void SetUse(SlotUse use) override;
  void Refused(const std::string& who, Refusal refusal, const absl::Status& why) override;
  void Left() override { Quit(kExitFinished); }

  absl::Status ServeMetrics();
  absl::Status Listen();
  void TakeSecret(AgentSecret secret);
  void CheckSecret();
  void SayRenewal();
  void OnCounts(const Json& event);
  void WatchAgent();
  void OnAgentExit(const ExitStatus& exit);
  void ParentEnds();
  void Quit(int exit_code);
  [[nodiscard]] std::string Advertised() const;

  EventLoop* const loop_;
  ChildReaper* const reaper_;
  ListenOptions options_;  // the port is set once it is bound
  const std::shared_ptr<ListenMetrics> numbers_;
  std::unique_ptr<MetricsServer> metrics_;  // null: nobody may ask
  AgentSecret secret_;
  bool renewal_said_ = false;    // of secret_
  absl::Status secret_problem_;  // told; why the present file is not taken
  std::unique_ptr<AdoptServer> server_;
  EventLoop::TimerId secret_timer_ = EventLoop::kNoTimer;
  EventLoop::TimerId kill_timer_ = EventLoop::kNoTimer;
  AdoptionSeat seat_;
  std::unique_ptr<AgentProcess> agent_;  // null: none runs
  std::string coordinator_;              // host:port, as agent_ was told last
  absl::Time refusals_since_;            // refusals are told ten a minute at most
  int refusals_ = 0;
  bool ending_ = false;
  int exit_code_ = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_LISTEN_MODE_H_
