#include "millrace/cluster.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/cluster/cluster_arguments.h"
#include "core/cluster/cluster_directory.h"
#include "core/cluster/cluster_impl.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/net/port_range.h"
#include "feed/feeder/feeder.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// For what has been told to end: to be seen ended.
constexpr absl::Duration kKillWait = absl::Seconds(5);
constexpr absl::Duration kAgentExitWait = absl::Seconds(5);
// Of each node's output: more than a reader takes while credit is on its way back.
constexpr int64_t kOutputWindowBytes = int64_t{256} << 10;

}  // namespace

absl::Status Cluster::Impl::Start(const NodeProgram& program, bool resume) {
  CoordinatorOptions options;
  options.bind_address = launcher_.DriverBindAddress();
  if (!options_.coordinator_port_range.empty()) {
    absl::StatusOr<PortRange> ports = ParsePortRange(options_.coordinator_port_range);
    if (!ports.ok()) return Annotate(ports.status(), "coordinator_port_range");
    options.port_range = *ports;
  }
  options.name = options_.name;
  options.roles = roles_;
  options.program = {
      .path = program.shipped() ? AbsolutePathHere(program.path()) : program.path(),
      .shipped = program.shipped(),
      .args = program.args(),
      .env = program.env(),
  };
  options.input_mode = options_.input_mode;
  options.log_dir = options_.log_dir;
  options.node = options_.node;
  if (options_.tensorboard) options.node.sidecars.push_back(TensorBoardSidecar());
  options.feed = options_.feed;
  options.failure = options_.failure;
  if (options_.observer.on_bytes) options.output_window_bytes = kOutputWindowBytes;
  options.reservation_timeout = options_.reservation_timeout;
  options.observer = this;
  options.event_log_dir = options_.log_dir;
  if (!options_.resume.state_folder.empty()) {
    options.state_folder = options_.resume.state_folder;
    options.lease = options_.resume.lease;
    options.resume = resume;
  }
  MILLRACE_ASSIGN_OR_RETURN(coordinator_, Coordinator::Start(std::move(options)));
  const auto launched = absl::MakeCleanup([this] { has_launched_.Notify(); });
  has_coordinator_.Notify();
  directory_ = std::make_unique<ClusterDirectory>(coordinator_.get(), roles_);
  if (options_.input_mode == InputMode::kFeed) {
    MILLRACE_ASSIGN_OR_RETURN(feeder_,
                              Feeder::Start({.curve_only = options_.feed.curve_only,
                                             .shared_memory = options_.feed.shared_memory}));
    MILLRACE_RETURN_IF_ERROR(
        coordinator_->AnnounceFeeder(feeder_->principal(), feeder_->curve_key()));
  }
  if (options_.stop_request != nullptr) {
    StopRequest::LeaveHandler leave;
    if (!options_.resume.state_folder.empty()) {
      leave = [this](const std::string& reason) {
        CancelCalls(absl::CancelledError(reason));
        coordinator_->Leave(absl::CancelledError(reason));
      };
    }
    options_.stop_request->Attach(
        [this](const std::string& reason, bool now) { OnStopRequest(reason, now); },
        std::move(leave));
  }
  if (options_.cluster_file) coordinator_->PublishClusterFile();
  if (absl::Status status = LaunchAgents(); !status.ok()) {
    if (resume) {  // its nodes live, and nothing is wrong with them
      coordinator_->Leave(
          absl::UnavailableError("this driver leaves the cluster, which can be resumed"));
    }
    return status;
  }
  has_launched_.Notify();
  const absl::Status running = coordinator_->WaitRunning();
  const bool asked = !coordinator_->stop_request().ok() || absl::IsCancelled(running) ||
                     (options_.stop_request != nullptr && options_.stop_request->requested());
  const bool failed = !coordinator_->first_cause().ok();
  if (!running.ok() && failed && options_.observer.on_bytes) {
    coordinator_->Stop(NodeFilter::kAll, "another node has failed");
  }
  if (!running.ok() && (asked || (failed && options_.observer.on_bytes))) {
    // Those that run already have their grace; the destructor kills.
    const absl::Status ended =
        coordinator_->WaitEnded(NodeFilter::kAll, options_.failure.stop_grace + kKillWait);
    if (ended.ok()) coordinator_->WaitOutput(absl::InfiniteDuration()).IgnoreError();
  }
  return running;
}

void Cluster::Impl::OnStopRequest(const std::string& reason, bool now) {
  CancelCalls(absl::CancelledError(reason));
  coordinator_->Cancel(reason);
  coordinator_->Stop(NodeFilter::kAll, reason, now);
}

AgentTicket Cluster::Impl::TicketOf(int executor_id) const {
  const NodeRole& role = roles_[executor_id];
  const auto own = options_.failure.restart_by_job.find(role.job_name);
  const RestartPolicy& restart =
      own == options_.failure.restart_by_job.end() ? options_.failure.restart : own->second;
  return {.executor_id = executor_id,
          .coordinator_address = coordinator_->address(),
          .cluster_id = coordinator_->cluster_id(),
          .ca_pem = coordinator_->ca_pem(),
          .identity_pem = coordinator_->agent_identity_pem(),
          .token = coordinator_->tokens().agent,
          .working_dir = options_.node.working_dir,
          .job_name = role.job_name,
          .task_index = role.task_index,
          .restarts = restart.max_restarts > 0,
          .connect_timeout =
              options_.resume.state_folder.empty() ? absl::ZeroDuration() : options_.resume.lease,
          .standing = coordinator_->StandingOf(executor_id),
          .place = coordinator_->PlaceOf(executor_id),
          .agent_id = coordinator_->AgentIdOf(executor_id),
          .driver_epoch = coordinator_->driver_epoch()};
}

absl::Status Cluster::Impl::LaunchAgents() {
  std::vector<AgentTicket> tickets;
  for (int executor_id = 0; executor_id < static_cast<int>(roles_.size()); ++executor_id) {
    tickets.push_back(TicketOf(executor_id));
  }
  Launcher::Events events;
  events.on_started = [this](int executor_id, int64_t pid) {
    coordinator_->ReportAgentStarted(executor_id, pid);
  };
  events.on_found = [this](int executor_id, const std::string& place) {
    coordinator_->ReportAgentFound(executor_id, place);
  };
  events.on_exit = [this](const AgentExit& exit) { coordinator_->ReportAgentExit(exit); };
  events.on_awaited = [this](int executor_id, const std::string& why) {
    coordinator_->ReportAgentAwaited(executor_id, why);
  };
  events.on_taken_over = [this](const absl::Status& why) { coordinator_->Leave(why); };
  MILLRACE_RETURN_IF_ERROR(launcher_.Launch(tickets, std::move(events)));
  launched_ = true;
  return absl::OkStatus();
}

// ---- what happens -------------------------------------------------------------------------------

void Cluster::Impl::OnSlot(const SlotStatus& slot) {
  progress_.OnSlot(slot);
  if (!options_.observer.on_slot) return;
  progress_.Clear();
  options_.observer.on_slot(slot);
}

void Cluster::Impl::OnOutput(int, const NodeRole& role, LogSource source,
                             const std::vector<std::string>& lines, uint64_t dropped) {
  if (!options_.observer.on_output) return;
  progress_.Clear();
  const std::string node = role.ToString();
  options_.observer.on_output({.node = node, .source = source, .lines = lines, .dropped = dropped});
}

void Cluster::Impl::OnBytes(int, const NodeRole& role, LogSource source, std::string bytes,
                            const std::function<void()>& taken) {
  progress_.Clear();
  options_.observer.on_bytes(role.ToString(), source, std::move(bytes), taken);
}

void Cluster::Impl::OnMetric(int, const NodeRole& role, absl::string_view name, int64_t step,
                             double value) {
  if (!options_.observer.on_metric) return;
  progress_.Clear();
  options_.observer.on_metric(role.ToString(), name, step, value);
}

void Cluster::Impl::OnRelaunch(int executor_id) {
  has_launched_.WaitForNotification();
  const absl::Status asked = launcher_.Relaunch(TicketOf(executor_id));
  if (asked.ok()) return;
  if (absl::IsUnimplemented(asked)) {
    MILLRACE_LOG(INFO) << "executor " << executor_id << " waits for another agent from outside";
    return;
  }
  coordinator_->ReportAgentExit({.executor_id = executor_id, .status = asked});
}

void Cluster::Impl::OnRestart(const NodeRestart& restart) {
  progress_.Clear();
  if (options_.observer.on_restart) {
    options_.observer.on_restart(restart);
  } else {
    MILLRACE_LOG(WARNING) << RestartText(restart);
  }
}

void Cluster::Impl::OnFailure(const absl::Status& status) {
  has_coordinator_.WaitForNotification();
  bool shutting_down = false;
  {
    MutexLock lock(&mu_);
    shutting_down = shutdown_started_;
  }
  if (options_.observer.on_failure) {
    const std::optional<NodeFailure> failure = coordinator_->Snapshot().first_cause;
    if (failure.has_value()) options_.observer.on_failure(*failure);
  }
  CancelCalls(status);
  // The others may wait for the one that failed: a shutdown must not wait for them.
  if (shutting_down) coordinator_->Stop(NodeFilter::kAll, "another node has failed");
}

void Cluster::Impl::OnOperatorStop(const absl::Status& status, bool /*now*/) {
  if (options_.observer.on_operator_stop) options_.observer.on_operator_stop();
  CancelCalls(status);
}

// ---- the end ------------------------------------------------------------------------------------

absl::Status Cluster::Impl::Shutdown(const ShutdownOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckDuration("timeout", options.timeout));
  if (options.grace < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("grace must not be negative, found ", absl::FormatDuration(options.grace)));
  }
  {
    MutexLock lock(&mu_);
    if (shutdown_started_) {
      while (!shutdown_done_) changed_.Wait(&mu_);
      return shutdown_status_;
    }
    shutdown_started_ = true;
  }
  absl::Status status = EndNodes(options);
  // Whoever asks to leave from here on comes too late; who did before is heeded.
  if (options_.stop_request != nullptr) options_.stop_request->Detach();
  status.Update(coordinator_->fenced());
  TearDown();
  MutexLock lock(&mu_);
  shutdown_status_ = status;
  shutdown_done_ = true;
  changed_.SignalAll();
  return status;
}

absl::Status Cluster::Impl::EndNodes(const ShutdownOptions& options) {
  const Deadline deadline(options.timeout);
  CancelCalls(absl::CancelledError("the cluster is being shut down"));
  coordinator_->EndFeed("");
  // See OnFailure: what failed before this call is not told again.
  if (!coordinator_->first_cause().ok()) {
    coordinator_->Stop(NodeFilter::kAll, "another node has failed");
  }
  const bool fed = options_.input_mode == InputMode::kFeed;
  const absl::Duration grace = std::min(options.grace, options.timeout);
  // A node that is not fed ends when its work is done, which the end of a feed says nothing about.
  const absl::Status workers =
      coordinator_->WaitEnded(NodeFilter::kFed, fed ? grace : options.timeout);
  MILLRACE_RETURN_IF_ERROR(coordinator_->fenced());
  const bool out_of_grace = fed && options.grace < options.timeout;
  const absl::string_view over = out_of_grace ? "grace" : "timeout";
  std::string why_now = "the cluster is shut down";
  const bool evaluates = options_.eval_node && options.grace > absl::ZeroDuration() &&
                         options.grace < absl::InfiniteDuration();
  if (!workers.ok()) {
    coordinator_->Stop(NodeFilter::kFed, absl::StrCat("the ", over, " of the shutdown is over"));
  } else if (evaluates) {
    // It may evaluate what the workers saved last. To be stopped is its normal end.
    const absl::Duration left = deadline.Left();
    const absl::Status evaluator =
        coordinator_->WaitEnded(NodeFilter::kEvaluator, std::min(options.grace, left));
    if (absl::IsDeadlineExceeded(evaluator)) {
      why_now =
          options.grace <= left
              ? absl::StrCat("the evaluator's grace of ", absl::FormatDuration(options.grace),
                             " is over")
              : absl::StrCat("the timeout of ", absl::FormatDuration(options.timeout), " is over");
      MILLRACE_LOG(WARNING) << "evaluator:0 had not ended by itself and is asked to stop: "
                            << why_now;
    }
  }
  coordinator_->Stop(NodeFilter::kPsAndEvaluator, why_now);
  // What was asked to stop has its stop_grace, also where the timeout is shorter.
  const absl::Duration rest =
      std::max(deadline.Left(), std::min(options_.failure.stop_grace, options.timeout));
  const absl::Status ended = coordinator_->WaitEnded(NodeFilter::kAll, rest);
  if (ended.ok()) coordinator_->WaitOutput(absl::InfiniteDuration()).IgnoreError();
  MILLRACE_RETURN_IF_ERROR(coordinator_->fenced());
  const absl::Status cause = coordinator_->first_cause();
  if (!ended.ok()) {
    coordinator_->Stop(NodeFilter::kAll, "the timeout of the shutdown is over", /*now=*/true);
    const absl::Status killed = coordinator_->WaitEnded(NodeFilter::kAll, kKillWait);
    if (!killed.ok()) MILLRACE_LOG(ERROR) << "after being killed: " << killed.message();
    if (cause.ok() && absl::IsDeadlineExceeded(ended)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "Shutdown killed what was left after its timeout of ",
          absl::FormatDuration(options.timeout), ": ", ended.message(),
          workers.ok() ? "" : absl::StrCat("; asked to stop before, since ", workers.message()),
          "; raise ShutdownOptions::timeout, or lower its grace or FailureOptions::stop_grace"));
    }
  }
  if (!cause.ok()) return cause;
  if (const absl::Status stopped = coordinator_->stop_request(); !stopped.ok()) return stopped;
  const bool asked = options_.stop_request != nullptr && options_.stop_request->requested();
  if (asked) return options_.stop_request->status();
  if (!absl::IsDeadlineExceeded(workers)) return ended;
  return absl::DeadlineExceededError(absl::StrCat(
      "Shutdown stopped programs that had not ended by themselves when its ", over, " of ",
      absl::FormatDuration(out_of_grace ? options.grace : options.timeout), " was over: ",
      workers.message(), "; raise ShutdownOptions::", over, " if they need more time"));
}

void Cluster::Impl::Abort() {
  {
    MutexLock lock(&mu_);  // the observer's thread still looks at it
    shutdown_started_ = true;
  }
  if (coordinator_ == nullptr) return;
  CancelCalls(absl::CancelledError("the cluster is gone"));
  coordinator_->Cancel("the driver gave the cluster up");
  coordinator_->Stop(NodeFilter::kAll, "the driver gave the cluster up", /*now=*/true);
  coordinator_->WaitEnded(NodeFilter::kAll, kKillWait).IgnoreError();  // the launcher ends the rest
  TearDown();
}

// Calls under way have been cancelled; they use what is torn down then.
void Cluster::Impl::EndCalls() {
  absl::Status why;
  std::vector<Cancel> ends;
  {
    MutexLock lock(&mu_);
    why = cancelled_;
    for (const auto& [id, call] : calls_) {
      if (call.end) ends.push_back(call.end);
    }
  }
  for (const Cancel& end : ends) end(why);
  MutexLock lock(&mu_);
  while (!calls_.empty()) changed_.Wait(&mu_);
}

void Cluster::Impl::TearDown() {
  EndCalls();
  if (options_.stop_request != nullptr) options_.stop_request->Detach();
  progress_.Clear();
  if (feeder_ != nullptr) feeder_->Stop();
  const bool ours = coordinator_->fenced().ok();  // otherwise the nodes are another driver's
  if (launched_ && ours) launcher_.Stop(kAgentExitWait);
  if (launched_ && !ours) launcher_.Leave();
  coordinator_->Shutdown();
  if (ours) coordinator_->GiveUpState();  // last: until here another driver ends it just so
}

std::string Cluster::Impl::EndpointNamed(const std::string& name) const {
  for (int executor_id = 0; executor_id < static_cast<int>(roles_.size()); ++executor_id) {
    const auto endpoints = coordinator_->PublishedEndpoints(executor_id);
    if (!endpoints.ok()) continue;
    if (const auto found = endpoints->find(name); found != endpoints->end()) return found->second;
  }
  return "";
}

// ---- Cluster ------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Start(Launcher& launcher,
                                                        const NodeProgram& program,
                                                        ClusterOptions options, bool resume) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  MILLRACE_RETURN_IF_ERROR(CheckResumeOptions(options, launcher));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<NodeRole> roles,
                            DealRoles({.num_executors = options.num_executors,
                                       .num_ps = options.num_ps,
                                       .master_node = options.master_node,
                                       .eval_node = options.eval_node}));
  MILLRACE_RETURN_IF_ERROR(CheckProgram(program));
  MILLRACE_RETURN_IF_ERROR(ResolvePaths(launcher, &options));
  auto impl = std::make_unique<Impl>(launcher, std::move(options), std::move(roles));
  MILLRACE_RETURN_IF_ERROR(impl->Start(program, resume));  // its destructor ends what was started
  return std::unique_ptr<Cluster>(new Cluster(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Run(Launcher& launcher,
                                                      const NodeProgram& program,
                                                      ClusterOptions options) {
  return Start(launcher, program, std::move(options), /*resume=*/false);
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Resume(Launcher& launcher,
                                                         const NodeProgram& program,
                                                         ClusterOptions options) {
  if (options.resume.state_folder.empty()) {
    return absl::InvalidArgumentError(
        "resume.state_folder is unset: Resume takes over the cluster that it holds");
  }
  return Start(launcher, program, std::move(options), /*resume=*/true);
}

absl::StatusOr<bool> Cluster::CanResume(const std::string& state_folder) {
  return Coordinator::HoldsCluster(state_folder);
}

Cluster::Cluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cluster::~Cluster() = default;

absl::StatusOr<TrainResult> Cluster::Train(const PartitionedSource& source,
                                           const TrainOptions& options) {
  return impl_->Train(source, options);
}

absl::Status Cluster::EndFeed(absl::string_view queue) { return impl_->EndFeed(queue); }
absl::Status Cluster::Shutdown(const ShutdownOptions& options) { return impl_->Shutdown(options); }
const std::string& Cluster::cluster_id() const { return impl_->coordinator().cluster_id(); }
ClusterStatus Cluster::Status() const { return impl_->coordinator().Snapshot(); }
ClusterSpec Cluster::cluster_spec() const { return impl_->coordinator().spec(); }
std::string Cluster::tensorboard_url() const { return impl_->EndpointNamed("tensorboard"); }
std::string Cluster::server_address() const { return impl_->coordinator().address(); }
const ClusterOptions& Cluster::options() const { return impl_->options(); }

}  // namespace millrace
