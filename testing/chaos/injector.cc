#include "testing/chaos/injector.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "testing/process_table.h"

namespace millrace::chaos {
namespace {

using Kind = Fault::Kind;

// Stops `pids` for so long, this process perhaps among them: a child does it.
void StopFor(const std::vector<pid_t>& pids, absl::Duration duration) {
  const timespec length = absl::ToTimespec(duration);
  const pid_t child = ::fork();
  if (child == 0) {
    // Nothing here but what signal handlers may do: other threads held locks.
    for (const pid_t pid : pids) ::kill(pid, SIGSTOP);
    timespec left = length;
    while (::nanosleep(&left, &left) != 0) {
    }
    for (const pid_t pid : pids) ::kill(pid, SIGCONT);
    ::_exit(0);
  }
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Injector::Injector(const Plan& plan, const LeakCheck& leaks, SmallDisk& disk, ClockFile& clock,
                   Reach reach)
    : plan_(plan),
      leaks_(leaks),
      disk_(disk),
      clock_(clock),
      reach_(std::move(reach)),
      begin_(RealClock()->SteadyNow()),
      thread_("chaos-injector", [this] { Run(); }) {}

Injector::~Injector() { Finish(); }

void Injector::OnSlot(const SlotStatus& slot) {
  MutexLock lock(&mu_);
  slots_[slot.executor_id] = slot;
}

absl::Duration Injector::Elapsed() const { return RealClock()->SteadyNow() - begin_; }

void Injector::Finish() {
  stop_.Notify();
  thread_.Join();
}

std::vector<InjectedFault> Injector::faults() const {
  MutexLock lock(&mu_);
  return faults_;
}

void Injector::Run() {
  for (const Fault& fault : plan_.faults) {
    WaitUntil(fault.at + stopped_);
    if (stop_.HasBeenNotified()) break;
    Do(fault);
  }
  while (!undo_.empty()) WaitUntil(undo_.begin()->first);
  finished_.Notify();
}

void Injector::WaitUntil(absl::Duration time) {
  while (true) {
    const absl::Duration now = stop_.HasBeenNotified() ? absl::InfiniteDuration() : Elapsed();
    while (!undo_.empty() && undo_.begin()->first <= now) {
      undo_.begin()->second();
      undo_.erase(undo_.begin());
    }
    if (now >= time) return;
    const absl::Duration next = undo_.empty() ? time : std::min(time, undo_.begin()->first);
    stop_.WaitForNotificationWithTimeout(next - now);
  }
}

void Injector::Do(const Fault& fault) {
  InjectedFault done = {.fault = fault, .at = Elapsed(), .hit = false, .what = ""};
  // Known before it is done, since what comes of it is told at once by another thread.
  done.hit = true;
  size_t index = 0;
  {
    MutexLock lock(&mu_);
    index = faults_.size();
    faults_.push_back(done);
  }
  const int executor = fault.executor;
  pid_t pid = 0;
  switch (fault.kind) {
    case Kind::kKillNode:
    case Kind::kStopNode:
      pid = NodePid(executor);
      done.hit = Signal(pid, fault.kind == Kind::kKillNode ? SIGKILL : SIGSTOP, fault);
      break;
    case Kind::kKillAgent:
    case Kind::kStopAgent:
      pid = AgentPid(executor);
      done.hit = Signal(pid, fault.kind == Kind::kKillAgent ? SIGKILL : SIGSTOP, fault);
      break;
    case Kind::kKillListener:
      pid = reach_.kill_listener == nullptr ? 0 : reach_.kill_listener(executor);
      done.hit = pid != 0;
      break;
    case Kind::kKillExecutor:
    case Kind::kStopExecutor:
      pid = ExecutorPid(executor);
      done.hit = Signal(pid, fault.kind == Kind::kKillExecutor ? SIGKILL : SIGSTOP, fault);
      break;
    case Kind::kStopDriver:
      if (reach_.driver == nullptr) {
        StopDriverAnd({}, fault.duration);
      } else {
        done.hit = StopOthersDriver(fault);
      }
      break;
    case Kind::kStopDriverJvm:
    case Kind::kStopCoordinator:
      done.hit = StopOthersDriver(fault);
      break;
    case Kind::kSuspend: {
      std::vector<pid_t> pids;
      for (const ProcessInfo& process : leaks_.Processes()) pids.push_back(process.pid);
      StopDriverAnd(std::move(pids), fault.duration);
      break;
    }
    case Kind::kCutConnection:
      done.hit = reach_.launcher != nullptr && reach_.launcher->CutAll(executor);
      break;
    case Kind::kHoldConnection:
      done.hit = reach_.launcher != nullptr && reach_.launcher->HoldAll(executor, fault.duration);
      break;
    case Kind::kFillDisk:
      done.hit = disk_.Fill();
      UndoLater(fault, [this] { disk_.Free(); });
      break;
    case Kind::kFewDescriptors:
      pid = NodePid(executor);
      done.hit = FewDescriptors(pid, fault);
      break;
    case Kind::kFewDescriptorsOfAgent:
      pid = AgentPid(executor);
      done.hit = FewDescriptors(pid, fault);
      break;
    case Kind::kFewDescriptorsOfDriver:
      done.hit = FewDescriptors(::getpid(), fault);
      break;
    case Kind::kLittleMemory:
      pid = AgentPid(executor);
      done.hit = LittleMemory(pid, NodePid(executor), fault);
      break;
    case Kind::kJumpDate:
      done.hit = clock_.Jump(fault.jump);
      UndoLater(fault, [this] { clock_.Jump(absl::ZeroDuration()); });
      break;
    case Kind::kJumpDateOfDriver:
      done.hit = JumpOwnClock(fault.jump);
      UndoLater(fault, [] { JumpOwnClock(absl::ZeroDuration()); });
      break;
  }
  if (pid != 0) done.what = absl::StrCat("process ", pid);
  MutexLock lock(&mu_);
  faults_[index] = done;
}

void Injector::StopDriverAnd(std::vector<pid_t> pids, absl::Duration duration) {
  pids.push_back(::getpid());
  const absl::Duration before = Elapsed();
  StopFor(pids, duration);
  stopped_ += Elapsed() - before;
}

bool Injector::StopOthersDriver(const Fault& fault) {
  const DriverPids pids = reach_.driver == nullptr ? DriverPids() : reach_.driver();
  const bool coordinator =
      fault.kind != Kind::kStopDriverJvm && Signal(pids.coordinator, SIGSTOP, fault);
  const bool jvm = fault.kind != Kind::kStopCoordinator && Signal(pids.jvm, SIGSTOP, fault);
  return coordinator || jvm;
}

bool Injector::Signal(pid_t pid, int signal, const Fault& fault) {
  if (!IsOurs(pid) || ::kill(pid, signal) != 0) return false;
  if (signal == SIGSTOP) {
    UndoLater(fault, [this, pid] {
      if (IsOurs(pid)) ::kill(pid, SIGCONT);
    });
  }
  return true;
}

bool Injector::FewDescriptors(pid_t pid, const Fault& fault) {
  if (pid != ::getpid() && !IsOurs(pid)) return false;
  const std::optional<uint64_t> before = LimitDescriptors(pid);
  if (!before.has_value()) return false;
  UndoLater(fault, [pid, before] { RestoreDescriptors(pid, *before); });
  return true;
}

bool Injector::LittleMemory(pid_t agent, pid_t node, const Fault& fault) {
  auto group = std::make_shared<MemoryGroup>();
  if (!IsOurs(agent) || !group->Add(agent)) return false;
  UndoLater(fault, [group] { group->Release(); });
  if (IsOurs(node)) ::kill(node, SIGKILL);
  return true;
}

void Injector::UndoLater(const Fault& fault, Undo undo) {
  undo_.emplace(Elapsed() + fault.duration, std::move(undo));
}

bool Injector::IsOurs(pid_t pid) const {
  if (pid <= 1) return false;
  const std::vector<ProcessInfo> processes = leaks_.Processes();
  return std::any_of(processes.begin(), processes.end(), [pid](const ProcessInfo& process) {
    return process.pid == pid && process.state != 'Z';
  });
}

pid_t Injector::NodePid(int executor) const {
  MutexLock lock(&mu_);
  const auto slot = slots_.find(executor);
  return slot == slots_.end() ? 0 : static_cast<pid_t>(slot->second.node_pid);
}

pid_t Injector::AgentPid(int executor) const {
  MutexLock lock(&mu_);
  const auto slot = slots_.find(executor);
  return slot == slots_.end() ? 0 : static_cast<pid_t>(slot->second.agent_pid);
}

pid_t Injector::ExecutorPid(int executor) const {
  const std::optional<ProcessInfo> agent = ReadProcess(AgentPid(executor));
  const std::optional<ProcessInfo> parent =
      agent.has_value() ? ReadProcess(agent->parent) : std::nullopt;
  // An agent that has outlived its executor is somebody else's child.
  if (!parent.has_value() || !absl::StrContains(parent->command, "ExecutorBackend")) return 0;
  return parent->pid;
}

}  // namespace millrace::chaos
