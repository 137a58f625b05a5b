#include "testing/simulation/world.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/watch.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "testing/simulation/wire_message.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kOverdue = absl::Seconds(3);

std::string ViewText(const v1::SlotStatus& slot) {
  return absl::StrCat(NodeName(slot), " ", SlotStateText(slot.state()), ", attempt ",
                      slot.attempt(), ", host ", slot.host(), ", address ", slot.address(),
                      ", pid ", slot.pid(), slot.attached() ? "" : ", detached",
                      slot.stopped() ? ", stopped" : "", slot.has_restart_at() ? ", due" : "",
                      slot.has_error() ? absl::StrCat(", ", slot.error().message()) : "");
}

// A slot of whose present attempt the agent does not know; -1: none.
int UnheardOf(const SimAgent& agent, const ClusterStatus& status) {
  for (const SlotStatus& slot : status.slots) {
    if (agent.attempt_of(slot.executor_id) != slot.attempt) return slot.executor_id;
  }
  return -1;
}

// Takes the answer to an operator.
class Answer final : public AttachStream {
 public:
  void Enqueue(const grpc::ByteBuffer& message) override {
    value_ = ParseMessage<v1::CoordinatorMessage>(message).kv().value();
  }
  void Close(const absl::Status& /*status*/) override {}
  void Flush() override {}
  [[nodiscard]] const std::string& value() const { return value_; }

 private:
  std::string value_;
};

}  // namespace

World::World(const Plan& plan, bool keep_trace)
    : plan_(plan),
      site_(plan, keep_trace),
      random_(plan.seed, {5}),
      source_(plan),
      by_slot_(plan.nodes) {
  options_ = plan.options;
  options_.clock = site_.queue.clock();
  options_.observer = this;
  options_.random = [random = Random(plan.seed, {6})]() mutable { return random.Next(); };
  site_.after_plane = [this] { AfterPlane(); };
  for (int i = 0; i < plan.hosts; ++i) AddHost();
  for (const Fault& fault : plan.faults) last_fault_ = std::max(last_fault_, fault.end());
  if (plan.resumable) {
    ::signal(SIGXFSZ, SIG_IGN);  // how a full disk is made: see LimitState()
    folder_ = NewStateFolder();
  }
  MILLRACE_CHECK(StartDriver());
}

World::~World() {
  if (plane_ != nullptr) plane_->Shutdown();  // while all that its streams lead to is there
  if (folder_.empty()) return;
  LimitState(std::nullopt);
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

// While a key is signed, outside of the plane's lock, whatever else may happen.
absl::StatusOr<std::string> World::Sign() {
  if (signing_ == 0 && random_.OneIn(4)) {
    ++signing_;
    site_.queue.RunFor(random_.Between(absl::Microseconds(100), absl::Milliseconds(30)));
    --signing_;
  }
  return std::string("certificate");
}

void World::AfterPlane() {
  plane_->Deliver();
  const absl::Duration wait = std::max(plane_->TimeToTick(), absl::ZeroDuration());
  const absl::Duration at = site_.queue.now() + wait;
  if (at >= tick_at_) return;
  tick_at_ = at;
  site_.queue.After(wait, site_.driver, [this, number = ++tick_] { Tick(number); });
}

void World::Tick(uint64_t number) {
  if (number != tick_ || site_.plane == nullptr) return;
  tick_at_ = absl::InfiniteDuration();
  plane_->Tick();
  AfterPlane();
}

Outcome World::Run() {
  site_.trace.Count(plan_.seed);
  if (plan_.launcher == Plan::Launcher::kListening) StartListening();
  for (int id = 0; id < plan_.nodes && adopter_ == nullptr; ++id) {
    site_.queue.After(random_.Between(absl::ZeroDuration(), absl::Seconds(2)), site_.driver,
                      [this, id] { StartAgent(id, &hosts_[id % plan_.hosts]); });
  }
  for (const Fault& fault : plan_.faults) {
    site_.queue.After(fault.at, nullptr, [this, &fault] { Inject(fault); });
  }
  site_.queue.After(kDriverLooks, site_.driver, [this] { Drive(); });
  if (plan_.launcher == Plan::Launcher::kSpark) {
    site_.queue.After(absl::Seconds(5), site_.driver, [this] { SupplySpark(); });
  }
  for (int i = 0; i < 2; ++i) {
    Viewer& viewer = viewers_.emplace_back();
    viewer.cursor = view_->Resume({.level = v1::WATCH_LEVEL_ALL});
    Look(&viewer, absl::Seconds(i == 0 ? 1 : 10), absl::Seconds(i == 0 ? 5 : 60));
  }
  AfterPlane();
  const absl::Duration end = std::max(plan_.length, last_fault_) + kStopTime + kLastAgents +
                             absl::Minutes(5) + ResumeTime();
  while (phase_ != Phase::kEnded && !site_.checks.violation().has_value() &&
         site_.queue.RunNext(end)) {
  }
  if (phase_ != Phase::kEnded) site_.checks.Fail("every call ends", "the driver still waits");
  if (!site_.checks.violation().has_value()) CheckEnd();
  return {.violation = site_.checks.violation(),
          .hash = site_.trace.hash(),
          .events = site_.queue.events(),
          .cause = plane_ == nullptr ? absl::OkStatus() : plane_->driver().first_cause(),
          .trace = site_.trace.lines()};
}

// Long after the last fault, in a cluster that has not failed.
void World::CheckHealth() {
  if (!plane_->driver().first_cause().ok() ||
      site_.queue.now() < last_fault_ + absl::Minutes(1) + ResumeTime()) {
    return;
  }
  // An agent that was started, and that its driver had not heard of when it was killed, is known to
  // nobody if the resolver names another place by then. Without it the reservation ends in time.
  // So it does where agents that listen get no second chance, and one is lost before its node ran.
  const bool no_second = adopter_ != nullptr && options_.failure.restart.max_restarts == 0;
  if (!all_ran_ && (drivers_ > 1 || no_second)) return;
  const ClusterStatus status = plane_->Snapshot();
  for (const SlotStatus& slot : status.slots) {
    if (slot.state == SlotState::kRunning && slot.attached) continue;
    site_.checks.Fail("what should go on goes on",
                      absl::StrCat(slot.role.ToString(), " is ", SlotStateName(slot.state),
                                   slot.attached ? "" : ", detached", ": ", slot.error.ToString()));
  }
  const ClusterSpec spec = plane_->driver().spec();
  for (const SimAgent& agent : agents_) {
    if (!agent.alive() || !agent.runs()) continue;
    const std::string who = absl::StrCat("agent ", agent.pid(), " of ", agent.executor());
    if (agent.pid() != status.slots[agent.executor()].agent_pid) {
      site_.checks.Fail("no node is left behind", who + " has no slot, and its node runs");
    } else if (agent.epoch() != status.epoch || !(agent.spec() == spec)) {
      site_.checks.Fail("all come to the same spec",
                        absl::StrCat(who, " is at epoch ", agent.epoch(), " of ", status.epoch));
    } else if (const int other = UnheardOf(agent, status); other >= 0) {
      site_.checks.Fail("all hear of each new attempt",
                        absl::StrCat(who, " knows of attempt ", agent.attempt_of(other), " of ",
                                     status.slots[other].role.ToString(), ", which is at ",
                                     status.slots[other].attempt));
    } else if (agent.Overdue() > kOverdue) {
      site_.checks.Fail("every call ends",
                        absl::StrCat(who, ": a request of its node is ",
                                     absl::FormatDuration(agent.Overdue()), " overdue"));
    }
  }
}

void World::CheckEnd() {
  if (site_.plane != nullptr) {
    const ClusterStatus status = plane_->Snapshot();
    for (Viewer& viewer : viewers_) CheckViewer(viewer, status);
    if (phase_ == Phase::kEnded && plane_->driver().WaitEnded(NodeFilter::kAll, {}).ok()) {
      CheckRequests();
    }
  }
  // The driver's process ends, and its launcher with it.
  if (plan_.driver_dies) {
    for (const auto& [number, connection] : site_.connections) connection->Break();
    for (const auto& [number, call] : site_.calls) call->DriverDied();
    if (adopter_ != nullptr) site_.queue.Kill(site_.driver);
    adopter_.reset();
  } else if (site_.plane != nullptr) {
    StopDriver();
  }
  site_.plane = nullptr;
  if (plan_.launcher == Plan::Launcher::kLocal) {
    for (SimAgent& agent : agents_) agent.ParentGone();
  }
  const absl::Duration end = std::max(site_.queue.now(), last_fault_) + kLastAgents + ResumeTime();
  while (!site_.checks.violation().has_value() && site_.queue.RunNext(end)) {
  }
  if (site_.checks.LiveNodes() > 0) {
    site_.checks.Fail("nothing is left", absl::StrCat(site_.checks.LiveNodes(), " nodes live"));
  }
  for (const SimAgent& agent : agents_) {
    if (agent.alive()) {
      site_.checks.Fail("nothing is left",
                        absl::StrCat("agent ", agent.pid(), " of ", agent.executor(), " lives"));
    }
  }
  // Agents that had come back just then have taken theirs along.
  if (!plan_.driver_dies && plane_ != nullptr && plane_->operators().KvWaits() > 0) {
    site_.checks.Fail("nothing is left", "gets of the key-value store wait");
  }
  for (Listener& listener : listeners_) {
    if (listener.alive() && !listener.seat().HolderText().empty()) {
      site_.checks.Fail("nothing is left",
                        absl::StrCat(listener.address(), " has ", listener.seat().HolderText()));
    }
  }
}

// What is left of requests once all nodes have ended.
void World::CheckRequests() {
  int64_t sent = 0;
  int64_t answered = 0;
  for (const SimAgent& agent : agents_) {
    sent += agent.adds_sent();
    answered += agent.adds_answered();
  }
  v1::KvRequest request;
  request.set_key(std::string(kCounter));
  request.mutable_get();
  const auto answer = std::make_shared<Answer>();
  plane_->operators().EndKv(plane_->operators().Kv(request, answer));
  AfterPlane();
  int64_t counted = 0;
  const bool there = absl::SimpleAtoi(answer->value(), &counted);
  site_.Tell("adds: ", answered, " of ", sent, " answered, ", counted, " counted");
  if ((there || answered > 0) && (counted < answered || counted > sent)) {
    site_.checks.Fail("an add counts once", absl::StrCat(sent, " were asked for, ", answered,
                                                         " answered, ", counted, " counted"));
  }
}

// ---- who starts agents --------------------------------------------------------------------------

SimAgent* World::StartAgent(int executor, Host* host, Listener* parent) {
  if (parent == nullptr && (phase_ == Phase::kEnded || host->lost)) return nullptr;
  const int64_t pid = next_pid_++;
  SimAgent& agent = agents_.emplace_back(
      &site_, host, executor, pid,
      [this, parent](SimAgent* gone, const ExitStatus& exit) {
        if (parent != nullptr) {
          parent->OnAgentExit(exit, gone->end_error());
        } else {
          OnAgentExit(gone, exit);
        }
      },
      [this](SimAgent* one) { OnNodeDeath(one); });
  by_slot_[executor].push_back(&agent);
  site_.Tell("agent ", pid, " for ", executor, " starts on ", host->name);
  if (plan_.launcher == Plan::Launcher::kLocal) {
    plane_->agents().AgentStarted(executor, pid);
    AfterPlane();
  }
  if (host->full_disks > 0) site_.checks.OnFault(executor);
  agent.Start();
  return &agent;
}

SimAgent* World::AgentOf(int executor) const {
  return by_slot_[executor].empty() ? nullptr : by_slot_[executor].back();
}

bool World::HasAgent(int executor) const {
  return std::any_of(by_slot_[executor].begin(), by_slot_[executor].end(),
                     [](const SimAgent* agent) { return agent->alive(); });
}

Host* World::AddHost() {
  Host& host = hosts_.emplace_back(Host{.name = absl::StrCat("h", hosts_.size())});
  site_.hosts[host.name] = &host;
  return &host;
}

Host* World::AnyHost() {
  std::vector<Host*> there;
  for (Host& host : hosts_) {
    if (host.reachable()) there.push_back(&host);
  }
  if (there.empty()) return AddHost();
  return there[random_.Number(0, static_cast<int64_t>(there.size()) - 1)];
}

void World::OnAgentExit(SimAgent* agent, const ExitStatus& exit) {
  if (agent->host()->lost || untold_.contains(agent)) return;  // nobody is there who could tell
  if (plan_.launcher == Plan::Launcher::kSpark) {
    TellAgentGone(agent, exit, 0);
    return;
  }
  site_.queue.After(random_.Between(absl::Milliseconds(1), absl::Milliseconds(20)), site_.driver,
                    [this, agent, exit] {
                      if (site_.plane == nullptr) return;
                      plane_->agents().AgentExited({.executor_id = agent->executor(),
                                                    .pid = agent->pid(),
                                                    .exit = exit,
                                                    .status = agent->end_error()});
                      AfterPlane();
                    });
}

// By the executor's JVM, which the network must let through.
void World::TellAgentGone(SimAgent* agent, const ExitStatus& exit, int tries) {
  site_.queue.After(random_.Between(absl::Milliseconds(1), absl::Milliseconds(500)), site_.driver,
                    [this, agent, exit, tries] {
                      if (site_.plane == nullptr || agent->host()->lost || tries > 20) return;
                      if (!agent->host()->reachable() || agent->process()->stopped()) {
                        site_.queue.After(absl::Seconds(1), nullptr, [this, agent, exit, tries] {
                          TellAgentGone(agent, exit, tries + 1);
                        });
                        return;
                      }
                      v1::AgentGoneRequest request;
                      request.set_executor_id(agent->executor());
                      request.set_agent_id(agent->agent_id());
                      if (exit.kind == ExitStatus::Kind::kSignaled) {
                        request.set_signal(exit.signal);
                      } else {
                        request.set_exit_code(exit.code);
                      }
                      v1::AgentGoneReply reply;
                      const absl::Status told = plane_->agents().AgentGone(request, &reply);
                      AfterPlane();
                      if (told.ok() && reply.awaits_agent())
                        StartAgent(agent->executor(), agent->host());
                    });
}

void World::OnRelaunch(int executor_id) {
  site_.Tell("the coordinator asks for another agent of ", executor_id);
  if (dying_) return;
  if (plan_.launcher == Plan::Launcher::kListening) {
    site_.queue.After(absl::Milliseconds(1), site_.driver, [this, executor_id] {
      if (adopter_ != nullptr) adopter_->Relaunch(executor_id);
    });
    return;
  }
  if (plan_.launcher == Plan::Launcher::kSpark) {
    site_.queue.After(random_.Between(absl::Milliseconds(300), absl::Seconds(3)), site_.driver,
                      [this, executor_id] { StartAgent(executor_id, AnyHost()); });
    return;
  }
  site_.queue.After(absl::Milliseconds(5), site_.driver, [this, executor_id] {
    if (SimAgent* const old = AgentOf(executor_id); old != nullptr && old->alive()) old->Kill();
    site_.queue.After(absl::Milliseconds(25), site_.driver,
                      [this, executor_id] { StartAgent(executor_id, &hosts_[0]); });
  });
}

// Spark runs a lost task again.
void World::SupplySpark() {
  if (phase_ == Phase::kGathering || phase_ == Phase::kRunning) {
    for (int id = 0; id < plan_.nodes; ++id) {
      const SlotState state = site_.checks.slot(id).state;
      const bool open = state <= SlotState::kStarted || state == SlotState::kFailed ||
                        state == SlotState::kLost || !site_.checks.slot(id).attached;
      if (open && state != SlotState::kFinished && !HasAgent(id)) StartAgent(id, AnyHost());
    }
  }
  site_.queue.After(absl::Seconds(5), site_.driver, [this] { SupplySpark(); });
}

void World::OnRestart(const NodeRestart& restart) { site_.Tell(RestartText(restart)); }

void World::OnFailure(const absl::Status&) {
  if (dying_) return;
  const ClusterStatus status = plane_->Snapshot();
  const bool lives =
      std::any_of(status.slots.begin(), status.slots.end(), [](const SlotStatus& slot) {
        return slot.state >= SlotState::kConnected && slot.state <= SlotState::kDraining;
      });
  site_.checks.OnFirstCause(*status.first_cause, lives, any_pause_);
}

// A node has died, of a fault: its peers may notice, and end.
void World::OnNodeDeath(SimAgent* agent) {
  if (!plan_.echoes) return;
  for (SimAgent& peer : agents_) {
    if (&peer == agent || !peer.runs() || !random_.OneIn(4)) continue;
    site_.queue.After(random_.Between(absl::Milliseconds(20), absl::Milliseconds(1500)),
                      peer.process(), [this, peer = &peer, root = agent->executor()] {
                        if (!peer->runs()) return;
                        site_.checks.OnEcho(peer->executor(), root);
                        peer->ExitNode(1, absl::UnavailableError(
                                              absl::StrCat("the connection to ", root, " broke")));
                      });
  }
}

// ---- readers ------------------------------------------------------------------------------------

void World::Look(Viewer* viewer, absl::Duration least, absl::Duration most) {
  if (random_.OneIn(5)) {  // it comes back over another connection
    viewer->cursor = view_->Resume({.level = v1::WATCH_LEVEL_ALL,
                                    .resume_after = viewer->view.seq(),
                                    .incarnation = viewer->view.incarnation()});
  }
  if (view_->HasNews(viewer->cursor)) {
    const absl::Status applied = viewer->view.Apply(view_->Next(&viewer->cursor));
    if (!applied.ok()) site_.checks.Fail("a viewer follows", applied.ToString());
  }
  site_.queue.After(random_.Between(least, most), site_.driver,
                    [this, viewer, least, most] { Look(viewer, least, most); });
}

void World::CheckViewer(const Viewer& seen, const ClusterStatus& status) {
  Viewer viewer = seen;
  if (view_->HasNews(viewer.cursor)) {
    const absl::Status applied = viewer.view.Apply(view_->Next(&viewer.cursor));
    if (!applied.ok()) site_.checks.Fail("a viewer follows", applied.ToString());
  }
  if (viewer.view.spec_epoch() != status.epoch ||
      viewer.view.slots().size() != status.slots.size()) {
    site_.checks.Fail("a viewer converges",
                      absl::StrCat("epoch ", viewer.view.spec_epoch(), " of ", status.epoch));
    return;
  }
  for (size_t i = 0; i < status.slots.size(); ++i) {
    v1::SlotStatus truth;
    ToSlotProto(status.slots[i], &truth);
    const std::string there = ViewText(truth);
    const std::string seen_there = ViewText(viewer.view.slots()[i]);
    if (seen_there != there) {
      site_.checks.Fail("a viewer converges",
                        absl::StrCat("it sees ", seen_there, "; there is ", there));
    }
  }
}

}  // namespace millrace::simulation
