// The node of an agent: from the program that is fetched or found to the end that is reported.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/agent/agent.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "core/proto/time_proto.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Environment variable of a "NAME=value" list.
std::string Lookup(const std::vector<std::string>& environment, absl::string_view name) {
  for (const std::string& entry : environment) {
    if (absl::StartsWith(entry, absl::StrCat(name, "="))) return entry.substr(name.size() + 1);
  }
  return "";
}

v1::Error ToProto(const absl::Status& status) {
  v1::Error error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message()));
  return error;
}

}  // namespace

void Agent::FetchProgram() {
  const v1::NodeSpec& node = registered_->node();
  if (node.sha256().empty()) {
    absl::StatusOr<std::string> resolved =
        ResolveProgram(node.program(), working_dir_, Lookup(options_.environment, "PATH"));
    if (!resolved.ok()) {
      OnLaunchFailed(resolved.status());
      return;
    }
    program_ = *std::move(resolved);
    MaybeLaunch();
    return;
  }
  if (program_path_.empty()) program_path_ = files_->Claim("program");
  fetcher_ = std::make_unique<ProgramFetcher>(
      ProgramFetcher::Options{.stub = link_->stub(),
                              .token = params_.coordinator.token,
                              .sha256 = node.sha256(),
                              .size_bytes = node.program_size(),
                              .local_path = node.program(),
                              .target_path = program_path_},
      loop_->mailbox(),
      [this](const absl::StatusOr<FetchedProgram>& program) { OnProgram(program); });
}

void Agent::OnProgram(const absl::StatusOr<FetchedProgram>& program) {
  fetcher_.reset();
  if (exit_code_.has_value() || stop_asked_) return;
  if (!program.ok()) {
    OnLaunchFailed(program.status());
    return;
  }
  program_ = program->path;
  program_memory_ = program->memory;
  MaybeLaunch();
}

void Agent::MaybeLaunch() {
  if (epoch_ == 0 || program_.empty() || runner() != nullptr || stop_asked_ ||
      exit_code_.has_value() || state_ == State::kRestarting) {
    return;
  }
  if (!GpusReady()) return;
  SendUpdate(MakeUpdate(v1::NODE_STATE_READY));
  SetState(State::kReady);
  const absl::Status launched = Launch();
  if (!launched.ok()) OnLaunchFailed(launched);
}

absl::Status Agent::Launch() {
  const v1::NodeSpec& node = registered_->node();
  const std::string log_name = absl::StrCat(registered_->job_name(), "-", registered_->task_index(),
                                            ".", registered_->attempt(), ".log");
  NodeRunner::Options options{
      .environment = {.registered = *registered_,
                      .epoch = epoch_,
                      .cluster_spec = spec_,
                      .address = address_,
                      .port = port_.port(),
                      .working_dir = working_dir_,
                      .log_dir = log_dir_,
                      .ca_pem = params_.coordinator.ca_pem,
                      .key_pem = key_.key_pem,
                      .context_path = files_->Claim("context.json"),
                      .gpus = gpu_request_.has_value() ? std::make_optional(gpus_->ids())
                                                       : std::nullopt,
                      .inherited = options_.environment,
                      .host_env = params_.env},
      .program = program_,
      .args = {node.args().begin(), node.args().end()},
      .log_path = JoinPath(log_dir_, log_name),
      .log_counts = log_counts_,
      .stop_timeout = DurationFromProto(node.stop_timeout())};
  if (registered_->has_sample_interval()) {
    options.sample_interval = std::clamp(DurationFromProto(registered_->sample_interval()),
                                         absl::Milliseconds(10), absl::Hours(1));
  }
  if (node.release_port()) {
    port_.Release();
  } else {
    options.port_fd = port_.fd();
  }
  if (params_.node_stdin) options.stdin_fd = options_.node_stdin;
  guard_->SetMark(absl::StrCat("MILLRACE_CONTEXT_FILE=", options.environment.context_path));
  NodeRunner::Hooks hooks = RunnerHooks();
  if (node.output_window_bytes() > 0) OpenOutput(&hooks);
  MILLRACE_RETURN_IF_ERROR(attempt_->Launch(
      std::make_unique<NodeRunner>(loop_, reaper_, std::move(hooks)), std::move(options)));
  guard_->SetGroup(runner()->pid());
  return absl::OkStatus();
}

NodeRunner::Hooks Agent::RunnerHooks() {
  return {
      .send =
          [this](v1::AgentMessage message, bool droppable) {
            if (message.has_sample()) AddGpusTo(message.mutable_sample());
            if (message.has_log() && params_.output_events) TellOutput(message.log());
            const auto lines = static_cast<uint64_t>(message.log().lines_size());
            const uint64_t dropped = message.log().dropped();
            if (!link_->Send(std::move(message), droppable)) return false;
            counts_.relayed_lines += lines;
            counts_.dropped_lines += dropped;
            return true;
          },
      .on_endpoints =
          [this](v1::NodeEndpoints endpoints) {
            attempt_->OnEndpoints(std::move(endpoints));
            SendEndpoints();
          },
      .on_release_port = [this] { port_.Release(); },
      .on_gpu_claim =
          [this](GpuRequest request, AgentGpus::Done done) {
            gpus_->Claim(std::move(request), std::move(done));
          },
      .on_gpu_release = [this](const std::vector<std::string>& ids) { return gpus_->Release(ids); },
      .on_running =
          [this](pid_t pid) {
            CountStart();
            if (state_ == State::kDraining) return;  // a stop came between fork and exec
            SendUpdate(MakeUpdate(v1::NODE_STATE_RUNNING));
            SetState(State::kRunning, {{"pid", pid}});
            if (paused_) runner()->SetPaused(true);
            StartSidecars();
          },
      .on_stopped = [this](int signal) { OnNodeStopped(signal); },
      .on_launch_failed = [this](const absl::Status& status) { OnLaunchFailed(status); },
      .on_ended = [this](const ExitStatus& exit) { OnNodeEnded(exit); },
  };
}

void Agent::Stop(absl::string_view reason, bool now) {
  if (exit_code_.has_value()) return;
  if (!stop_asked_) ended_unasked_ = runner() != nullptr && runner()->HasEnded();
  stop_asked_ = true;
  hurry_ = hurry_ || now;
  if (state_ == State::kRestarting) {
    LeaveWithoutAnother();
    return;
  }
  if (!NodeAlive()) {
    if (runner() == nullptr) {
      v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_EXITED);
      update.mutable_exit()->set_code(0);
      Conclude(absl::OkStatus(), std::move(update));
    }
    return;  // else: OnNodeEnded() is under way
  }
  if (state_ != State::kDraining) {
    SendUpdate(MakeUpdate(v1::NODE_STATE_DRAINING));
    SetState(State::kDraining, {{"reason", std::string(reason)}});
  }
  if (now) {
    runner()->Kill();
    return;
  }
  runner()->Stop(reason, DurationFromProto(registered_->node().stop_grace()));
}

void Agent::OnNodeStopped(int signal) {
  if (signal != 0) {
    MILLRACE_LOG(WARNING) << NodeName() << " was stopped by " << SignalName(signal);
  }
  if (state_ == State::kDraining) return;
  SendUpdate(MakeUpdate(signal != 0 ? v1::NODE_STATE_STOPPED : v1::NODE_STATE_RUNNING));
}

absl::Status Agent::NodeError(const ExitStatus& exit) const {
  if (end_reason_.has_value()) return *end_reason_;
  if (exit.ok() || EndsAsAsked() || attempt_->restart_asked()) return absl::OkStatus();
  return attempt_->RunError(exit, absl::StrCat(NodeName(), " (attempt ", registered_->attempt(),
                                               ") on ", LocalHostname()));
}

void Agent::OnNodeEnded(const ExitStatus& exit) {
  attempt_->StopSidecars();
  guard_->SetGroup(0);
  EndGpus();
  CountEnd(exit);
  v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_EXITED);
  attempt_->AddEndTo(exit, &update);
  const absl::Status error = NodeError(exit);
  // Where the program said nothing the coordinator finds its own words for the exit.
  const bool explained = end_reason_.has_value() || attempt_->knows_why();
  if (!error.ok() && explained) *update.mutable_error() = ToProto(error);
  if ((!error.ok() || attempt_->restart_asked()) && StayForAnother(error, &update)) return;
  Conclude(error, std::move(update));
}

void Agent::OnLaunchFailed(const absl::Status& status) {
  if (registered_.has_value()) outputs_.erase(registered_->attempt());  // no program, no output
  guard_->SetGroup(0);
  EndGpus();
  if (!end_reason_.has_value()) ++counts_.unstarted;  // else nobody wants it any more
  TellCounts();
  v1::NodeUpdate update = MakeUpdate(v1::NODE_STATE_LAUNCH_FAILED);
  *update.mutable_error() = ToProto(status);
  // What another attempt may mend; a program that is not there it would not find either.
  const bool may_pass = absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
  if (may_pass && StayForAnother(status, &update)) return;
  Conclude(status, std::move(update));
}

}  // namespace millrace
