#include "millrace/local_launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/deadline.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/launch/agent_process.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kAgentName = "millrace-agent";
// Where Bazel puts it below a runfiles tree.
constexpr absl::string_view kAgentRunfile = "core/agent/millrace-agent";

// So many agents share a connection to the coordinator: a process more is then worth it.
constexpr size_t kShareFrom = 8;

bool IsExecutable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

std::vector<std::string> AgentCandidates() {
  std::vector<std::string> candidates;
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    if (const std::string root = EnvOr(variable, ""); !root.empty()) {
      candidates.push_back(absl::StrCat(root, "/millrace/", kAgentRunfile));
    }
  }
  if (const absl::StatusOr<std::string> self = SelfExecutablePath(); self.ok()) {
    candidates.push_back(absl::StrCat(*self, ".runfiles/millrace/", kAgentRunfile));
    candidates.push_back(JoinPath(self->substr(0, self->rfind('/')), kAgentName));
  }
  for (const absl::string_view directory :
       absl::StrSplit(EnvOr("PATH", ""), ':', absl::SkipEmpty())) {
    candidates.push_back(JoinPath(directory, kAgentName));
  }
  return candidates;
}

}  // namespace

class [[gnu::visibility("hidden")]] LocalLauncher::Watch {
 public:
  // `options`: with the agent that was found.
  Watch(LocalLauncherOptions options, Events events)
      : options_(std::move(options)),
        events_(std::move(events)),
        wake_(::eventfd(0, EFD_CLOEXEC)) {}

  ~Watch() { Stop(absl::ZeroDuration()); }

  absl::Status Spawn(const AgentTicket& ticket) {
    MILLRACE_ASSIGN_OR_RETURN(
        std::unique_ptr<AgentProcess> agent,
        AgentProcess::Spawn(
            options_.agent_path, ticket,
            /*environment=*/nullptr,
            ticket.executor_id == options_.stdin_executor ? options_.stdin_fd : -1));
    if (events_.on_started) events_.on_started(ticket.executor_id, agent->pid());
    agents_[ticket.executor_id] = std::move(agent);
    return absl::OkStatus();
  }

  absl::Status Relaunch(const AgentTicket& ticket) {
    MutexLock lock(&mu_);
    if (stopping_) return absl::FailedPreconditionError("the agents are being stopped");
    due_.push_back(ticket);
    Wake();
    return absl::OkStatus();
  }

  // Returns once all agents have been told.
  void SetPaused(bool paused) {
    MutexLock lock(&mu_);
    pause_wanted_ = paused;
    Wake();
    while (paused_ != pause_wanted_ && !ended_)
      paused_changed_.WaitWithTimeout(&mu_, absl::Seconds(1));
  }

  absl::Status Start() {
    if (!wake_.valid()) return absl::ErrnoToStatus(errno, "making an event descriptor");
    MILLRACE_ASSIGN_OR_RETURN(thread_, Thread::Start("mr-launcher", [this] { Run(); }));
    return absl::OkStatus();
  }

  void Stop(absl::Duration grace) {
    {
      MutexLock lock(&mu_);
      kill_at_ = std::min(kill_at_, Deadline(grace));
      stopping_ = true;
      Wake();
    }
    thread_.Join();
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  }

  // The launcher's thread: ends when stopping and no agent is left.
  void Run() {
    bool asked = false;
    bool killed = false;
    while (true) {
      absl::Duration timeout = absl::InfiniteDuration();
      {
        MutexLock lock(&mu_);
        if (stopping_) {
          if (agents_.empty()) {
            ended_ = true;
            return;
          }
          if (!std::exchange(asked, true)) {
            for (auto& [id, agent] : agents_) agent->CloseStdin();
          }
          if (kill_at_.Passed() && !std::exchange(killed, true)) {
            for (auto& [id, agent] : agents_) agent->Kill();
          }
          if (!killed) timeout = kill_at_.Left();
        }
        if (paused_ != pause_wanted_) {
          paused_ = pause_wanted_;
          for (auto& [id, agent] : agents_) agent->Signal(paused_ ? SIGTSTP : SIGCONT);
          paused_changed_.SignalAll();
        }
      }
      for (const AgentExit& end : Poll(timeout)) events_.on_exit(end);
      StartDue();
    }
  }

  void StartDue() {
    std::vector<AgentTicket> due;
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      due.swap(due_);
    }
    for (const AgentTicket& ticket : due) {
      if (auto there = agents_.find(ticket.executor_id); there != agents_.end()) {
        there->second->Kill();
        events_.on_exit(there->second->Reap());
        agents_.erase(there);
      }
      const absl::Status started = Spawn(ticket);
      if (!started.ok()) {
        events_.on_exit({.executor_id = ticket.executor_id, .status = started});
      }
    }
  }

  // Waits for something to happen, reads what agents said, and returns those that ended.
  std::vector<AgentExit> Poll(absl::Duration timeout) {
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    std::vector<AgentProcess*> owners;
    for (auto& [id, agent] : agents_) {
      // A descriptor of -1 is skipped by poll().
      fds.push_back({agent->pid_fd(), POLLIN, 0});
      fds.push_back({agent->out_fd(), POLLIN, 0});
      fds.push_back({agent->err_fd(), POLLIN, 0});
      owners.push_back(agent.get());
    }
    const absl::Duration capped = std::min(timeout, absl::Hours(1));
    const int wait_ms = static_cast<int>(
        absl::ToInt64Milliseconds(std::max(capped + absl::Milliseconds(1), absl::ZeroDuration())));
    if (::poll(fds.data(), fds.size(), wait_ms) <= 0) return {};
    if (fds[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
    }
    std::vector<AgentExit> ended;
    for (size_t i = 0; i < owners.size(); ++i) {
      AgentProcess* agent = owners[i];
      if (fds[3 * i + 2].revents != 0) agent->ReadOut();
      if (fds[3 * i + 3].revents != 0) agent->ReadErr();
      if (fds[3 * i + 1].revents != 0) {
        const int executor_id = agent->executor_id();
        ended.push_back(agent->Reap());
        agents_.erase(executor_id);
      }
    }
    return ended;
  }

  const LocalLauncherOptions options_;
  const Events events_;
  const UniqueFd wake_;
  // Filled before the thread starts, then its own.
  std::map<int, std::unique_ptr<AgentProcess>> agents_;
  Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;  // the thread's work is done
  CondVar paused_changed_;
  bool pause_wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool paused_ ABSL_GUARDED_BY(mu_) = false;           // what agents were told
  std::vector<AgentTicket> due_ ABSL_GUARDED_BY(mu_);  // to be started again
  Deadline kill_at_ ABSL_GUARDED_BY(mu_) = Deadline::Never();
  Thread thread_;
};

struct [[gnu::visibility("hidden")]] LocalLauncher::State {
  Mutex mu;
  std::shared_ptr<Watch> watch ABSL_GUARDED_BY(mu);  // null while nothing is launched
};

LocalLauncher::LocalLauncher(LocalLauncherOptions options)
    : options_(std::move(options)), state_(std::make_unique<State>()) {}

LocalLauncher::~LocalLauncher() = default;

absl::StatusOr<std::string> LocalLauncher::FindAgent(const LocalLauncherOptions& options) {
  for (const std::string& named : {options.agent_path, EnvOr("MILLRACE_AGENT", "")}) {
    if (named.empty()) continue;
    if (IsExecutable(named)) return named;
    return absl::NotFoundError(
        absl::StrCat("the agent ", named,
                     " is not there or not executable; build it with: bazel build "
                     "//:millrace-agent"));
  }
  const std::vector<std::string> candidates = AgentCandidates();
  for (const std::string& candidate : candidates) {
    if (IsExecutable(candidate)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("no ", kAgentName,
                                          " found; set MILLRACE_AGENT to it. Looked for ",
                                          absl::StrJoin(candidates, ", ")));
}

absl::Status LocalLauncher::Launch(const std::vector<AgentTicket>& tickets, Events events) {
  if (CurrentWatch() != nullptr) {
    return absl::FailedPreconditionError("this LocalLauncher runs a cluster already; use another");
  }
  LocalLauncherOptions options = options_;
  MILLRACE_ASSIGN_OR_RETURN(options.agent_path, FindAgent(options_));
  auto watch = std::make_shared<Watch>(std::move(options), std::move(events));
  for (AgentTicket ticket : tickets) {
    ticket.share_connection = tickets.size() >= kShareFrom;
    MILLRACE_RETURN_IF_ERROR(watch->Spawn(ticket));
  }
  MutexLock lock(&state_->mu);  // an agent that ends at once may be asked for again
  MILLRACE_RETURN_IF_ERROR(watch->Start());
  state_->watch = std::move(watch);
  return absl::OkStatus();
}

std::shared_ptr<LocalLauncher::Watch> LocalLauncher::CurrentWatch() {
  MutexLock lock(&state_->mu);
  return state_->watch;
}

absl::Status LocalLauncher::Pause() {
  const std::shared_ptr<Watch> watch = CurrentWatch();
  if (watch == nullptr) return absl::FailedPreconditionError("this LocalLauncher runs no cluster");
  watch->SetPaused(true);
  return absl::OkStatus();
}

void LocalLauncher::Resume() {
  if (const std::shared_ptr<Watch> watch = CurrentWatch(); watch != nullptr)
    watch->SetPaused(false);
}

absl::Status LocalLauncher::Relaunch(const AgentTicket& ticket) {
  const std::shared_ptr<Watch> watch = CurrentWatch();
  if (watch == nullptr) return absl::FailedPreconditionError("this LocalLauncher runs no cluster");
  return watch->Relaunch(ticket);
}

void LocalLauncher::Stop(absl::Duration grace) {
  const std::shared_ptr<Watch> watch = CurrentWatch();
  if (watch == nullptr) return;
  watch->Stop(grace);
  MutexLock lock(&state_->mu);
  state_->watch.reset();
}

}  // namespace millrace
