#include "core/cli/slurm/srun_launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/deadline.h"
#include "core/base/json.h"
#include "core/base/line_reader.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/cli/slurm/srun_line.h"
#include "core/launch/piped_child.h"
#include "core/net/socket_address.h"
#include "core/process/descriptor_limit.h"
#include "core/process/exit_status.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

constexpr size_t kStderrLines = 50;
constexpr size_t kMaxErrors = 4;
// For an srun that was told to end the step.
constexpr absl::Duration kEndWait = absl::Seconds(10);
constexpr char kTaskVariable[] = "SLURM_PROCID";
constexpr char kDriverVariable[] = "SLURM_LAUNCH_NODE_IPADDR";

// What every agent is told.
absl::StatusOr<std::string> StartLine(const AgentTicket& ticket, const std::string& driver_host,
                                      bool share_connection) {
  MILLRACE_ASSIGN_OR_RETURN(const HostPort coordinator, ParseHostPort(ticket.coordinator_address));
  const std::string& host = driver_host.empty() ? coordinator.host : driver_host;
  Json from_environment{{"executor_id", kTaskVariable}};
  if (driver_host.empty()) from_environment["coordinator_host"] = kDriverVariable;
  Json params{{"coordinator", Json{{"address", FormatHostPort(host, coordinator.port)},
                                   {"ca_pem", ticket.ca_pem},
                                   {"identity_pem", ticket.identity_pem},
                                   {"token", ticket.token}}},
              {"from_environment", std::move(from_environment)},
              // srun hands on this process's limit, which is raised.
              {"descriptor_limit", OriginalDescriptorLimit()}};
  if (!ticket.working_dir.empty()) params["working_dir"] = ticket.working_dir;
  if (share_connection) params["share_connection"] = true;
  return DumpJson(Json{{"id", 1}, {"method", "start"}, {"params", std::move(params)}}) + "\n";
}

}  // namespace

// The step of one cluster and the thread that watches its srun.
class SrunLauncher::Step {
 public:
  Step(const SrunLauncherOptions& options, size_t num_tasks, Events events)
      : options_(options),
        events_(std::move(events)),
        wake_(::eventfd(0, EFD_CLOEXEC)),
        tasks_(num_tasks) {}
  ~Step() { Stop(absl::ZeroDuration()); }

  absl::Status Start(const std::string& line) {
    if (!wake_.valid()) return absl::ErrnoToStatus(errno, "making an event descriptor");
    std::vector<std::string> args = {
        absl::StrCat("--ntasks=", tasks_.size()),
        "--label",
        "--input=all",
        "--output=all",
        "--error=all",
        // One that ended is this driver's affair.
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--mpi=none",
        "--job-name=millrace",
    };
    args.insert(args.end(), options_.srun_options.begin(), options_.srun_options.end());
    args.insert(args.end(), {options_.agent_path, "agent", "--parent=stdin"});
    MILLRACE_ASSIGN_OR_RETURN(srun_, PipedChild::Spawn(options_.srun_path, args));
    // The pipe is empty and holds 64 KiB: one write takes it. EPIPE: its end says more.
    const ssize_t n = ::write(srun_.in.get(), line.data(), line.size());
    absl::Status status;
    if (n != static_cast<ssize_t>(line.size()) && errno != EPIPE) {
      status = absl::ErrnoToStatus(errno, "writing to srun");
    }
    if (status.ok()) {
      absl::StatusOr<Thread> thread = Thread::Start("mr-srun", [this] { Run(); });
      status = thread.status();
      if (thread.ok()) thread_ = *std::move(thread);
    }
    if (!status.ok()) {
      srun_.Signal(SIGKILL);
      static_cast<void>(srun_.Reap());
    }
    return status;
  }

  void Stop(absl::Duration grace) {
    {
      MutexLock lock(&mu_);
      end_at_ = std::min(end_at_, Deadline(grace));
      stopping_ = true;
      Wake();
    }
    thread_.Join();
  }

  absl::Status verdict() const {
    MutexLock lock(&mu_);
    return verdict_;
  }

 private:
  struct Task {
    bool started = false;
    bool ended = false;
    absl::Status error;  // what the agent said of itself
    std::deque<std::string> stderr_tail;
  };

  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  }

  // The launcher's thread: until srun has ended.
  void Run() {
    bool ended = false;
    while (!ended) {
      const absl::Duration capped = std::min(EndStep(), absl::Hours(1));
      const int wait_ms = static_cast<int>(absl::ToInt64Milliseconds(
          std::max(capped + absl::Milliseconds(1), absl::ZeroDuration())));
      // A descriptor of -1 is skipped by poll().
      pollfd fds[] = {{wake_.get(), POLLIN, 0},
                      {srun_.pid_fd.get(), POLLIN, 0},
                      {srun_.out.get(), POLLIN, 0},
                      {srun_.err.get(), POLLIN, 0}};
      if (::poll(fds, 4, wait_ms) <= 0) continue;
      if (fds[0].revents != 0) {
        uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
      }
      ended = fds[1].revents != 0;
      if (ended || fds[2].revents != 0) Read(&srun_.out, &out_lines_);
      if (ended || fds[3].revents != 0) Read(&srun_.err, &err_lines_);
    }
    OnSrunEnd(srun_.Reap());
  }

  // What is due of the end, and how long until the next of it.
  absl::Duration EndStep() {
    MutexLock lock(&mu_);
    if (!stopping_) return absl::InfiniteDuration();
    srun_.in.reset();  // which ends every agent that is left
    if (end_at_.Passed() && !told_) {
      told_ = true;
      srun_.Signal(SIGTERM);  // it ends the step
    }
    if ((end_at_ + kEndWait).Passed() && !killed_) {
      killed_ = true;
      srun_.Signal(SIGKILL);
    }
    if (killed_) return absl::InfiniteDuration();
    return told_ ? (end_at_ + kEndWait).Left() : end_at_.Left();
  }

  void Read(UniqueFd* fd, std::optional<LineReader>* lines) {
    if (!fd->valid()) return;
    const bool open = ReadAvailable(fd->get(), &**lines);
    while (true) {
      absl::StatusOr<std::optional<absl::string_view>> line = (*lines)->Next();
      if (!line.ok()) {
        lines->emplace();  // a line over the limit: start afresh with what follows
        break;
      }
      if (!line->has_value()) break;
      OnLine(ParseSrunLine(**line, static_cast<int>(tasks_.size())), lines == &err_lines_);
    }
    if (!open) fd->reset();
  }

  void OnLine(const SrunLine& line, bool err) {
    switch (line.kind) {
      case SrunLine::Kind::kTask:
        err ? OnAgentLog(line.task, line.text) : OnAgentLine(line.task, line.text);
        break;
      case SrunLine::Kind::kTasksEnded:
        some_failed_ = true;
        for (const int task : line.tasks) OnTaskEnd(task, line.exit, absl::OkStatus());
        break;
      case SrunLine::Kind::kStepEnded:
        OnStepEnd(line.text);
        break;
      case SrunLine::Kind::kError:
        if (errors_.size() == kMaxErrors) errors_.pop_front();
        errors_.push_back(EscapeControls(line.text));
        break;
      case SrunLine::Kind::kNote:
        Note(line.text);
        break;
    }
  }

  // Of interest while something is awaited: later, srun comments on what everybody knows.
  void Note(const std::string& text) {
    if (!options_.on_note || AllStarted()) return;
    {
      MutexLock lock(&mu_);
      if (stopping_ || !verdict_.ok()) return;
    }
    options_.on_note(absl::StrCat("srun: ", EscapeControls(text)));
  }

  bool AllStarted() const {
    return std::all_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.started; });
  }

  void OnAgentLog(int task, const std::string& text) {
    std::fprintf(stderr, "agent %d: %s\n", task, EscapeControls(text).c_str());
    std::deque<std::string>& tail = tasks_[task].stderr_tail;
    tail.push_back(text);
    if (tail.size() > kStderrLines) tail.pop_front();
  }

  // What an agent tells its parent. Slurm cuts lines of more than a kilobyte, which are no longer
  // JSON then; the coordinator has been told what is in them.
  void OnAgentLine(int task, const std::string& text) {
    const absl::StatusOr<Json> message = ParseJson(text);
    if (!message.ok() || !message->is_object()) return;
    const std::string event = GetStringOr(*message, "event", "").value_or("");
    if (event == "ready" && !std::exchange(tasks_[task].started, true)) {
      const int64_t pid = GetIntInRange(*message, "pid", 1, INT32_MAX).value_or(0);
      if (events_.on_started) events_.on_started(task, pid);
    }
    const bool refused = message->contains("error");
    if (!refused && event != "error") return;
    const Json& error = refused ? (*message)["error"] : *message;
    tasks_[task].error =
        absl::Status(StatusCodeFromName(GetStringOr(error, "code", "").value_or("")),
                     GetStringOr(error, "message", "").value_or(""));
    if (refused) OnTaskEnd(task, {}, absl::OkStatus());  // it will never join
  }

  void OnTaskEnd(int task, const ExitStatus& exit, const absl::Status& why) {
    Task& one = tasks_[task];
    if (std::exchange(one.ended, true)) return;
    AgentExit end = {.executor_id = task, .exit = exit, .status = one.error.ok() ? why : one.error};
    end.stderr_tail = {one.stderr_tail.begin(), one.stderr_tail.end()};
    events_.on_exit(end);
  }

  void OnStepEnd(const std::string& text) {
    const bool late = absl::StrContains(text, "DUE TO TIME LIMIT");
    Judge(absl::Status(
        late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable,
        absl::StrCat("Slurm ended job ", options_.job_id, ": ", EscapeControls(text))));
  }

  // The first word counts, unless it answers this launcher's own. That a host has failed is told
  // twice, in any order, and only one of the two names the host.
  void Judge(absl::Status verdict) {
    MutexLock lock(&mu_);
    const bool names_host = absl::StrContains(verdict_.message(), "DUE TO NODE FAILURE") &&
                            absl::StrContains(verdict.message(), "Node failure on ");
    if ((verdict_.ok() || names_host) && !told_) verdict_ = std::move(verdict);
  }

  void OnSrunEnd(const ExitStatus& exit) {
    const bool any =
        std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.started; });
    const std::string job =
        absl::StrCat("job ", options_.job_id, ", which has ", options_.job_tasks,
                     options_.job_tasks == 1 ? " task" : " tasks");
    const std::string how = errors_.empty() ? DescribeExit(exit) : absl::StrJoin(errors_, "; ");
    bool stopping = false;
    {
      MutexLock lock(&mu_);
      stopping = stopping_;
    }
    if (exit.kind == ExitStatus::Kind::kSignaled) {
      Judge(absl::UnavailableError(absl::StrCat("srun (pid ", srun_.pid,
                                                "), which held the agents of job ", options_.job_id,
                                                ", was ended by ", DescribeExit(exit))));
    } else if (!stopping && !exit.ok() && !some_failed_) {
      Judge(absl::UnavailableError(any ? absl::StrCat("srun gave up the agents of ", job, ": ", how)
                                       : absl::StrCat("srun started none of ", tasks_.size(),
                                                      " agents in ", job, ": ", how)));
    }
    // What srun does not speak of ended well.
    const absl::Status why = verdict();
    for (size_t task = 0; task < tasks_.size(); ++task) {
      const bool well = why.ok() && tasks_[task].started;
      OnTaskEnd(static_cast<int>(task), well ? ExitStatus{.kind = ExitStatus::Kind::kExited} : exit,
                why);
    }
  }

  const SrunLauncherOptions options_;
  const Events events_;
  const UniqueFd wake_;
  PipedChild srun_;
  // Of the thread.
  std::vector<Task> tasks_;
  std::deque<std::string> errors_;  // srun's own, the last ones
  bool some_failed_ = false;        // srun has told of tasks that did not end well
  std::optional<LineReader> out_lines_{std::in_place};  // always set, as the other
  std::optional<LineReader> err_lines_{std::in_place};
  bool killed_ = false;

  mutable Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Deadline end_at_ ABSL_GUARDED_BY(mu_) = Deadline::Never();
  bool told_ ABSL_GUARDED_BY(mu_) = false;  // srun was told to end the step
  absl::Status verdict_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

SrunLauncher::SrunLauncher(SrunLauncherOptions options) : options_(std::move(options)) {}

SrunLauncher::~SrunLauncher() = default;

absl::Status SrunLauncher::Launch(const std::vector<AgentTicket>& tickets, Events events) {
  if (step_ != nullptr) {
    return absl::FailedPreconditionError("this SrunLauncher has run a cluster; use another");
  }
  if (tickets.empty()) return absl::InvalidArgumentError("there is no slot to start an agent for");
  MILLRACE_ASSIGN_OR_RETURN(const std::string line,
                            StartLine(tickets[0], options_.driver_host,
                                      tickets.size() > static_cast<size_t>(options_.job_hosts)));
  step_ = std::make_shared<Step>(options_, tickets.size(), std::move(events));
  return step_->Start(line);
}

absl::Status SrunLauncher::Relaunch(const AgentTicket& /*ticket*/) {
  return absl::FailedPreconditionError("srun starts no task of a step a second time");
}

void SrunLauncher::Stop(absl::Duration grace) {
  if (step_ != nullptr) step_->Stop(grace);
}

absl::Status SrunLauncher::Verdict() const {
  return step_ == nullptr ? absl::OkStatus() : step_->verdict();
}

}  // namespace millrace::cli
