#include "testing/schedules/plane_agent.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/agent/link/coordinator_link.h"
#include "core/base/clock.h"
#include "core/base/thread_scheduler.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "testing/simulation/wire_message.h"

namespace millrace {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(60);
constexpr absl::Duration kRetry = absl::Milliseconds(100);
// What a request may take beyond its own timeout.
constexpr absl::Duration kOverdue = absl::Seconds(3);

constexpr ExitStatus Exited(int code) { return {.kind = ExitStatus::Kind::kExited, .code = code}; }
constexpr ExitStatus Killed() { return {.kind = ExitStatus::Kind::kSignaled, .signal = SIGKILL}; }

absl::Duration Now() { return RealClock()->SteadyNow(); }

absl::Duration Upto(absl::Duration most) {
  return absl::Nanoseconds(static_cast<int64_t>(
      ThreadScheduler::Random(static_cast<uint64_t>(absl::ToInt64Nanoseconds(most)) + 1)));
}

}  // namespace

// ---- AgentInbox, AgentLine ----------------------------------------------------------------------

void AgentInbox::Put(AgentEvent event) {
  MutexLock lock(&mu_);
  events_.push_back(std::move(event));
  arrived_.SignalAll();
}

std::optional<AgentEvent> AgentInbox::Take(absl::Duration until) {
  MutexLock lock(&mu_);
  while (events_.empty()) {
    const absl::Duration left = until - Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    arrived_.WaitWithTimeout(&mu_, left);
  }
  std::optional<AgentEvent> event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void AgentLine::Enqueue(const grpc::ByteBuffer& message) {
  MutexLock lock(&mu_);
  if (!close_.has_value()) queue_.push_back(message);
}

void AgentLine::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (close_.has_value()) return;
  close_ = status;
  if (!status.ok()) queue_.clear();
}

// The inbox is put to under this lock: one write follows the other.
void AgentLine::Flush() {
  MutexLock lock(&mu_);
  if (finished_) return;
  for (; !queue_.empty(); queue_.pop_front()) {
    inbox_->Put({.stream = number_,
                 .message = simulation::ParseMessage<v1::CoordinatorMessage>(queue_.front())});
  }
  if (!close_.has_value()) return;
  finished_ = true;
  inbox_->Put({.kind = AgentEvent::Kind::kStreamEnd, .stream = number_, .status = *close_});
}

bool AgentLine::SetId(uint64_t id) {
  MutexLock lock(&mu_);
  id_ = id;
  return close_.has_value();
}

void AgentLine::Break(AgentControl* agents) {
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    if (finished_) return;
    finished_ = true;
    if (!close_.has_value()) close_ = absl::CancelledError("the call was cancelled");
    queue_.clear();
    id = id_;
    inbox_->Put({.kind = AgentEvent::Kind::kStreamEnd,
                 .stream = number_,
                 .status = absl::UnavailableError("the connection broke")});
  }
  if (id != 0) agents->StreamEnded(id);
}

// ---- the link -----------------------------------------------------------------------------------

PlaneAgent::PlaneAgent(const PlaneAgentOptions& options, AgentControl* agents)
    : options_(options), agents_(agents) {}

void PlaneAgent::BreakConnection() {
  std::shared_ptr<AgentLine> line;
  {
    MutexLock lock(&line_mu_);
    line = line_;
  }
  if (line != nullptr) line->Break(agents_);
}

void PlaneAgent::Run() {
  give_up_at_ = Now() + kConnectTimeout;
  Attach();
  while (!exit_.has_value()) {
    std::optional<AgentEvent> event = inbox_->Take(NextDue());
    if (!event.has_value()) {
      OnTime();
    } else if (event->kind == AgentEvent::Kind::kKillAgent) {
      Quit(Killed());
    } else if (event->kind == AgentEvent::Kind::kKillNode) {
      if (alive_) EndNode(Killed());
    } else if (event->stream != line_number_) {
      continue;
    } else if (event->kind == AgentEvent::Kind::kStreamEnd) {
      OnStreamEnd(event->status);
    } else {
      OnMessage(event->message);
    }
  }
}

absl::Duration PlaneAgent::NextDue() const {
  absl::Duration due = std::min(retry_at_, ready_ ? absl::InfiniteDuration() : give_up_at_);
  if (alive_) due = std::min({due, ends_at_, acts_at_});
  for (const auto& [id, request] : requests_) due = std::min(due, request.due);
  return std::min(due, Now() + absl::Seconds(1));
}

void PlaneAgent::OnTime() {
  const absl::Duration now = Now();
  for (const auto& [id, request] : requests_) {
    if (!ready_ || now < request.due) continue;
    Broken(absl::StrCat("request ", id, " of executor ", options_.executor,
                        " has no answer: ", request.message.ShortDebugString()));
    Quit(Killed());
    return;
  }
  if (!ready_ && now >= give_up_at_) return Fail();
  if (now >= retry_at_) return Attach();
  if (alive_ && now >= ends_at_) return EndNode(Exited(code_));
  if (alive_ && now >= acts_at_) Act();
  Send(v1::AgentMessage());  // a heartbeat
}

void PlaneAgent::Attach() {
  retry_at_ = absl::InfiniteDuration();
  const auto line = std::make_shared<AgentLine>(inbox_, ++line_number_);
  own_line_ = line;
  {
    MutexLock lock(&line_mu_);
    line_ = line;
  }
  v1::Register hello;
  hello.set_protocol(2);
  hello.set_agent_id(absl::StrCat("agent-", options_.pid));
  hello.set_executor_id(options_.executor);
  hello.set_host("h0");
  hello.set_pid(options_.pid);
  hello.set_address(absl::StrCat("h0:", options_.pid));
  hello.set_public_key(std::string(65, '\4'));
  hello.set_takes_columns(true);
  hello.set_spec_epoch(epoch_);
  if (reported_.has_value()) *hello.mutable_node() = *reported_;
  const absl::StatusOr<uint64_t> id = agents_->Register(line, hello);
  if (!id.ok()) {  // as the reactor: what has been said before may follow
    line->Close(id.status());
    line->Flush();
    return;
  }
  stream_id_ = *id;
  if (line->SetId(*id)) agents_->StreamEnded(*id);
}

void PlaneAgent::OnStreamEnd(const absl::Status& status) {
  const bool was_ready = std::exchange(ready_, false);
  if (state_ == State::kEnded && (status.ok() || IsFinalAttachError(status.code()))) {
    return Quit(Exited(code_));
  }
  if (IsFinalAttachError(status.code())) return Fail();
  if (was_ready) give_up_at_ = Now() + lease_;
  retry_at_ = Now() + kRetry + Upto(kRetry);
}

void PlaneAgent::Send(v1::AgentMessage message) {
  if (!ready_) return;
  const absl::Status status = agents_->Handle(stream_id_, std::move(message));
  if (status.ok()) return;
  Broken(absl::StrCat("a message of executor ", options_.executor, ": ", status.ToString()));
  own_line_->Close(status);
  agents_->StreamEnded(stream_id_);
  own_line_->Flush();
}

void PlaneAgent::FinishLink() {
  finishing_ = true;
  if (!ready_) return;
  own_line_->Close(absl::OkStatus());  // half-closed
  agents_->StreamEnded(stream_id_);
  own_line_->Flush();
}

// ---- the agent ----------------------------------------------------------------------------------

void PlaneAgent::OnMessage(const v1::CoordinatorMessage& message) {
  if (!message.has_registered() && !ready_)
    return Broken(absl::StrCat("before Registered: ", message.ShortDebugString()));
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kRegistered:
      OnRegistered(message.registered());
      break;
    case v1::CoordinatorMessage::kSpec:
      OnSpec(message.spec());
      break;
    case v1::CoordinatorMessage::kStop:
      OnStop(message.stop());
      break;
    case v1::CoordinatorMessage::kStart:
      if (state_ != State::kRestarting) break;
      attempt_ = message.start().attempt();
      state_ = State::kRegistered;
      launched_ = restart_asked_ = false;
      reported_.reset();
      Launch();
      break;
    case v1::CoordinatorMessage::kKv: {
      const auto request = requests_.find(message.kv().request_id());
      if (request == requests_.end()) break;
      if (request->second.message.kv().has_add()) ++adds_answered_;
      requests_.erase(request);
      break;
    }
    case v1::CoordinatorMessage::kBarrier:
      at_barrier_ = at_barrier_ && requests_.erase(message.barrier().request_id()) == 0;
      break;
    case v1::CoordinatorMessage::kOutputCredit: {
      Output& output = outputs_[message.output_credit().attempt()];
      output.credited =
          std::max(output.credited, static_cast<int64_t>(message.output_credit().offset()));
      break;
    }
    default:
      break;
  }
}

void PlaneAgent::OnRegistered(const v1::Registered& message) {
  ready_ = true;
  lease_ = DurationFromProto(message.lease());
  if (!registered_) {
    registered_ = true;
    attempt_ = message.attempt();
    restarts_ = message.restarts();
    state_ = State::kRegistered;
  } else if (state_ == State::kRestarting && message.attempt() == attempt_ + 1) {
    attempt_ = message.attempt();
    state_ = State::kRegistered;
    launched_ = restart_asked_ = false;
    reported_.reset();
  } else if (message.attempt() != attempt_) {
    return Fail();
  } else {
    if (reported_.has_value()) SendUpdate(*reported_);
    for (const auto& [id, request] : requests_) Send(request.message);
  }
  for (auto& [attempt, output] : outputs_) {
    output.sent = output.credited;
    output.end_sent = false;
  }
  SendOutput();
  if (finishing_) return FinishLink();
  Launch();
}

void PlaneAgent::OnSpec(const v1::SpecUpdate& update) {
  const uint64_t before = epoch_;
  const absl::Status applied = ApplySpecUpdate(update, &epoch_, &spec_);
  if (!applied.ok()) return Broken(absl::StrCat("a spec: ", applied.ToString()));
  if (epoch_ < before) Broken(absl::StrCat("epoch ", epoch_, " after ", before));
  Launch();
}

void PlaneAgent::OnStop(const v1::Stop& stop) {
  if (state_ == State::kEnded) return;
  if (stop.restart()) {
    if (stop_asked_ || !launched_) return;
    restart_asked_ = true;
  } else {
    stop_asked_ = true;
    if (state_ == State::kRestarting) {
      v1::NodeUpdate update = *reported_;
      update.clear_next_address();
      return Conclude(std::move(update), 1);
    }
    if (!launched_) {
      v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_EXITED);
      update.mutable_exit()->set_code(0);
      return Conclude(std::move(update), 0);
    }
  }
  if (!alive_) return;
  if (state_ != State::kDraining) SendUpdate(MakeUpdate(v1::NODE_STATE_DRAINING));
  state_ = State::kDraining;
  if (stop.now()) return EndNode(Killed());
  ends_at_ = std::min(ends_at_, Now() + Upto(absl::Milliseconds(200)));
}

void PlaneAgent::Launch() {
  if (epoch_ == 0 || launched_ || stop_asked_ || state_ != State::kRegistered) return;
  SendUpdate(MakeUpdate(v1::NODE_STATE_READY));
  launched_ = alive_ = true;
  state_ = State::kRunning;
  SendUpdate(MakeUpdate(v1::NODE_STATE_RUNNING));
  if (options_.fed) {
    v1::AgentMessage message;
    message.mutable_endpoints()->set_attempt(attempt_);
    message.mutable_endpoints()->mutable_feed()->set_tcp(absl::StrCat("tcp://h0:", options_.pid));
    Send(std::move(message));
  }
  ends_at_ = options_.program == absl::InfiniteDuration()
                 ? absl::InfiniteDuration()
                 : Now() + options_.program / 2 + Upto(options_.program / 2);
  acts_at_ = Now() + Upto(absl::Milliseconds(50));
}

// The process of the node has ended.
void PlaneAgent::EndNode(const ExitStatus& exit) {
  alive_ = false;
  ends_at_ = acts_at_ = absl::InfiniteDuration();
  requests_.clear();
  at_barrier_ = false;
  if (options_.output_bytes > 0) {
    outputs_[attempt_].over = true;
    SendOutput();
  }
  v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_EXITED);
  if (exit.kind == ExitStatus::Kind::kSignaled) {
    update.mutable_exit()->set_signal(exit.signal);
  } else {
    update.mutable_exit()->set_code(exit.code);
  }
  const bool well = exit.ok() || stop_asked_ || restart_asked_;
  if ((!well || restart_asked_) && (restarts_ || restart_asked_) && !stop_asked_) {
    update.set_next_address(absl::StrCat("h0:", options_.pid));
    update.set_stopped_as_asked(restart_asked_);
    state_ = State::kRestarting;
    SendUpdate(std::move(update));
    return;
  }
  Conclude(std::move(update), well ? 0 : 1);
}

void PlaneAgent::Conclude(v1::NodeUpdate update, int code) {
  update.set_stopped_as_asked(stop_asked_);
  SendUpdate(std::move(update));
  state_ = State::kEnded;
  code_ = code;
  FinishLink();
}

// Without a coordinator.
void PlaneAgent::Fail() {
  alive_ = false;
  Quit(Exited(3));
}

void PlaneAgent::Quit(const ExitStatus& exit) {
  alive_ = false;
  own_line_->Break(agents_);
  exit_ = exit;
}

// ---- what is said -------------------------------------------------------------------------------

v1::NodeUpdate PlaneAgent::MakeUpdate(v1::NodeState state) const {
  v1::NodeUpdate update;
  update.set_state(state);
  update.set_attempt(attempt_);
  if (launched_) update.set_pid(options_.pid * 100 + attempt_);
  return update;
}

void PlaneAgent::SendUpdate(v1::NodeUpdate update) {
  reported_ = update;
  v1::AgentMessage message;
  *message.mutable_node() = std::move(update);
  Send(std::move(message));
}

void PlaneAgent::SendOutput() {
  for (auto& [attempt, output] : outputs_) {
    while (ready_ && output.sent < output.written) {
      v1::AgentMessage message;
      v1::OutputData& data = *message.mutable_output();
      data.set_attempt(attempt);
      data.set_source(v1::LogLines::SOURCE_STDOUT);
      data.set_offset(static_cast<uint64_t>(output.sent));
      const int64_t count = std::min<int64_t>(output.written - output.sent, 7);
      for (int64_t i = 0; i < count; ++i) {
        data.mutable_data()->push_back(static_cast<char>('a' + (output.sent + i) % 26));
      }
      output.sent += count;
      Send(std::move(message));
    }
    if (!ready_ || !output.over || output.end_sent) continue;
    v1::AgentMessage message;
    message.mutable_output()->set_attempt(attempt);
    message.mutable_output()->set_source(v1::LogLines::SOURCE_STDOUT);
    message.mutable_output()->set_offset(static_cast<uint64_t>(output.written));
    message.mutable_output()->set_end(true);
    output.end_sent = true;
    Send(std::move(message));
  }
}

void PlaneAgent::Ask(v1::AgentMessage message, uint64_t id, absl::Duration timeout) {
  requests_[id] = {message, Now() + timeout + kOverdue};
  Send(std::move(message));
}

// The program does something.
void PlaneAgent::Act() {
  acts_at_ = Now() + Upto(absl::Milliseconds(100));
  v1::AgentMessage message;
  const uint64_t id = next_request_++;
  const absl::Duration timeout = Upto(absl::Milliseconds(300));
  switch (ThreadScheduler::Random(6)) {
    case 0:
      message.mutable_kv()->set_key(kPlaneCounter);
      message.mutable_kv()->set_add(1);
      ++adds_sent_;
      break;
    case 1:
      message.mutable_kv()->set_key(absl::StrCat("of-", options_.executor));
      message.mutable_kv()->set_set("here");
      break;
    case 2:
      message.mutable_kv()->set_key(
          absl::StrCat("of-", ThreadScheduler::Random(2 * static_cast<uint64_t>(options_.nodes))));
      *message.mutable_kv()->mutable_get() = DurationToProto(timeout);
      break;
    case 3:
      if (at_barrier_) return;
      at_barrier_ = true;
      message.mutable_barrier()->set_name("step");
      *message.mutable_barrier()->mutable_timeout() = DurationToProto(timeout);
      break;
    case 4:
      message.mutable_metric()->set_name("loss");
      message.mutable_metric()->set_step(static_cast<int64_t>(id));
      return Send(std::move(message));
    default: {
      Output& output = outputs_[attempt_];
      output.written = std::min(options_.output_bytes, output.written + 10);
      if (options_.output_bytes > 0) SendOutput();
      return;
    }
  }
  if (message.has_kv()) message.mutable_kv()->set_request_id(id);
  if (message.has_barrier()) message.mutable_barrier()->set_request_id(id);
  Ask(std::move(message), id, timeout);
}

}  // namespace millrace
