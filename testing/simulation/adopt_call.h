// File: testing/simulation/adopt_call.h
//
// One Adopt call without sockets: a driver's end as AdoptionCall has it, and an agent's end as
// AdoptServer has it. Messages of each direction arrive in order, after a while, unless the call
// breaks.
//
// Defines: AdoptCall.

#ifndef TESTING_SIMULATION_ADOPT_CALL_H_
#define TESTING_SIMULATION_ADOPT_CALL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/agent/modes/adopt_stream.h"
#include "core/proto/adopt.pb.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/random.h"
#include "testing/simulation/site.h"

namespace millrace::simulation {

class Listener;

class AdoptCall final : public AdoptStream, public std::enable_shared_from_this<AdoptCall> {
 public:
  struct Callbacks {  // on the driver
    std::function<void(const v1::AdoptEvent&)> on_event;
    std::function<void(const absl::Status&)> on_done;  // once, last
  };
  static std::shared_ptr<AdoptCall> Dial(Site* site, Host* host, const std::string& address,
                                         const v1::Hold& hold, Callbacks callbacks);
  ~AdoptCall() override;

  // ---- the driver's end ----
  void Send(v1::AdoptRequest request);
  void Cancel();

  // ---- the network ----
  void Break();
  void DriverDied();
  void ListenerDied();
  void Resume();     // the host is back
  void WatchPath();  // the host is cut off, or the driver stopped: keepalives are not answered
  [[nodiscard]] Host* host() const { return host_; }
  [[nodiscard]] const Listener* listener() const { return listener_; }

  // ---- AdoptStream ----
  void Send(v1::AdoptEvent event) override;
  void Close(const absl::Status& status) override;
  [[nodiscard]] const std::string& peer_host() const override { return peer_host_; }

 private:
  using Body = std::function<void()>;
  struct Way {
    std::deque<std::pair<absl::Duration, Body>> waiting;
    absl::Duration last;
    bool due = false;
    Process* to = nullptr;
  };

  AdoptCall(Site* site, Host* host, Callbacks callbacks);
  void Arrive(const std::string& address, const v1::Hold& hold);
  absl::Duration Latency();
  void Push(Way* way, Body body);
  void Pump(Way* way);
  void DriverEnds(const absl::Status& status);
  void ListenerEnds();

  Site* const site_;
  Host* const host_;
  const Callbacks callbacks_;
  const uint64_t number_;
  const std::string peer_host_ = "driver";
  Random random_;
  Way up_;
  Way down_;
  Listener* listener_ = nullptr;  // that took the call
  bool driver_ended_ = false;
  bool listener_ended_ = false;
  bool closed_ = false;  // by the listener
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_ADOPT_CALL_H_
