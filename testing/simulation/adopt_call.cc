#include "testing/simulation/adopt_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/simulation/listener.h"

namespace millrace::simulation {
namespace {

// As core/cluster/adoption_call.cc and core/agent/modes/adopt_server.cc have them.
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);
constexpr absl::Duration kKeepalive = absl::Seconds(6);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

}  // namespace

std::shared_ptr<AdoptCall> AdoptCall::Dial(Site* site, Host* host, const std::string& address,
                                           const v1::Hold& hold, Callbacks callbacks) {
  std::shared_ptr<AdoptCall> call(new AdoptCall(site, host, std::move(callbacks)));
  site->calls[call->number_] = call.get();
  site->queue.After(3 * call->Latency(), site->driver,
                    [call, address, hold] { call->Arrive(address, hold); });
  return call;
}

AdoptCall::AdoptCall(Site* site, Host* host, Callbacks callbacks)
    : site_(site),
      host_(host),
      callbacks_(std::move(callbacks)),
      number_(site->next_call++),
      random_(site->plan.seed, {8, number_}) {
  down_.to = site->driver;
}

AdoptCall::~AdoptCall() { site_->calls.erase(number_); }

void AdoptCall::Arrive(const std::string& address, const v1::Hold& hold) {
  if (driver_ended_) return;
  if (!host_->reachable()) {
    site_->queue.After(kConnectTimeout, down_.to, [self = shared_from_this(), address] {
      self->DriverEnds(absl::UnavailableError(absl::StrCat("no answer from ", address)));
    });
    return;
  }
  const auto found = site_->listeners.find(address);
  if (found == site_->listeners.end()) {
    DriverEnds(absl::UnavailableError(absl::StrCat("nobody listens on ", address)));
    return;
  }
  listener_ = found->second;
  up_.to = listener_->process();
  v1::AdoptRequest request;
  *request.mutable_hold() = hold;
  Send(std::move(request));
}

// ---- ways ---------------------------------------------------------------------------------------

absl::Duration AdoptCall::Latency() {
  return random_.Between(absl::Microseconds(50), site_->plan.latency);
}

void AdoptCall::Push(Way* way, Body body) {
  way->last = std::max(way->last, site_->queue.now() + Latency());
  way->waiting.emplace_back(way->last, std::move(body));
  Pump(way);
}

void AdoptCall::Pump(Way* way) {
  if (way->due || way->waiting.empty() || !host_->reachable()) return;
  way->due = true;
  site_->queue.After(way->waiting.front().first - site_->queue.now(), way->to,
                     [way, self = shared_from_this()] {
                       way->due = false;
                       if (way->waiting.empty() || !self->host_->reachable()) return;
                       const Body body = std::move(way->waiting.front().second);
                       way->waiting.pop_front();
                       self->Pump(way);
                       body();
                     });
}

// ---- the driver's end ---------------------------------------------------------------------------

void AdoptCall::Send(v1::AdoptRequest request) {
  if (driver_ended_ || listener_ == nullptr) return;
  Push(&up_, [this, request = std::move(request)] {
    if (!listener_ended_) listener_->seat().OnRequest(shared_from_this(), request);
  });
}

void AdoptCall::Cancel() {
  if (driver_ended_) return;
  if (listener_ != nullptr) Push(&up_, [this] { ListenerEnds(); });
  DriverEnds(absl::CancelledError("cancelled"));
}

void AdoptCall::DriverEnds(const absl::Status& status) {
  if (std::exchange(driver_ended_, true)) return;
  site_->queue.After(absl::ZeroDuration(), down_.to,
                     [self = shared_from_this(), status] { self->callbacks_.on_done(status); });
}

// ---- the agent's end ----------------------------------------------------------------------------

void AdoptCall::Send(v1::AdoptEvent event) {
  if (closed_ || listener_ended_) return;
  Push(&down_, [this, event = std::move(event)] {
    if (!driver_ended_) callbacks_.on_event(event);
  });
}

void AdoptCall::Close(const absl::Status& status) {
  if (std::exchange(closed_, true) || listener_ended_) return;
  Push(&down_, [this, status] { DriverEnds(status); });
  site_->queue.After(absl::Milliseconds(1), up_.to,
                     [self = shared_from_this()] { self->ListenerEnds(); });
}

void AdoptCall::ListenerEnds() {
  if (std::exchange(listener_ended_, true)) return;
  listener_->seat().OnGone(shared_from_this());
}

// ---- the network --------------------------------------------------------------------------------

void AdoptCall::Break() {
  up_.waiting.clear();
  DriverDied();
  ListenerDied();
}

void AdoptCall::DriverDied() {
  if (listener_ == nullptr) return;
  Push(&up_, [this] { ListenerEnds(); });
}

void AdoptCall::ListenerDied() {
  down_.waiting.clear();
  Push(&down_, [this] { DriverEnds(absl::UnavailableError("the call broke")); });
}

void AdoptCall::Resume() {
  Pump(&up_);
  Pump(&down_);
}

void AdoptCall::WatchPath() {
  const int cuts = host_->cut_count;
  const int stops = site_->driver_stops;
  const auto broken = [this, cuts, stops] {
    return cuts == host_->cut_count && stops == site_->driver_stops &&
           (!host_->reachable() || down_.to->stopped());
  };
  site_->queue.After(random_.Between(kKeepaliveTimeout, kKeepalive + kKeepaliveTimeout), down_.to,
                     [self = shared_from_this(), broken] {
                       if (!broken()) return;
                       self->DriverDied();
                       self->DriverEnds(absl::UnavailableError("no keepalive"));
                     });
  if (listener_ == nullptr) return;
  site_->queue.After(random_.Between(kKeepaliveTimeout, kKeepalive + kKeepaliveTimeout), up_.to,
                     [self = shared_from_this(), broken] {
                       if (!broken()) return;
                       self->ListenerDied();
                       self->ListenerEnds();
                     });
}

}  // namespace millrace::simulation
