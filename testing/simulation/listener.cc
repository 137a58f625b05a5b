#include "testing/simulation/listener.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/version.h"
#include "core/launch/adoption_id.h"
#include "testing/simulation/adopt_call.h"

namespace millrace::simulation {

// Another cluster's driver: it must not lose what it has.
class Listener::Stranger final : public AdoptStream {
 public:
  explicit Stranger(Site* site) : site_(site) {}
  void Send(v1::AdoptEvent /*event*/) override {}
  void Close(const absl::Status& status) override {
    if (!status.ok()) site_->checks.Fail("another cluster's agent stays", status.ToString());
  }
  [[nodiscard]] const std::string& peer_host() const override { return peer_host_; }

 private:
  Site* const site_;
  const std::string peer_host_ = "stranger";
};

Listener::Listener(Site* site, Host* host, std::string address, Spawn spawn)
    : site_(site),
      host_(host),
      address_(std::move(address)),
      spawn_(std::move(spawn)),
      seat_(host->name, std::string(kMillraceVersion), this, site->queue.clock()) {
  site_->listeners[address_] = this;
  site_->Tell("an agent listens on ", address_);
}

void Listener::Kill() {
  if (!process_.alive()) return;
  site_->Tell("the agent that listens on ", address_, " ends");
  site_->queue.Kill(&process_);
  site_->listeners.erase(address_);
  if (SimAgent* const agent = std::exchange(agent_, nullptr); agent != nullptr) {
    agent->ParentGone();
  }
  for (const auto& [number, call] : site_->calls) {
    if (call->listener() == this) call->ListenerDied();
  }
}

void Listener::ServeAnother(absl::Duration duration) {
  const auto driver = std::make_shared<Stranger>(site_);
  v1::AdoptRequest request;
  v1::Hold& hold = *request.mutable_hold();
  hold.set_protocol(1);
  hold.set_version(kMillraceVersion);
  hold.set_adoption_id(AdoptionId("another", "another", 0, 1));
  hold.set_number(1);
  hold.set_cluster_id("another");
  hold.set_driver("stranger");
  seat_.OnRequest(driver, request);
  request.mutable_start();
  seat_.OnRequest(driver, request);
  site_->queue.After(duration, &process_, [this] {
    strange_ = false;
    seat_.AgentEnded({});
  });
}

absl::StatusOr<int64_t> Listener::StartAgent(const v1::Hold& hold, const v1::StartAgent&) {
  if (agent_ != nullptr || strange_) {
    site_->checks.Fail("an agent that listens has one slot",
                       absl::StrCat(address_, " is to start another agent"));
  }
  if (hold.cluster_id() != kCluster) {
    strange_ = true;
    return 1;
  }
  agent_ = spawn_(hold.executor_id(), this);
  return agent_->pid();
}

void Listener::RedirectAgent(const v1::Redirect&) {
  site_->Tell(address_, " is redirected");  // to the same address: agents dial the driver there is
}

void Listener::EndAgent(bool now) {
  if (strange_) {
    site_->checks.Fail("another cluster's agent stays", absl::StrCat(address_, " is released"));
  }
  if (agent_ == nullptr) return;  // it is being reaped
  if (now) {
    agent_->Kill();
  } else {
    agent_->ParentGone();
  }
}

void Listener::OnAgentExit(const ExitStatus& exit, const absl::Status& error) {
  agent_ = nullptr;
  v1::Ended ended;
  if (exit.kind == ExitStatus::Kind::kSignaled) {
    ended.set_exit_signal(exit.signal);
  } else {
    ended.set_exit_code(exit.code);
  }
  ended.set_error_code(static_cast<int>(error.code()));
  ended.set_error_message(std::string(error.message()));
  site_->queue.After(absl::Milliseconds(1), &process_, [this, ended] { seat_.AgentEnded(ended); });
}

void Listener::SetUse(SlotUse use) { site_->trace.Count(static_cast<uint64_t>(use)); }

void Listener::Refused(const std::string& who, Refusal /*refusal*/, const absl::Status& why) {
  site_->Tell(address_, " refuses ", who, ": ", why.ToString());
}

}  // namespace millrace::simulation
