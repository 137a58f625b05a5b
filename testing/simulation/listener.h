// File: testing/simulation/listener.h
//
// An agent that listens on a host: `millrace-agent agent --listen` without processes and sockets.
// Whom it serves is decided by its real AdoptionSeat.
//
// Defines: kCluster, Listener.

#ifndef TESTING_SIMULATION_LISTENER_H_
#define TESTING_SIMULATION_LISTENER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/modes/adoption_seat.h"
#include "core/process/exit_status.h"
#include "core/proto/adopt.pb.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/sim_agent.h"
#include "testing/simulation/site.h"

namespace millrace::simulation {

// The cluster of a run.
inline constexpr absl::string_view kCluster = "simulated";

// Lives as long as the run, also after its end. Thread safety: not thread-safe.
class Listener final : private AdoptionSeat::Owner {
 public:
  // An agent for the slot of `executor`, as a child of this one.
  using Spawn = std::function<SimAgent*(int executor, Listener* parent)>;

  // Listens at once. One that listens at the address must have ended.
  Listener(Site* site, Host* host, std::string address, Spawn spawn);
  ~Listener() override = default;

  void Kill();  // its agent ends with it
  // Another cluster has it for so long.
  void ServeAnother(absl::Duration duration);
  void OnAgentExit(const ExitStatus& exit, const absl::Status& error);

  [[nodiscard]] bool alive() const { return process_.alive(); }
  [[nodiscard]] Process* process() { return &process_; }
  [[nodiscard]] Host* host() const { return host_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] AdoptionSeat& seat() { return seat_; }

 private:
  class Stranger;

  // AdoptionSeat::Owner:
  absl::StatusOr<int64_t> StartAgent(const v1::Hold& hold, const v1::StartAgent& start) override;
  void RedirectAgent(const v1::Redirect& redirect) override;
  void EndAgent(bool now) override;
  void SetUse(SlotUse use) override;
  void Refused(const std::string& who, Refusal refusal, const absl::Status& why) override;
  void Left() override {}

  Site* const site_;
  Host* const host_;
  const std::string address_;
  const Spawn spawn_;
  Process process_;
  AdoptionSeat seat_;
  SimAgent* agent_ = nullptr;  // of the present adoption
  bool strange_ = false;       // that one is another cluster's
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_LISTENER_H_
