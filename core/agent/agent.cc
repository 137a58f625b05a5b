#include "core/agent/agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/net/local_interfaces.h"
#include "core/net/socket_address.h"
#include "core/process/descriptor_limit.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// For what sidecars leave behind, to be killed and reaped.
constexpr absl::Duration kOrphanTime = absl::Milliseconds(200);
// The agent must be gone a second after its parent.
constexpr absl::Duration kHurry = absl::Milliseconds(700);
// How long a node without its coordinator has to end itself, at most.
constexpr absl::Duration kMaxOrphanGrace = absl::Seconds(5);

std::string CurrentFolder() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::current_path(error);
  return error ? "." : path.string();
}

// A job's name becomes part of file names and of addresses.
absl::Status CheckJobName(const std::string& name) {
  constexpr absl::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (name.empty() || name.size() > 64 || name.front() == '.' ||
      name.find_first_not_of(std::string(kAllowed)) != std::string::npos) {
    return absl::InternalError(absl::StrCat("the coordinator sent the job name \"",
                                            Ellipsize(EscapeControls(name), 80), "\""));
  }
  return absl::OkStatus();
}

}  // namespace

Agent::Agent(EventLoop* loop, ChildReaper* reaper, Guard* guard, Options options)
    : loop_(loop),
      reaper_(reaper),
      guard_(guard),
      options_(std::move(options)),
      agent_id_(RandomHex(16)),
      parent_(loop, options_.in_fd, options_.out_fd,
              {.on_request = [this](const Json& id, const std::string& method,
                                    const Json& params) { OnRequest(id, method, params); },
               .on_end = [this](const absl::Status& status) { OnParentGone(status); }}) {}

Agent::~Agent() {
  loop_->Cancel(&quit_timer_);
  loop_->Cancel(&retire_timer_);
  loop_->Cancel(&count_timer_);
}

void Agent::Start() {
  parent_.Event("ready", {{"protocol", 1}, {"version", options_.version}, {"pid", getpid()}});
  parent_.Start();
}

const char* Agent::StateName(State state) {
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kConnecting:
      return "connecting";
    case State::kConnected:
      return "connected";
    case State::kRegistered:
      return "registered";
    case State::kReady:
      return "ready";
    case State::kRunning:
      return "running";
    case State::kDraining:
      return "draining";
    case State::kRestarting:
      return "restarting";
    case State::kFinished:
      return "finished";
    case State::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string Agent::NodeName() const {
  if (!registered_.has_value()) return "the node";
  return absl::StrCat(registered_->job_name(), ":", registered_->task_index());
}

void Agent::SetState(State state, OrderedJson members) {
  state_ = state;
  OrderedJson event = {{"state", StateName(state)}};
  if (registered_.has_value()) {
    event["job_name"] = registered_->job_name();
    event["task_index"] = registered_->task_index();
    event["attempt"] = registered_->attempt();
  }
  for (const auto& [name, value] : members.items()) event[name] = value;
  parent_.Event("state", event);
}

// ---- parent -------------------------------------------------------------------------------------

void Agent::OnRequest(const Json& id, const std::string& method, const Json& params) {
  if (method == "start") {
    parent_.Reply(id, StartNode(params));
    if (link_ != nullptr && state_ == State::kIdle) {
      state_ = State::kConnecting;
      link_->Start();
    }
  } else if (method == "stop") {
    parent_.Reply(id, StopRequest(params));
  } else if (method == "coordinator") {
    parent_.Reply(id, SetCoordinator(params));
  } else if (method == "status") {
    parent_.Reply(id, Json{{"state", StateName(state_)},
                           {"attempt", registered_.has_value() ? registered_->attempt() : 0},
                           {"node_pid", NodeAlive() ? runner()->pid() : 0}});
  } else if (GatewayCalls::Knows(method) && gateway_ != nullptr) {
    gateway_->Start(method, params, [this, id](const absl::StatusOr<Json>& outcome) {
      parent_.Reply(id, outcome);
    });
  } else if (GatewayCalls::Knows(method)) {
    parent_.Reply(id, absl::FailedPreconditionError(absl::StrCat(method, " comes after start")));
  } else {
    parent_.Reply(id, absl::UnimplementedError(absl::StrCat(
                          "no method \"", Ellipsize(method, 64),
                          "\"; an agent knows start, stop, coordinator, status, lookup, cause, "
                          "report, announce, pace and agent_gone")));
  }
}

absl::StatusOr<Json> Agent::StartNode(const Json& params) {
  if (link_ != nullptr) return absl::FailedPreconditionError("start was called before");
  if (exit_code_.has_value()) return absl::CancelledError("the agent is ending");
  MILLRACE_ASSIGN_OR_RETURN(const Json own, ParamsFromEnvironment(params, options_.environment));
  MILLRACE_ASSIGN_OR_RETURN(params_, ParseStartParams(own));
  if (params_.node_stdin && options_.node_stdin < 0) {
    return absl::FailedPreconditionError(
        "node_stdin: the agent was started without a descriptor 3, which is to be its node's "
        "stdin");
  }
  SetOriginalDescriptorLimit(params_.descriptor_limit);
  if (!params_.advertise.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(params_.advertise, ResolveAdvertisedHost(params_.advertise));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      files_, RuntimeFiles::Open(params_.runtime_dir, agent_id_.substr(0, 12), guard_));
  MILLRACE_ASSIGN_OR_RETURN(key_, MakeNodeKey());
  working_dir_ = JoinPath(CurrentFolder(), params_.working_dir);
  CoordinatorLink::Options link{.endpoint = params_.coordinator,
                                .connect_timeout = params_.connect_timeout};
  if (params_.share_connection) {
    link.start_relay = [this](UniqueFd listening) { return StartRelay(std::move(listening)); };
  }
  link_ = std::make_unique<CoordinatorLink>(
      loop_, std::move(link),
      CoordinatorLink::Callbacks{
          .make_register = [this](const std::string& local) { return MakeRegister(local); },
          .on_registered = [this](const v1::Registered& message) { OnRegistered(message); },
          .on_message = [this](const v1::CoordinatorMessage& message) { OnMessage(message); },
          .on_lost =
              [this](const absl::Status&) {
                if (runner() != nullptr) runner()->OnLost();
              },
          .on_end = [this](const absl::Status& status) { OnLinkEnd(status); }});
  gateway_ = std::make_unique<GatewayCalls>(loop_, params_.coordinator.token,
                                            [this] { return link_->channel(); });
  KeepCount();
  return Json{{"agent_id", agent_id_}};
}

absl::StatusOr<Json> Agent::SetCoordinator(const Json& params) {
  if (link_ == nullptr) return absl::FailedPreconditionError("coordinator comes after start");
  MILLRACE_ASSIGN_OR_RETURN(const std::string address, ParseCoordinatorAddress(params, "params"));
  link_->SetAddress(address);
  return Json::object();
}

absl::StatusOr<Json> Agent::StopRequest(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string reason,
                            GetStringOr(params, "reason", "stopped by its parent", "params"));
  MILLRACE_ASSIGN_OR_RETURN(const bool now, GetBoolOr(params, "now", false, "params"));
  // After the reply.
  loop_->After(absl::ZeroDuration(), [this, reason, now] { Stop(reason, now); });
  return Json::object();
}

void Agent::OnParentGone(const absl::Status& status) {
  if (!status.ok()) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("the parent broke the protocol: ", status.message())));
    return;
  }
  hurry_ = true;
  loop_->Cancel(&quit_timer_);
  quit_timer_ = loop_->After(kHurry, [this] { Quit(exit_code_.value_or(kExitFinished)); });
  if (exit_code_.has_value()) {
    // Already ending: at most a node to be killed, or a coordinator that is about to be told.
    if (runner() != nullptr) runner()->Kill();
    return;
  }
  exit_code_ = kExitFinished;  // as if it had been asked: there is no parent that it could tell
  end_reason_ =
      absl::UnavailableError(absl::StrCat("the parent of the agent of ", NodeName(), " on ",
                                          LocalHostname(), " ended, and the node with it"));
  if (NodeAlive()) {
    runner()->Kill();
  } else if (runner() == nullptr && registered_.has_value()) {
    OnLaunchFailed(*end_reason_);
  } else if (runner() == nullptr) {
    Quit(kExitFinished);
  }
}

void Agent::OnSignal(int signal) {
  if (signal == SIGTSTP || signal == SIGCONT) {
    SetPaused(signal == SIGTSTP);
    return;
  }
  Stop(absl::StrCat("the agent got ", SignalName(signal)), /*now=*/stop_asked_);
}

void Agent::SetPaused(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  if (runner() != nullptr) runner()->SetPaused(paused);
  if (link_ != nullptr) link_->SetPaused(paused);
}

// ---- coordinator --------------------------------------------------------------------------------

absl::StatusOr<v1::Register> Agent::MakeRegister(const std::string& local_host) {
  if (address_.empty()) {
    SetState(State::kConnected);
    local_host_ = local_host;
    host_ = params_.advertise.empty() ? local_host : params_.advertise;
    MILLRACE_RETURN_IF_ERROR(ReservePort());
  }
  v1::Register hello;
  hello.set_protocol(2);
  hello.set_agent_id(agent_id_);
  if (params_.executor_id.has_value()) hello.set_executor_id(*params_.executor_id);
  hello.set_host(LocalHostname());
  hello.set_pid(getpid());
  hello.set_address(address_);
  hello.set_public_key(key_.public_key);
  hello.set_takes_columns(true);
  hello.set_spec_epoch(epoch_);
  hello.set_version(options_.version);
  if (attempt_ != nullptr && attempt_->reported().has_value()) {
    *hello.mutable_node() = *attempt_->reported();
  }
  return hello;
}

void Agent::OnRegistered(const v1::Registered& registered) {
  if (!registered_.has_value()) {
    TakeRole(registered);
    return;
  }
  const bool same_slot = registered.executor_id() == registered_->executor_id();
  if (same_slot && state_ == State::kRestarting &&
      registered.attempt() == registered_->attempt() + 1) {
    OnStartAttempt(registered.attempt(), registered.nonce());  // it was sent while the stream broke
    return;
  }
  if (!same_slot || registered.attempt() != registered_->attempt()) {
    Fail(absl::AbortedError(absl::StrCat("the coordinator gave the slot of ", NodeName(),
                                         " to another agent meanwhile")));
    return;
  }
  MILLRACE_LOG(WARNING) << "attached to the coordinator again";
  // What happened between Register and its answer could not be sent, and was not in Register
  // either.
  if (attempt_->reported().has_value()) SendUpdate(*attempt_->reported());
  SendEndpoints();
  for (const auto& [attempt, output] : outputs_) output->OnRegistered();
  if (runner() != nullptr) runner()->OnRegistered();
}

void Agent::TakeRole(const v1::Registered& registered) {
  const absl::Status name = CheckJobName(registered.job_name());
  if (!name.ok() || registered.task_index() < 0) {
    Fail(name.ok() ? absl::InternalError("the coordinator sent a negative task index") : name);
    return;
  }
  registered_ = registered;
  attempt_ = std::make_unique<Attempt>();
  log_dir_ = params_.log_dir.empty() ? registered.node().log_dir() : params_.log_dir;
  if (absl::StartsWith(log_dir_, "file://")) log_dir_.erase(0, 7);
  if (absl::StrContains(log_dir_, "://")) {
    // Not of this machine's file systems: the program may write there, the agent cannot.
    MILLRACE_LOG(WARNING) << "the node's output is not kept: log_dir " << log_dir_
                          << " is no local folder";
    log_dir_.clear();
  }
  log_dir_ = log_dir_.empty() ? files_->ClaimFolder("logs") : JoinPath(working_dir_, log_dir_);
  SetState(State::kRegistered);
  PrepareGpus();
  FetchProgram();
}

void Agent::OnMessage(const v1::CoordinatorMessage& message) {
  if (attempt_ == nullptr) return;  // the role was refused, and the agent is ending
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kSpec:
      OnSpec(message.spec());
      break;
    case v1::CoordinatorMessage::kFeedEnd:
      attempt_->Push(Json{{"push", "feed_end"},
                          {"feed_id", message.feed_end().feed_id()},
                          {"aborted", message.feed_end().aborted()}});
      break;
    case v1::CoordinatorMessage::kEndFeed:
      attempt_->EndFeed(message.end_feed().queue());
      break;
    case v1::CoordinatorMessage::kFeederKeys: {
      Json keys = Json::object();
      for (const auto& [principal, key] : message.feeder_keys().keys()) keys[principal] = key;
      attempt_->Push(Json{{"push", "feeder_keys"}, {"keys", std::move(keys)}});
      break;
    }
    case v1::CoordinatorMessage::kStop:
      if (message.stop().restart()) {
        Restart(message.stop().reason(), message.stop().now());
      } else {
        Stop(message.stop().reason(), message.stop().now());
      }
      break;
    case v1::CoordinatorMessage::kStart:
      OnStartAttempt(message.start().attempt(), message.start().nonce());
      break;
    case v1::CoordinatorMessage::kOutputCredit:
      OnOutputCredit(message.output_credit().attempt(), message.output_credit().offset());
      break;
    case v1::CoordinatorMessage::kKv:
      if (runner() != nullptr) runner()->HandleKvReply(message.kv());
      break;
    case v1::CoordinatorMessage::kBarrier:
      if (runner() != nullptr) runner()->HandleBarrierReply(message.barrier());
      break;
    case v1::CoordinatorMessage::kEqual:
      if (runner() != nullptr) runner()->HandleEqualReply(message.equal());
      break;
    case v1::CoordinatorMessage::kEqualGrant:
      // Of no use before the node has joined, which the coordinator answers with a grant.
      if (runner() != nullptr) runner()->HandleEqualGrant(message.equal_grant());
      break;
    default:
      break;  // of a later version
  }
}

void Agent::OnSpec(const v1::SpecUpdate& update) {
  const uint64_t before = epoch_;
  const absl::Status applied = ApplySpecUpdate(update, &epoch_, &spec_);
  if (!applied.ok()) {
    MILLRACE_LOG(WARNING) << "asking for the whole spec again: " << applied.message();
    link_->Reattach(Annotate(applied, "spec update"));
    return;
  }
  if (epoch_ == before) return;
  if (runner() == nullptr) {
    MaybeLaunch();
    return;
  }
  Json changes = Json::array();
  for (const v1::TaskChange& change : update.changes()) {
    changes.push_back(Json{{"job_name", change.job_name()},
                           {"task_index", change.task_index()},
                           {"address", change.address()},
                           {"attempt", change.attempt()}});
  }
  attempt_->Push(Json{{"push", "spec"},
                      {"epoch", epoch_},
                      {"cluster_spec", Json(ClusterSpecToJson(spec_))},
                      {"changes", std::move(changes)}});
}

void Agent::OnLinkEnd(const absl::Status& status) {
  if (state_ == State::kFinished || state_ == State::kFailed) {
    // The node has ended; whether the coordinator heard of it changes nothing here.
    if (!status.ok()) MILLRACE_LOG(WARNING) << status.message();
    Quit(exit_code_.value_or(kExitFinished));
    return;
  }
  Fail(status.ok() ? absl::CancelledError("the coordinator ended the stream") : status);
}

// ---- the end ------------------------------------------------------------------------------------

void Agent::Conclude(const absl::Status& node_error, v1::NodeUpdate update) {
  if (state_ == State::kFinished || state_ == State::kFailed) return;
  if (!hurry_) fetcher_.reset();
  EndGpus();
  const bool was_registered = registered_.has_value();
  update.set_stopped_as_asked(EndsAsAsked() && !end_reason_.has_value());
  if (was_registered) SendUpdate(update);
  if (node_error.ok()) {
    SetState(State::kFinished);
  } else {
    SetState(State::kFailed,
             {{"code", absl::StatusCodeToString(node_error.code())},
              {"message", std::string(node_error.message())},
              {"stderr_tail", std::vector<std::string>(update.stderr_tail().begin(),
                                                       update.stderr_tail().end())}});
  }
  if (!exit_code_.has_value()) exit_code_ = node_error.ok() ? kExitFinished : kExitNodeFailed;
  if (files_ != nullptr) files_->Remove();
  // The coordinator is told; on_end follows. After a fatal error there is no link to wait for.
  if (was_registered && link_ != nullptr && *exit_code_ != kExitAgentFailed) {
    link_finishes_ = true;
    FinishLink();
  } else {
    Quit(*exit_code_);
  }
}

void Agent::Fail(const absl::Status& status) {
  if (exit_code_.has_value()) return;
  exit_code_ = kExitAgentFailed;
  parent_.Event("error", {{"code", absl::StatusCodeToString(status.code())},
                          {"message", std::string(status.message())}});
  end_reason_ = status;
  fetcher_.reset();
  if (!NodeAlive()) {
    if (runner() == nullptr) Quit(kExitAgentFailed);
    return;  // else: OnNodeEnded() is under way
  }
  // A coordinator that is gone leaves the node time to save its work; one that gave the slot away
  // does not.
  if (absl::IsUnavailable(status) || absl::IsCancelled(status)) {
    runner()->Stop(status.message(),
                   std::min(DurationFromProto(registered_->node().stop_grace()), kMaxOrphanGrace));
  } else {
    runner()->Kill();
  }
}

void Agent::Quit(int exit_code) {
  exit_code_ = exit_code;
  loop_->Cancel(&quit_timer_);
  loop_->Quit();
}

int Agent::Cleanup() {
  if (attempt_ != nullptr) attempt_->StopSidecars();
  if (runner() != nullptr) {
    runner()->Kill();
    runner()->Flush(hurry_ ? absl::Milliseconds(100) : absl::Seconds(3));
  }
  // A daemon that left its sidecar's process group became an orphan of this process with the
  // sidecar's end, after that of the node.
  if (registered_.has_value() && registered_->node().sidecars_size() > 0) {
    reaper_->EndOrphans(kOrphanTime);
  }
  if (retired_ != nullptr) retired_->Flush(hurry_ ? absl::Milliseconds(100) : absl::Seconds(3));
  if (files_ != nullptr) files_->Remove();
  // A program that is still being fetched may be written after this: the guard removes it then.
  if (fetcher_ == nullptr) guard_->Dismiss();
  TellCounts();
  parent_.Flush(hurry_ ? absl::Milliseconds(100) : absl::Seconds(1));
  return exit_code_.value_or(kExitAgentFailed);
}

v1::NodeUpdate Agent::MakeUpdate(v1::NodeState state) const {
  v1::NodeUpdate update;
  update.set_state(state);
  update.set_attempt(registered_.has_value() ? registered_->attempt() : 0);
  *update.mutable_time() = TimeToProto(RealClock()->Now());
  if (runner() != nullptr) update.set_pid(runner()->pid());
  return update;
}

void Agent::SendUpdate(v1::NodeUpdate update) {
  attempt_->OnReported(update);
  v1::AgentMessage message;
  *message.mutable_node() = std::move(update);
  link_->Send(std::move(message));
}

}  // namespace millrace
