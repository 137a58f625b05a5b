#include "core/cli/run_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/cli/find_program.h"
#include "core/cli/host/limits.h"
#include "core/cli/make_resolver.h"
#include "core/cli/metrics/exporter.h"
#include "core/cli/output/duration_text.h"
#include "core/cli/output/exit_code.h"
#include "core/cli/output/live_rows.h"
#include "core/cli/output/terminal.h"
#include "core/cli/signal_watch.h"
#include "core/cli/slurm/slurm_job.h"
#include "core/cli/slurm/srun_launcher.h"
#include "core/cluster/progress.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/launcher.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "millrace/status_macros.h"
#include "millrace/stop_request.h"

namespace millrace::cli {
namespace {

// Once the run is to end, how long it waits for a reader of its output that does not read.
constexpr absl::Duration kReaderPatience = absl::Seconds(10);
// From the end of --stop-grace, when the last nodes are killed, until output that is not read is
// given up after --timeout.
constexpr absl::Duration kAfterGrace = absl::Seconds(2);
// How long millrace tries to write a line of its own while stderr is not being read.
constexpr absl::Duration kConsolePatience = absl::Seconds(1);
// Nodes that the line about lost output names.
constexpr size_t kMaxLossesNamed = 8;

// Lines of millrace itself, on stderr.
class Console {
 public:
  explicit Console(const RunOptions& options)
      : quiet_(options.quiet),
        terminal_(IsTerminal(STDERR_FILENO)),
        style_(Styler::ForFd(STDERR_FILENO, options.color)) {}

  // What a person at a terminal likes to know.
  void Note(absl::string_view text) const {
    if (quiet_ || !terminal_) return;
    Line(style_(Style::kDim, absl::StrCat("millrace: ", text)));
  }
  // A line for everybody, including people who read the log later.
  void Tell(absl::string_view text) const { Line(absl::StrCat("millrace: ", text)); }
  void Fail(absl::string_view text) const {
    Line(absl::StrCat(style_(Style::kRed, "millrace:"), " ", text));
  }

 private:
  // The cluster's progress, or nodes' progress bars, may stand there.
  void Line(absl::string_view text) const {
    const absl::string_view erase = CanErase(STDERR_FILENO) ? kEraseLiveRows : "";
    WriteWithin(STDERR_FILENO, absl::StrCat(erase, text, "\n"), kConsolePatience);
  }

  const bool quiet_;
  const bool terminal_;
  const Styler style_;
};

// What ended the cluster before its time, for the exit code.
struct Interruption {
  std::atomic<int> signal = 0;
  std::atomic<bool> timed_out = false;
  std::atomic<bool> broken_pipe = false;
  std::atomic<bool> unwritable = false;  // stdout, for another reason
};

std::string CurrentFolder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

// Whether the program is sent to where nodes run.
bool Ships(const RunOptions& options) {
  return (options.on.has_value() && options.on->ship) ||
         (options.slurm.has_value() && options.slurm->ship);
}

// The names of ClusterOptions in messages, as options of the command.
std::string InWordsOfTheCommand(absl::string_view text) {
  // What the program said stays.
  const size_t end = std::min(text.find(" Last stderr line: "), text.size());
  return absl::StrCat(
      absl::StrReplaceAll(text.substr(0, end),
                          {{"longer than stop_timeout", "longer than --stop-timeout"},
                           {"resume.lease must be", "--resume-within must be"},
                           {"where quarantine begins", "where quarantine begins (--quarantine)"}}),
      text.substr(end));
}

std::vector<std::string> NamesOf(const std::vector<NodeRole>& roles) {
  std::vector<std::string> names;
  for (const NodeRole& role : roles) names.push_back(role.ToString());
  return names;
}

// "1 ps, 1 chief, 2 workers".
std::string RolesText(const std::vector<NodeRole>& roles) {
  std::vector<std::pair<std::string, int>> counts;
  for (const NodeRole& role : roles) {
    if (counts.empty() || counts.back().first != role.job_name)
      counts.emplace_back(role.job_name, 0);
    ++counts.back().second;
  }
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    const bool plural = count.second != 1 && count.first != "ps";
    absl::StrAppend(out, count.second, " ", count.first, plural ? "s" : "");
  });
}

// A log folder that cannot be written is reported before anything starts, rather than after hours.
absl::Status CheckLogDir(const std::string& log_dir) {
  if (log_dir.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(log_dir, error);
  if (!error && ::access(log_dir.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--log-dir ", EscapeControls(log_dir), ": nothing can be written there: ", error.message()));
}

// Where the whole output of a node that failed is; empty if it is kept nowhere.
std::string LogText(const NodeFailure& failure, const std::string& log_dir) {
  if (log_dir.empty()) return "";
  return absl::StrCat("; its output: ",
                      EscapeControls(JoinPath(
                          log_dir, absl::StrCat(failure.role.job_name, "-", failure.role.task_index,
                                                ".", failure.attempt, ".log"))));
}

std::string LossText(const OutputRelay::Losses& losses) {
  std::string text = absl::StrCat(
      "output was lost, since ",
      losses.error == ECANCELED
          ? "nobody read it"
          : absl::StrCat("it cannot be written: ", std::generic_category().message(losses.error)));
  size_t named = 0;
  for (const auto& [node, loss] : losses.by_node) {
    if (named == kMaxLossesNamed) {
      return absl::StrCat(text, " and of ", losses.by_node.size() - named, " more nodes");
    }
    absl::StrAppend(&text, named++ == 0 ? ": " : ", ", loss.lines,
                    loss.lines == 1 ? " line (" : " lines (", BytesText(loss.bytes), ") of ", node);
  }
  return text;
}

// One run, from options to exit code.
class Runner {
 public:
  // `stdin_executor`: whose stdin is this process's. `srun`: who starts the agents, if the options
  // say Slurm.
  Runner(const RunOptions& options, std::vector<NodeRole> roles, std::string program,
         std::optional<int> stdin_executor, ClusterResolver* resolver,
         std::optional<SrunLauncherOptions> srun)
      : options_(options),
        roles_(std::move(roles)),
        program_(std::move(program)),
        resolver_(resolver),
        launcher_(MakeLauncher(stdin_executor, std::move(srun))),
        console_(options),
        relay_({.mode = options.output,
                .nodes = NamesOf(roles_),
                .color = options.color,
                .timestamps = options.timestamp_output,
                .on_broken = [this](int error) { OnBrokenOutput(error); }}),
        progress_(
            !options.quiet && relay_.ShowsProgress(), static_cast<int>(roles_.size()),
            [this](absl::string_view line) { relay_.ShowProgress(line); }, RealClock()) {}

  int Run() {
    const absl::Duration start = RealClock()->SteadyNow();
    const SignalWatch watch(
        {.on_signal = [this](int signal, int count) { OnSignal(signal, count); },
         .on_timeout = [this] { OnTimeout(); },
         .on_suspend = [this] { return OnSuspend(); },
         .on_resume = [this] { launcher_->Resume(); }},
        options_.timeout);
    const absl::Status status = RunCluster();
    progress_.Clear();
    losses_ = relay_.Finish();
    return Conclude(status, RealClock()->SteadyNow() - start);
  }

 private:
  ClusterOptions MakeOptions();
  std::map<std::string, std::string> NodeEnv() const;
  std::unique_ptr<Launcher> MakeLauncher(std::optional<int> stdin_executor,
                                         std::optional<SrunLauncherOptions> srun);
  absl::Status RunCluster();
  int Conclude(const absl::Status& status, absl::Duration elapsed);
  void OnSignal(int signal, int count);
  void OnTimeout();
  bool OnSuspend();
  void OnBrokenOutput(int error);

  const RunOptions& options_;
  const std::vector<NodeRole> roles_;
  const std::string program_;
  ClusterResolver* const resolver_;  // null: this machine
  SrunLauncher* srun_ = nullptr;     // the launcher, if it is one
  const std::unique_ptr<Launcher> launcher_;
  const Console console_;
  Interruption interruption_;
  StopRequest stop_;
  OutputRelay relay_;
  Progress progress_;           // among what the relay shows
  OutputRelay::Losses losses_;  // known at the end
  Mutex mu_;
  std::optional<NodeFailure> failure_ ABSL_GUARDED_BY(mu_);
};

void Runner::OnSignal(int signal, int count) {
  if (interruption_.signal == 0) interruption_.signal = signal;
  const bool leave = options_.leave_on_sigterm && signal == SIGTERM;
  if (count == 1 && !leave) {
    console_.Note(absl::StrCat("stopping the nodes (", SignalName(signal), " again: at once)"));
  }
  if (count > 1) {
    relay_.Abandon();
  } else {
    relay_.GiveUpAfter(kReaderPatience, absl::InfiniteDuration());
  }
  const std::string reason = absl::StrCat("millrace run got ", SignalName(signal));
  if (leave) {
    stop_.Leave(reason);
  } else {
    stop_.Request(reason, /*now=*/count > 1);
  }
}

void Runner::OnTimeout() {
  interruption_.timed_out = true;
  // By then the nodes have ended, and the reader of their output has had its time as well.
  relay_.GiveUpAfter(kReaderPatience, options_.cluster.failure.stop_grace + kAfterGrace);
  stop_.Request(absl::StrCat("--timeout of ", DurationText(options_.timeout), " is over"));
}

void Runner::OnBrokenOutput(int error) {
  interruption_.broken_pipe = error == EPIPE;
  interruption_.unwritable = error != EPIPE;
  stop_.Request(error == EPIPE ? "nobody reads stdout any more"
                               : absl::StrCat("cannot write to stdout: ",
                                              std::generic_category().message(error)));
}

bool Runner::OnSuspend() {
  const absl::Status paused = launcher_->Pause();
  if (!absl::IsUnimplemented(paused)) return true;
  console_.Tell(
      "Ctrl-Z does not pause nodes on other hosts, which would end without their driver: "
      "it is ignored");
  return false;
}

ClusterOptions Runner::MakeOptions() {
  ClusterOptions options = options_.cluster;
  options.stop_request = &stop_;
  if (options_.quiet) options.progress = false;
  if (relay_.ShowsProgress()) {
    options.progress = false;
    options.observer.on_slot = [this](const SlotStatus& slot) { progress_.OnSlot(slot); };
  }
  if (options_.output != OutputMode::kNone) {
    options.observer.on_bytes = [this](absl::string_view node, LogSource source, std::string bytes,
                                       const std::function<void()>& taken) {
      progress_.Clear();
      relay_.Write(node, source, std::move(bytes), taken);
    };
  }
  options.observer.on_output = [this](const NodeOutput& output) {
    if (output.source != LogSource::kAgent) return;  // on_bytes has them
    for (const std::string& line : output.lines) relay_.Say(output.node, line);
  };
  options.observer.on_restart = [this](const NodeRestart& restart) {
    console_.Tell(RestartText(restart));
  };
  options.observer.on_operator_stop = [this] {
    relay_.GiveUpAfter(kReaderPatience, absl::InfiniteDuration());
  };
  options.observer.on_failure = [this](const NodeFailure& failure) {
    relay_.GiveUpAfter(kReaderPatience, absl::InfiniteDuration());
    MutexLock lock(&mu_);
    failure_ = failure;
  };
  return options;
}

std::unique_ptr<Launcher> Runner::MakeLauncher(std::optional<int> stdin_executor,
                                               std::optional<SrunLauncherOptions> srun) {
  if (srun.has_value()) {
    srun->on_note = [this](const std::string& line) { console_.Tell(line); };
    auto launcher = std::make_unique<SrunLauncher>(*std::move(srun));
    srun_ = launcher.get();
    return launcher;
  }
  if (resolver_ == nullptr) {
    return std::make_unique<LocalLauncher>(
        LocalLauncherOptions{.stdin_fd = stdin_executor.has_value() ? STDIN_FILENO : -1,
                             .stdin_executor = stdin_executor.value_or(0)});
  }
  AdoptingLauncherOptions options = options_.on->launcher;
  options.on_note = [this](const std::string& line) { console_.Tell(line); };
  return std::make_unique<AdoptingLauncher>(*resolver_, options);
}

// Python keeps what it writes to a pipe until there is enough of it, and loses that when it is
// killed.
constexpr char kPythonUnbuffered[] = "PYTHONUNBUFFERED";

std::map<std::string, std::string> Runner::NodeEnv() const {
  std::map<std::string, std::string> env = options_.env;
  if (std::getenv(kPythonUnbuffered) == nullptr) env.emplace(kPythonUnbuffered, "1");
  return env;
}

absl::Status Runner::RunCluster() {
  NodeProgram program = Ships(options_) ? NodeProgram::File(program_) : NodeProgram::Path(program_);
  program.Args({options_.program.begin() + 1, options_.program.end()}).Env(NodeEnv());
  const std::string& state_folder = options_.cluster.resume.state_folder;
  bool resume = false;
  if (!state_folder.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(resume, Cluster::CanResume(state_folder));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            resume ? Cluster::Resume(*launcher_, program, MakeOptions())
                                   : Cluster::Run(*launcher_, program, MakeOptions()));
  progress_.Clear();
  if (resume) console_.Tell(absl::StrCat("the cluster ", cluster->cluster_id(), " goes on"));
  console_.Note(absl::StrCat("cluster ", cluster->cluster_id(), " runs: ", RolesText(roles_)));
  return cluster->Shutdown({.timeout = absl::InfiniteDuration()});
}

int Runner::Conclude(const absl::Status& status, absl::Duration elapsed) {
  if (losses_.error != 0 && !interruption_.unwritable) {
    console_.Tell(LossText(losses_));
    if (status.ok()) return kExitFailed;  // what lacks lines looks whole
  }
  // Nodes that Slurm ended do not know why, or ended in order when Slurm asked them to.
  const absl::Status slurm = srun_ != nullptr ? srun_->Verdict() : absl::OkStatus();
  if (status.ok() && slurm.ok()) {
    console_.Note(absl::StrCat("done in ", DurationText(elapsed)));
    return kExitOk;
  }
  if (options_.leave_on_sigterm && interruption_.signal == SIGTERM && status == stop_.status()) {
    console_.Tell(absl::StrCat(status.message(),
                               " and leaves the cluster: the same command goes on with it within ",
                               DurationText(options_.cluster.resume.lease)));
    return kExitSignalBase + SIGTERM;
  }
  std::optional<NodeFailure> failure;
  {
    MutexLock lock(&mu_);
    failure = failure_;
  }
  if (!failure.has_value() && interruption_.broken_pipe) return kExitSignalBase + SIGPIPE;
  std::string text = InWordsOfTheCommand(
      absl::StrCat(FirstLine(status.message()),
                   failure.has_value() ? LogText(*failure, options_.cluster.log_dir) : ""));
  if (absl::IsCancelled(status)) text = absl::StrCat("stopped: ", text);
  if (!slurm.ok()) {
    // Some have failed with these words.
    const bool more = !status.ok() && !absl::StrContains(text, slurm.message());
    console_.Fail(absl::StrCat(slurm.message(), more ? "; then: " : "", more ? text : ""));
    return interruption_.signal != 0 ? kExitSignalBase + interruption_.signal
                                     : ExitCodeOfStatus(slurm);
  }
  console_.Fail(text);
  if (failure.has_value()) {
    return ExitCodeOfFailure(*failure);
  }
  if (interruption_.unwritable) return kExitFailed;
  if (interruption_.timed_out) return kExitTimeout;
  if (interruption_.signal != 0) return kExitSignalBase + interruption_.signal;
  return ExitCodeOfStatus(status);
}

}  // namespace

namespace {

// The roles of the cluster: those asked for, or those of the members there are.
absl::StatusOr<std::vector<NodeRole>> RolesOf(RunOptions* run, ClusterResolver* resolver) {
  ClusterOptions* const options = &run->cluster;
  if (run->on.has_value() && run->on->shape) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec members, resolver->cluster_spec());
    MILLRACE_ASSIGN_OR_RETURN(const ClusterShape shape, ShapeOf(members));
    options->num_executors = shape.num_executors;
    options->num_ps = shape.num_ps;
    options->master_node = shape.master_node;
    options->eval_node = shape.eval_node;
  }
  return DealRoles({.num_executors = options->num_executors,
                    .num_ps = options->num_ps,
                    .master_node = options->master_node,
                    .eval_node = options->eval_node});
}

// The node that reads stdin, if any does.
absl::StatusOr<std::optional<int>> StdinExecutor(const RunOptions& options,
                                                 const std::vector<NodeRole>& roles) {
  const bool here = !options.on.has_value() && !options.slurm.has_value();
  if (!options.stdin_node.has_value()) {
    if (!here || IsTerminal(STDIN_FILENO)) return std::nullopt;
    const auto first = std::find_if(roles.begin(), roles.end(), [](const NodeRole& role) {
      return role.job_name != "ps" && role.job_name != "evaluator";
    });
    if (first == roles.end()) return std::nullopt;
    return static_cast<int>(first - roles.begin());
  }
  if (*options.stdin_node == "none") return std::nullopt;
  if (!here) {
    return absl::InvalidArgumentError(
        "--stdin is for nodes on this machine: the stdin of others is empty; give them a file");
  }
  const auto named = std::find_if(roles.begin(), roles.end(), [&](const NodeRole& role) {
    return role.ToString() == *options.stdin_node;
  });
  if (named == roles.end()) {
    return absl::InvalidArgumentError(absl::StrCat("--stdin ", EscapeControls(*options.stdin_node),
                                                   ": the cluster has no such node; it has ",
                                                   RolesText(roles)));
  }
  if (IsTerminal(STDIN_FILENO)) {
    return absl::InvalidArgumentError(
        "--stdin: a node cannot read a terminal, which is the driver's; write cat | millrace run "
        "...");
  }
  return static_cast<int>(named - roles.begin());
}

// What starts the agents of a job that this process runs in, and how many.
absl::StatusOr<SrunLauncherOptions> FindSlurm(RunOptions* run) {
  MILLRACE_ASSIGN_OR_RETURN(const SlurmJob job,
                            ReadSlurmJob([](const char* name) { return EnvOr(name, ""); }));
  if (run->slurm->shape) run->cluster.num_executors = job.tasks;
  SrunLauncherOptions options = {.job_id = EscapeControls(job.id),
                                 .job_tasks = job.tasks,
                                 .job_hosts = job.hosts,
                                 .srun_options = run->slurm->srun_options,
                                 .driver_host = run->slurm->driver_host,
                                 .bind_address = run->slurm->bind_address};
  if (job.cpus_per_task > 0) {
    options.srun_options.insert(options.srun_options.begin(),
                                absl::StrCat("--cpus-per-task=", job.cpus_per_task));
  }
  const absl::StatusOr<std::string> srun =
      FindProgram("srun", CurrentFolder(), EnvOr("PATH", "/usr/local/bin:/usr/bin:/bin"));
  if (!srun.ok()) {
    return absl::NotFoundError(
        absl::StrCat("Slurm job ", options.job_id,
                     " is here, but no srun is in PATH: ", srun.status().message()));
  }
  options.srun_path = *srun;
  MILLRACE_ASSIGN_OR_RETURN(options.agent_path, LocalLauncher::FindAgent({}));
  return options;
}

}  // namespace

namespace {

// The cluster of this process in numbers, if they are asked for.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const RunOptions& options,
                                                            const Console& console) {
  if (!options.metrics.has_value()) return nullptr;
  auto exporter = std::make_shared<Exporter>(ClustersOfThisProcess);
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<MetricsServer> server,
      MetricsServer::Start(*options.metrics, [exporter](const MetricsRequest& request) {
        return exporter->Scrape({.format = request.format, .nodes = request.nodes});
      }));
  if (!options.quiet) {
    console.Tell(absl::StrCat("metrics at ", MetricsUrl(*options.metrics, server->port())));
  }
  return server;
}

}  // namespace

int Run(RunOptions options) {
  BlockSuspendSignal();
  const Console console(options);
  std::optional<SrunLauncherOptions> srun;
  if (options.slurm.has_value()) {
    absl::StatusOr<SrunLauncherOptions> found = FindSlurm(&options);
    if (!found.ok()) {
      console.Fail(found.status().message());
      return absl::IsInvalidArgument(found.status()) ? kExitUsage : kExitUnavailable;
    }
    srun = *std::move(found);
  }
  std::unique_ptr<ClusterResolver> resolver;
  if (options.on.has_value()) {
    absl::StatusOr<std::unique_ptr<ClusterResolver>> made =
        MakeResolver(options.on->resolver, /*tensorflow=*/false);
    if (!made.ok()) {
      console.Fail(made.status().message());
      return kExitUsage;
    }
    resolver = *std::move(made);
    if (options.on->shape)
      UnblockTerminationSignals();  // nothing is held while members are awaited
  }
  const absl::StatusOr<std::vector<NodeRole>> roles = RolesOf(&options, resolver.get());
  if (options.on.has_value()) BlockTerminationSignals();
  if (!roles.ok()) {
    console.Fail(roles.status().message());
    return absl::IsInvalidArgument(roles.status()) ? kExitUsage : ExitCodeOfStatus(roles.status());
  }
  const absl::StatusOr<std::optional<int>> stdin_executor = StdinExecutor(options, *roles);
  if (!stdin_executor.ok()) {
    console.Fail(stdin_executor.status().message());
    return kExitUsage;
  }
  // Elsewhere the agents look for it.
  const bool ship = Ships(options);
  absl::StatusOr<std::string> program = options.program.front();
  if (!options.on.has_value() || ship) {
    const std::string folder =
        JoinPath(CurrentFolder(), ship ? "" : options.cluster.node.working_dir);
    program =
        FindProgram(options.program.front(), folder, EnvOr("PATH", "/usr/local/bin:/usr/bin:/bin"));
  }
  if (!program.ok()) {
    console.Fail(program.status().message());
    return absl::IsNotFound(program.status()) ? kExitNoProgram : kExitCannotExecute;
  }
  const absl::Status logs = CheckLogDir(options.cluster.log_dir);
  if (!logs.ok()) {
    console.Fail(logs.message());
    return kExitUsage;
  }
  const absl::Status limits = options.on.has_value() || srun.has_value()
                                  ? absl::OkStatus()
                                  : CheckLimits(ReadLimits(), options.cluster.num_executors);
  if (!limits.ok()) {
    console.Fail(limits.message());
    return kExitFailed;
  }
  const absl::StatusOr<std::unique_ptr<MetricsServer>> metrics = ServeMetrics(options, console);
  if (!metrics.ok()) {
    console.Fail(metrics.status().message());
    return ExitCodeOfStatus(metrics.status());
  }
  return Runner(options, *roles, *program, *stdin_executor, resolver.get(), std::move(srun)).Run();
}

}  // namespace millrace::cli
