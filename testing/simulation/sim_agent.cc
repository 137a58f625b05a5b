#include "testing/simulation/sim_agent.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/agent/link/coordinator_link.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"

namespace millrace::simulation {
namespace {

// As in core/agent.
constexpr absl::Duration kMaxDial = absl::Seconds(20);
constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
constexpr absl::Duration kRegisterTimeout = absl::Seconds(30);
constexpr absl::Duration kFinishTimeout = absl::Seconds(15);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
constexpr absl::Duration kHeartbeat = absl::Seconds(1);
constexpr absl::Duration kStopTimeout = absl::Seconds(10);
constexpr absl::Duration kOrphanGrace = absl::Seconds(5);
// For a dial and an answer.
constexpr absl::Duration kMoment = absl::Seconds(3);

constexpr int kExitAgentFailed = 3;

// One that an agent before has had, if there is any.
int TakePort(Host* host) {
  if (host->free_ports.empty()) return host->next_port++;
  return host->free_ports.extract(host->free_ports.begin()).value();
}

absl::Status FullDisk() { return absl::ResourceExhaustedError("No space left on device"); }

constexpr ExitStatus Exited(int code) { return {.kind = ExitStatus::Kind::kExited, .code = code}; }
constexpr ExitStatus Killed() { return {.kind = ExitStatus::Kind::kSignaled, .signal = SIGKILL}; }

}  // namespace

SimAgent::SimAgent(Site* site, Host* host, int executor, int64_t pid, OnExit on_exit,
                   OnNodeDeath on_node_death)
    : site_(site),
      host_(host),
      executor_(executor),
      pid_(pid),
      on_exit_(std::move(on_exit)),
      on_node_death_(std::move(on_node_death)),
      random_(site->plan.seed,
              {4, static_cast<uint64_t>(executor),
               static_cast<uint64_t>(absl::ToInt64Milliseconds(site->queue.now()))}),
      agent_id_(absl::StrCat("agent-", pid)),
      port_(TakePort(host)),
      address_(absl::StrCat(host->name, ":", port_)) {}

SimAgent::~SimAgent() = default;

std::string SimAgent::Name() const { return absl::StrCat("agent ", pid_, " of ", executor_); }

void SimAgent::After(absl::Duration delay, std::function<void()> body) {
  site_->queue.After(delay, &process_, std::move(body));
}

// ---- the link -----------------------------------------------------------------------------------

void SimAgent::Start() {
  if (host_->full_disks > 0) {  // it has no folder
    end_error_ = FullDisk();
    After(absl::Milliseconds(1), [this] { Quit(Exited(kExitAgentFailed)); });
    return;
  }
  StartGiveUpTimer(site_->plan.resumable ? site_->plan.options.lease : kConnectTimeout);
  Dial();
}

void SimAgent::Dial() { TryDial(site_->queue.now()); }

void SimAgent::TryDial(absl::Duration since) {
  if (link_ended_) return;
  if (host_->reachable() && !site_->driver->stopped() && site_->plane != nullptr) {
    After(3 * random_.Between(absl::Microseconds(300), site_->plan.latency + absl::Milliseconds(1)),
          [this] { OpenStream(); });
  } else if (site_->plane == nullptr && host_->reachable()) {
    Retry();  // refused
  } else if (site_->queue.now() - since > kMaxDial) {
    Retry();
  } else {
    After(absl::Milliseconds(500), [this, since] { TryDial(since); });
  }
}

void SimAgent::OpenStream() {
  if (link_ended_) return;
  const uint64_t generation = ++generation_;
  connection_ =
      Connection::Open(site_, {.process = &process_,
                               .host = host_,
                               .executor = executor_,
                               .on_message =
                                   [this, generation](const v1::CoordinatorMessage& message) {
                                     if (generation != generation_ || link_ended_) return;
                                     if (message.has_registered()) {
                                       OnRegistered(message.registered());
                                     } else {
                                       OnMessage(message);
                                     }
                                   },
                               .on_done =
                                   [this, generation](const absl::Status& status) {
                                     if (generation == generation_ && !link_ended_)
                                       OnStreamDone(status);
                                   }});
  v1::AgentMessage message;
  v1::Register& hello = *message.mutable_register_();
  hello.set_protocol(2);
  hello.set_agent_id(agent_id_);
  hello.set_executor_id(executor_);
  hello.set_host(host_->name);
  hello.set_pid(pid_);
  hello.set_address(address_);
  hello.set_public_key(std::string(65, '\4'));
  if (executor_ % 2 == 0) {  // the others are of an earlier version
    hello.set_takes_columns(true);
    hello.set_spec_epoch(epoch_);
  }
  if (reported_.has_value()) *hello.mutable_node() = *reported_;
  connection_->Send(std::move(message));
  After(kRegisterTimeout, [this, generation] {
    if (generation == generation_ && !stream_ready_) Reattach();
  });
}

void SimAgent::Reattach() {
  if (link_ended_ || connection_ == nullptr) return;
  reattaching_ = true;
  connection_->Cancel();
}

void SimAgent::OnStreamDone(const absl::Status& done) {
  const bool was_ready = std::exchange(stream_ready_, false);
  if (was_ready) stream_lost_at_ = site_->queue.now();
  connection_.reset();
  ++generation_;
  absl::Status status = done;
  if (std::exchange(reattaching_, false)) {
    status = absl::UnavailableError(status.message());
  } else if (finishing_ && was_ready && (status.ok() || absl::IsCancelled(status))) {
    OnLinkEnd(absl::OkStatus());
    return;
  } else if (status.ok()) {
    status = absl::CancelledError("the coordinator closed the stream");
  }
  site_->Tell(Name(), ": its stream ended: ", status.ToString());
  if (IsFinalAttachError(status.code())) {
    OnLinkEnd(status);
    return;
  }
  if (was_ready) StartGiveUpTimer(lease_);
  Retry();
}

void SimAgent::Retry() {
  After(backoff_ * (0.8 + 0.4 * static_cast<double>(random_.Number(0, 999)) / 1000.0),
        [this] { Dial(); });
  backoff_ = std::min(backoff_ * 1.6, kMaxBackoff);
}

void SimAgent::StartGiveUpTimer(absl::Duration after) {
  const uint64_t timer = ++give_up_;
  After(after, [this, timer] {
    if (timer == give_up_ && !stream_ready_) OnLinkEnd(absl::UnavailableError("gave up"));
  });
}

void SimAgent::Heartbeat() {
  After(kHeartbeat, [this] { Heartbeat(); });
  if (stream_ready_ && !finishing_) connection_->SendHeartbeat();
}

void SimAgent::Send(v1::AgentMessage message) {
  if (stream_ready_) connection_->Send(std::move(message));
}

void SimAgent::FinishLink() {
  if (link_ended_) return;
  finishing_ = true;
  if (!stream_ready_) return;
  connection_->HalfClose();
  const uint64_t generation = generation_;
  After(kFinishTimeout, [this, generation] {
    if (generation == generation_) OnLinkEnd(absl::OkStatus());
  });
}

void SimAgent::OnLinkEnd(const absl::Status& status) {
  if (std::exchange(link_ended_, true)) return;
  stream_ready_ = false;
  if (connection_ != nullptr) connection_->Cancel();
  if (state_ == State::kEnded) {
    Quit(Exited(exit_code_.value_or(0)));
  } else {
    Fail(status.ok() ? absl::CancelledError("the coordinator ended the stream") : status);
  }
}

// ---- the agent ----------------------------------------------------------------------------------

void SimAgent::OnRegistered(const v1::Registered& message) {
  if (stream_ready_) return;
  stream_ready_ = true;
  ++give_up_;
  backoff_ = absl::Milliseconds(100);
  lease_ = DurationFromProto(message.lease());
  if (!registered_) {
    registered_ = true;
    attempt_ = message.attempt();
    restarts_ = message.restarts();
    state_ = State::kRegistered;
    Heartbeat();
  } else if (state_ == State::kRestarting && message.attempt() == attempt_ + 1) {
    OnStartAttempt(message.attempt());
  } else if (message.attempt() != attempt_) {
    Fail(absl::AbortedError("the coordinator gave the slot to another agent"));
  } else {
    if (reported_.has_value()) SendUpdate(*reported_);
    for (const auto& [id, request] : requests_) Send(request.message);
  }
  if (finishing_ && !link_ended_) FinishLink();
}

void SimAgent::OnMessage(const v1::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kSpec:
      OnSpec(message.spec());
      break;
    case v1::CoordinatorMessage::kStop:
      OnStop(message.stop());
      break;
    case v1::CoordinatorMessage::kStart:
      OnStartAttempt(message.start().attempt());
      break;
    case v1::CoordinatorMessage::kKv: {
      const auto request = requests_.find(message.kv().request_id());
      if (request == requests_.end()) break;
      if (request->second.message.kv().has_add()) ++adds_answered_;
      requests_.erase(request);
      break;
    }
    case v1::CoordinatorMessage::kBarrier:
      requests_.erase(message.barrier().request_id());
      break;
    default:
      break;
  }
}

void SimAgent::OnSpec(const v1::SpecUpdate& update) {
  const uint64_t before = epoch_;
  const absl::Status applied = ApplySpecUpdate(update, &epoch_, &spec_);
  site_->trace.Count(update.epoch());
  site_->checks.OnSpec(executor_, before, std::max(epoch_, update.epoch()), applied);
  if (!applied.ok()) {
    Reattach();
    return;
  }
  // A whole spec says nothing of attempts: those that begin later are told.
  const auto& roles = site_->plan.options.roles;
  const bool whole = IsWholeSpec(update);
  attempts_.resize(roles.size());
  for (int id = 0; whole && id < static_cast<int>(roles.size()); ++id) {
    attempts_[id] = site_->checks.slot(id).attempt;
  }
  for (const v1::TaskChange& change : update.changes()) {
    const auto role =
        std::find(roles.begin(), roles.end(), NodeRole{change.job_name(), change.task_index()});
    uint32_t& heard = attempts_[role - roles.begin()];
    heard = std::max(heard, change.attempt());
  }
  if (epoch_ != before) MaybeLaunch();
}

uint32_t SimAgent::attempt_of(int executor) const {
  return attempts_.empty() ? 0 : attempts_[executor];
}

void SimAgent::OnStop(const v1::Stop& stop) {
  if (exit_code_.has_value()) return;
  if (stop.restart()) {
    if (stop_asked_ || !launched_) return;
    restart_asked_ = true;
  } else {
    stop_asked_ = true;
    if (state_ == State::kRestarting) {
      v1::NodeUpdate update = *reported_;
      update.clear_next_address();
      Conclude(std::move(update), 1);
      return;
    }
    if (!launched_) {
      v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_EXITED);
      update.mutable_exit()->set_code(0);
      Conclude(std::move(update), 0);
      return;
    }
  }
  if (!NodeAlive()) return;  // its end is under way
  if (state_ != State::kDraining) {
    SendUpdate(MakeUpdate(v1::NODE_STATE_DRAINING));
    state_ = State::kDraining;
  }
  if (stop.now()) {
    EndNode(Killed());
  } else {
    StopRun(absl::Seconds(5));
  }
}

void SimAgent::OnStartAttempt(uint32_t attempt) {
  if (state_ != State::kRestarting || exit_code_.has_value()) return;
  attempt_ = attempt;
  state_ = State::kRegistered;
  restart_asked_ = false;
  launched_ = false;
  reported_.reset();
  MaybeLaunch();
}

void SimAgent::MaybeLaunch() {
  if (epoch_ == 0 || launched_ || stop_asked_ || exit_code_.has_value() ||
      state_ != State::kRegistered) {
    return;
  }
  SendUpdate(MakeUpdate(v1::NODE_STATE_READY));
  if (host_->full_disks > 0) {
    OnLaunchFailed(FullDisk());
    return;
  }
  launched_ = true;
  nodes_.emplace_back();
  Node* const node = &nodes_.back();
  node->pid = pid_ * 100 + static_cast<int64_t>(nodes_.size());
  node->lingers = random_.OneIn(10);
  site_->Tell(Name(), ": its node ", node->pid, " begins, attempt ", attempt_);
  site_->checks.OnNodeStarted(executor_, attempt_, node->pid, [this] { return CannotKnow(); });
  After(random_.Between(absl::Milliseconds(2), absl::Milliseconds(200)),
        [this, node] { OnRunning(node); });
}

void SimAgent::OnLaunchFailed(const absl::Status& status) {
  v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_LAUNCH_FAILED);
  update.mutable_error()->set_code(static_cast<int>(status.code()));
  update.mutable_error()->set_message(std::string(status.message()));
  site_->Tell(Name(), ": its node does not begin: ", status.ToString());
  launched_ = true;
  nodes_.emplace_back().ended = true;
  if (!StayForAnother(&update)) Conclude(std::move(update), 1);
}

bool SimAgent::CannotKnow() const {
  if (process_.stopped() || !host_->reachable() || exit_code_.has_value()) return true;
  const absl::Duration now = site_->queue.now();
  absl::Duration back_at = std::max({host_->healed_at, continued_at_, deaf_until_});
  // A driver that is stopped just then tells it when it goes on.
  if (site_->driver_stopped_at < back_at + kMoment) {
    back_at = std::max(back_at, site_->driver_stopped_until);
  }
  if (now - back_at < kMoment) return true;
  const auto left = site_->left_at.find(executor_);
  if (left != site_->left_at.end() && now - left->second < kMoment) return true;
  // A driver that was killed meanwhile could not tell it; the next one can once it has dialled.
  const bool moved = site_->moved.contains(executor_);
  if (moved && !stream_ready_ && now - site_->driver_since < kMoment) return true;
  return !stream_ready_ && now - stream_lost_at_ > lease_ - kMoment;
}

void SimAgent::OnRunning(Node* node) {
  if (node->ended || state_ == State::kDraining) return;
  state_ = State::kRunning;
  SendUpdate(MakeUpdate(v1::NODE_STATE_RUNNING));
  if (site_->plan.options.input_mode == InputMode::kFeed) {
    v1::AgentMessage message;
    v1::NodeEndpoints& endpoints = *message.mutable_endpoints();
    endpoints.set_attempt(attempt_);
    endpoints.mutable_feed()->set_tcp(absl::StrCat("tcp://", address_));
    Send(std::move(message));
  }
  Live(node);
}

void SimAgent::StopRun(absl::Duration grace) {
  Node* const node = this->node();
  const auto kill = [this, node] {
    if (!node->ended) EndNode(Killed());
  };
  site_->queue.After(grace + absl::Seconds(1), &process_, kill);
  if (node->lingers) return;
  site_->queue.After(random_.Between(absl::Milliseconds(1), absl::Milliseconds(300)),
                     &node->process, [this, node] {
                       if (!node->ended) EndNode(Exited(0));
                     });
}

// The process of the node has ended; its agent notices.
void SimAgent::EndNode(const ExitStatus& exit) {
  Node* const node = this->node();
  node->ended = true;
  site_->queue.Kill(&node->process);
  site_->checks.OnNodeEnded(executor_, node->pid);
  site_->Tell(Name(), ": its node ", node->pid, " ends: ", DescribeExit(exit));
  After(absl::Milliseconds(1), [this, exit] { OnNodeEnded(exit); });
}

void SimAgent::OnNodeEnded(const ExitStatus& exit) {
  requests_.clear();
  v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_EXITED);
  if (exit.kind == ExitStatus::Kind::kSignaled) {
    update.mutable_exit()->set_signal(exit.signal);
  } else {
    update.mutable_exit()->set_code(exit.code);
  }
  absl::Status error = end_reason_.value_or(node()->error);
  if (node()->killed_as_stopped) error = absl::AbortedError("was stopped for too long");
  if (!error.ok()) {
    update.mutable_error()->set_code(static_cast<int>(error.code()));
    update.mutable_error()->set_message(std::string(error.message()));
  }
  const bool well = !end_reason_.has_value() && (exit.ok() || stop_asked_ || restart_asked_);
  if ((!well || restart_asked_) && StayForAnother(&update)) return;
  Conclude(std::move(update), well ? 0 : 1);
}

bool SimAgent::StayForAnother(v1::NodeUpdate* update) {
  if (!(restarts_ || restart_asked_) || stop_asked_ || end_reason_.has_value() ||
      exit_code_.has_value()) {
    return false;
  }
  update->set_next_address(address_);
  update->set_stopped_as_asked(restart_asked_);
  state_ = State::kRestarting;
  SendUpdate(*update);
  return true;
}

void SimAgent::Conclude(v1::NodeUpdate update, int exit_code) {
  if (state_ == State::kEnded) return;
  update.set_stopped_as_asked(stop_asked_ && !end_reason_.has_value());
  if (registered_) SendUpdate(std::move(update));
  state_ = State::kEnded;
  if (!exit_code_.has_value()) exit_code_ = exit_code;
  if (registered_ && !link_ended_ && *exit_code_ != 3) {
    FinishLink();
  } else {
    Quit(Exited(*exit_code_));
  }
}

void SimAgent::Fail(const absl::Status& status) {
  if (exit_code_.has_value()) return;
  site_->Tell(Name(), " fails: ", status.ToString());
  exit_code_ = 3;
  end_reason_ = status;
  if (!NodeAlive()) {
    Quit(Exited(3));
  } else if (absl::IsUnavailable(status) || absl::IsCancelled(status)) {
    StopRun(kOrphanGrace);
  } else {
    EndNode(Killed());
  }
}

void SimAgent::Quit(const ExitStatus& exit) {
  if (!process_.alive()) return;
  site_->Tell(Name(), " ends: ", DescribeExit(exit));
  if (NodeAlive()) {
    site_->checks.OnNodeEnded(executor_, node()->pid);
    node()->ended = true;
    site_->queue.Kill(&node()->process);
  }
  link_ended_ = true;
  ++generation_;
  if (connection_ != nullptr) connection_->ClientDied();
  connection_.reset();
  site_->queue.Kill(&process_);
  if (site_->plan.reuses_ports) host_->free_ports.insert(port_);
  on_exit_(this, exit);
}

v1::NodeUpdate SimAgent::MakeUpdate(v1::NodeState state) const {
  v1::NodeUpdate update;
  update.set_state(state);
  update.set_attempt(attempt_);
  if (launched_) update.set_pid(nodes_.back().pid);
  return update;
}

void SimAgent::SendUpdate(v1::NodeUpdate update) {
  reported_ = update;
  v1::AgentMessage message;
  *message.mutable_node() = std::move(update);
  Send(std::move(message));
}

// ---- faults -------------------------------------------------------------------------------------

void SimAgent::Kill() {
  const bool died = NodeAlive();
  Quit(Killed());
  if (died) on_node_death_(this);
}

void SimAgent::KillNode(int signal) {
  if (!NodeAlive() || !process_.alive()) return;
  EndNode({.kind = ExitStatus::Kind::kSignaled, .signal = signal});
  on_node_death_(this);
}

void SimAgent::ExitNode(int code, const absl::Status& error) {
  if (!NodeAlive() || !process_.alive() || node()->process.stopped() || state_ != State::kRunning) {
    return;
  }
  node()->error = error;
  EndNode(Exited(code));
  if (error.ok()) on_node_death_(this);
}

void SimAgent::StopNode() {
  if (!NodeAlive() || node()->stopped) return;
  Node* const node = this->node();
  node->stopped = true;
  site_->queue.Stop(&node->process);
  After(absl::Milliseconds(1), [this, node] {
    if (node->ended || state_ != State::kRunning) return;
    SendUpdate(MakeUpdate(v1::NODE_STATE_STOPPED));
    After(kStopTimeout, [this, node] {
      if (node->ended || !node->stopped) return;
      node->killed_as_stopped = true;
      EndNode(Killed());
      on_node_death_(this);
    });
  });
}

void SimAgent::ContinueNode() {
  if (nodes_.empty() || !node()->stopped) return;
  Node* const node = this->node();
  node->stopped = false;
  if (node->ended) return;
  site_->queue.Continue(&node->process);
  After(absl::Milliseconds(1), [this, node] {
    if (!node->ended && state_ == State::kRunning) SendUpdate(MakeUpdate(v1::NODE_STATE_RUNNING));
  });
}

void SimAgent::BreakConnection() {
  if (connection_ != nullptr) connection_->Break();
}

void SimAgent::ReadNothingFor(absl::Duration duration) {
  deaf_until_ = std::max(deaf_until_, site_->queue.now() + duration);
  if (connection_ != nullptr) connection_->ReadNothingFor(duration);
}

void SimAgent::Pause() {
  site_->queue.Stop(&process_);
  for (Node& node : nodes_) site_->queue.Stop(&node.process);
}

void SimAgent::StopProcess() { site_->queue.Stop(&process_); }

void SimAgent::ContinueProcess() {
  continued_at_ = site_->queue.now();
  site_->queue.Continue(&process_);
}

void SimAgent::Unpause() {
  ContinueProcess();
  for (Node& node : nodes_) site_->queue.Continue(&node.process);
}

void SimAgent::ParentGone() { Quit(Exited(0)); }

// ---- the program --------------------------------------------------------------------------------

absl::Duration SimAgent::Overdue() const {
  absl::Duration overdue = -absl::InfiniteDuration();
  if (!runs() || !stream_ready_) return overdue;
  for (const auto& [id, request] : requests_) {
    overdue = std::max(overdue, site_->queue.now() - request.due);
  }
  return overdue;
}

bool SimAgent::Waits() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [](const auto& request) { return request.second.message.has_barrier(); });
}

void SimAgent::Ask(v1::AgentMessage message, uint64_t id, absl::Duration timeout) {
  requests_[id] = {message, site_->queue.now() + timeout};
  Send(std::move(message));
}

// From time to time it uses the key-value store, or waits at a barrier.
void SimAgent::Live(Node* node) {
  site_->queue.After(
      random_.Between(absl::Seconds(2), absl::Seconds(40)), &node->process, [this, node] {
        if (node->ended || !process_.alive()) return;
        v1::AgentMessage message;
        const uint64_t id = next_request_++;
        const absl::Duration timeout = random_.Between(absl::ZeroDuration(), absl::Seconds(20));
        switch (random_.Number(0, 3)) {
          case 0:
            message.mutable_kv()->set_key(std::string(kCounter));
            message.mutable_kv()->set_add(1);
            ++adds_sent_;
            break;
          case 1:
            message.mutable_kv()->set_key(absl::StrCat("of-", executor_));
            message.mutable_kv()->set_set(absl::StrCat(attempt_));
            break;
          case 2:
            message.mutable_kv()->set_key(
                absl::StrCat("of-", random_.Number(0, 2 * site_->plan.nodes)));
            *message.mutable_kv()->mutable_get() = DurationToProto(timeout);
            break;
          default:
            if (Waits()) break;  // who arrives twice at one barrier has one answer
            message.mutable_barrier()->set_name(absl::StrCat("step-", random_.Number(0, 1)));
            *message.mutable_barrier()->mutable_timeout() = DurationToProto(timeout);
        }
        if (message.has_kv()) message.mutable_kv()->set_request_id(id);
        if (message.has_barrier()) message.mutable_barrier()->set_request_id(id);
        if (message.message_case() != v1::AgentMessage::MESSAGE_NOT_SET) {
          Ask(std::move(message), id, timeout);
        }
        Live(node);
      });
}

}  // namespace millrace::simulation
