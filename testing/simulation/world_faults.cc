// What goes wrong in a simulated cluster, and how it is done.

#include <signal.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// ---- faults -------------------------------------------------------------------------------------

void World::Cut(Host* host) {
  ++host->cuts;
  ++host->cut_count;
  for (const auto& [number, connection] : site_.connections) {
    if (connection->client().host == host) connection->WatchPath();
  }
  for (const auto& [number, call] : site_.calls) {
    if (call->host() == host) call->WatchPath();
  }
}

void World::Heal(Host* host) {
  --host->cuts;
  host->healed_at = site_.queue.now();
  for (const auto& [number, connection] : site_.connections) {
    if (connection->client().host == host) connection->Resume();
  }
  for (const auto& [number, call] : site_.calls) {
    if (call->host() == host) call->Resume();
  }
}

void World::InjectHost(const Fault& fault, Host* host) {
  for (const SimAgent& agent : agents_) {
    if (agent.host() == host) site_.checks.OnFault(agent.executor());
  }
  if (fault.kind == Fault::Kind::kCutHost) {
    Cut(host);
    site_.queue.After(fault.duration, nullptr, [this, host] { Heal(host); });
    return;
  }
  std::vector<SimAgent*> there;
  for (SimAgent& agent : agents_) {
    if (agent.alive() && agent.host() == host) there.push_back(&agent);
  }
  if (fault.kind == Fault::Kind::kLoseHost) {
    host->lost = true;
    for (SimAgent* const agent : there) agent->Kill();
    LoseListeners(host);
    return;
  }
  if (fault.kind == Fault::Kind::kFillDisk) {
    ++host->full_disks;
    site_.queue.After(fault.duration, nullptr, [host] { --host->full_disks; });
    return;
  }
  Cut(host);
  std::vector<Listener*> listening;
  for (Listener& listener : listeners_) {
    if (listener.alive() && listener.host() == host) listening.push_back(&listener);
  }
  for (SimAgent* const agent : there) agent->Pause();
  for (Listener* const listener : listening) site_.queue.Stop(listener->process());
  site_.queue.After(fault.duration, nullptr, [this, host, there, listening] {
    for (SimAgent* const agent : there) agent->Unpause();
    for (Listener* const listener : listening) site_.queue.Continue(listener->process());
    Heal(host);
  });
}

void World::Inject(const Fault& fault) {
  if (phase_ == Phase::kEnded) return;
  site_.Tell("FAULT ", FaultText(fault));
  if (fault.kind == Fault::Kind::kJumpDate) {
    site_.queue.clock()->AdvanceWall(fault.duration);
    return;
  }
  if (fault.kind == Fault::Kind::kStopDriver) {
    any_pause_ = true;
    site_.checks.OnFaultOfAll();
    ++site_.driver_stops;
    site_.driver_stopped_at = site_.queue.now();
    site_.driver_stopped_until = site_.queue.now() + fault.duration;
    site_.queue.Stop(site_.driver);
    for (const auto& [number, connection] : site_.connections) connection->WatchPath();
    for (const auto& [number, call] : site_.calls) call->WatchPath();
    site_.queue.After(fault.duration, nullptr,
                      [this, driver = site_.driver] { site_.queue.Continue(driver); });
    return;
  }
  if (fault.kind >= Fault::Kind::kBreakCall && fault.kind != Fault::Kind::kFillDisk) {
    InjectListening(fault);
    return;
  }
  if (fault.kind == Fault::Kind::kDuplicateAgent) {
    site_.queue.After(absl::ZeroDuration(), site_.driver,
                      [this, &fault] { StartAgent(fault.executor, AnyHost()); });
    return;
  }
  if (fault.kind == Fault::Kind::kRestartNode) {
    site_.queue.After(absl::ZeroDuration(), site_.driver, [this, &fault] {
      if (site_.plane == nullptr) return;
      const auto restarted = plane_->operators().RestartNode(fault.executor, "simulated");
      if (restarted.ok()) site_.checks.OnOperatorRestart(fault.executor);
      site_.Tell("RestartNode: ", restarted.status().ToString());
      AfterPlane();
    });
    return;
  }
  SimAgent* const agent = AgentOf(fault.executor);
  if (agent == nullptr) return;
  site_.checks.OnFault(fault.executor);
  switch (fault.kind) {
    case Fault::Kind::kKillNode:
      agent->KillNode(SIGKILL);
      break;
    case Fault::Kind::kExitNode:
      agent->ExitNode(fault.code, absl::OkStatus());
      break;
    case Fault::Kind::kStopNode:
      agent->StopNode();
      site_.queue.After(fault.duration, nullptr, [agent] { agent->ContinueNode(); });
      break;
    case Fault::Kind::kKillAgent:
      agent->Kill();
      break;
    case Fault::Kind::kLoseExecutor:
      untold_.insert(agent);
      agent->Kill();
      break;
    case Fault::Kind::kStopAgent:
      agent->StopProcess();
      site_.queue.After(fault.duration, nullptr, [agent] { agent->ContinueProcess(); });
      break;
    case Fault::Kind::kBreakConnection:
      agent->BreakConnection();
      break;
    case Fault::Kind::kSlowReader:
      agent->ReadNothingFor(fault.duration);
      break;
    default:
      InjectHost(fault, agent->host());
  }
}

// ---- agents that listen -------------------------------------------------------------------------

void World::StartListening() {
  for (int id = 0; id < plan_.nodes; ++id) {
    Host* const host = &hosts_[id % plan_.hosts];
    source_.SetPlace(id, absl::StrCat(host->name, ":", 7000 + id));
    site_.queue.After(random_.Between(absl::ZeroDuration(), absl::Seconds(2)), nullptr,
                      [this, host, place = source_.place(id)] { ListenAt(host, place); });
  }
  site_.queue.After(random_.Between(absl::ZeroDuration(), absl::Seconds(1)), site_.driver,
                    [this] { adopter_->Start(); });
}

Listener* World::ListenAt(Host* host, const std::string& address) {
  if (host->lost || site_.listeners.contains(address)) return nullptr;
  return &listeners_.emplace_back(&site_, host, address, [this](int executor, Listener* parent) {
    return StartAgent(executor, parent->host(), parent);
  });
}

Listener* World::Listen(Host* host) {
  return ListenAt(host, absl::StrCat(host->name, ":", 8000 + listeners_.size()));
}

Listener* World::ListenerOf(int executor) {
  const auto found = site_.listeners.find(source_.place(executor));
  return found == site_.listeners.end() ? nullptr : found->second;
}

void World::TellSource() {
  if (!plan_.resolver_pushes) return;
  site_.queue.After(random_.Between(absl::Milliseconds(1), absl::Milliseconds(200)), site_.driver,
                    [this] {
                      if (adopter_ != nullptr) adopter_->Ask();
                    });
}

// Their slots get agents elsewhere, as pods do.
void World::LoseListeners(Host* host) {
  for (Listener& listener : listeners_) {
    if (listener.host() == host) listener.Kill();
  }
  for (int id = 0; id < plan_.nodes; ++id) {
    const std::string place = source_.place(id);
    if (place.substr(0, place.find(':')) != host->name) continue;
    const absl::Duration after = random_.Between(absl::Seconds(1), absl::Seconds(20));
    last_fault_ = std::max(last_fault_, site_.queue.now() + after);
    site_.queue.After(after, nullptr, [this, id] {
      source_.SetPlace(id, Listen(AnyHost())->address());
      TellSource();
    });
  }
}

// Another one listens on the same address in the end.
void World::EndListener(const Fault& fault) {
  Listener* const listener = ListenerOf(fault.executor);
  if (listener == nullptr) return;
  Host* const host = listener->host();
  const std::string address = listener->address();
  listener->Kill();
  const bool strange = fault.kind == Fault::Kind::kLoseListener;
  site_.queue.After(strange ? absl::Milliseconds(50) : fault.duration, nullptr,
                    [this, host, address, strange, duration = fault.duration] {
                      Listener* const next = ListenAt(host, address);
                      if (next != nullptr && strange) next->ServeAnother(duration);
                    });
}

void World::InjectListening(const Fault& fault) {
  const int id = fault.executor;
  const auto after = [&](std::function<void()> body) {
    site_.queue.After(fault.duration, nullptr, [this, body = std::move(body)] {
      body();
      TellSource();
    });
  };
  switch (fault.kind) {
    case Fault::Kind::kBreakCall:
      if (adopter_ != nullptr) adopter_->Break(id);
      return;
    case Fault::Kind::kKillDriver:
      KillDriver(fault.duration);
      return;
    case Fault::Kind::kKillListener:
    case Fault::Kind::kLoseListener:
      site_.checks.OnFault(id);
      EndListener(fault);
      return;
    case Fault::Kind::kFillStateDisk:
      ++full_state_disks_;
      LimitState(random_.Number(0, 300));
      after([this] {
        if (--full_state_disks_ == 0) LimitState(std::nullopt);
      });
      return;
    case Fault::Kind::kFailResolver:
      source_.Fail(1);
      after([this] { source_.Fail(-1); });
      break;
    case Fault::Kind::kHideMember:
      source_.Hide(id, 1);
      after([this, id] { source_.Hide(id, -1); });
      break;
    case Fault::Kind::kDoubleMember:
      // Both are an error at the start of a cluster.
      site_.checks.OnFault(id);
      site_.checks.OnFault((id + 1) % plan_.nodes);
      source_.Name(id, source_.place((id + 1) % plan_.nodes));
      after([this, id] { source_.Name(id, ""); });
      break;
    case Fault::Kind::kMoveMember: {
      site_.checks.OnFault(id);
      source_.Name(id, Listen(AnyHost())->address());
      after([this, id] { source_.Name(id, ""); });
      break;
    }
    case Fault::Kind::kFlapMember: {
      // An agent that cannot be heard just then is left for the other place.
      site_.checks.OnFault(id);
      const std::string other = Listen(AnyHost())->address();
      absl::Duration at;
      for (bool there = true; at < fault.duration; there = !there) {
        site_.queue.After(at, nullptr, [this, id, name = there ? other : ""] {
          source_.Name(id, name);
          TellSource();
        });
        at += random_.Between(absl::Milliseconds(200), absl::Seconds(4));
      }
      after([this, id] { source_.Name(id, ""); });
      break;
    }
    default:
      return;
  }
  TellSource();
}

}  // namespace millrace::simulation
