// File: testing/chaos/injector.h
//
// Does a plan's faults to the processes of a running cluster, and remembers which came true.
//
// Defines: InjectedFault, DriverPids, Reach, Injector.

#ifndef TESTING_CHAOS_INJECTOR_H_
#define TESTING_CHAOS_INJECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "millrace/cluster_status.h"
#include "testing/chaos/machine.h"
#include "testing/chaos/plan.h"
#include "testing/chaos/proxied_launcher.h"
#include "testing/leak_check.h"

namespace millrace::chaos {

struct InjectedFault {
  Fault fault;
  absl::Duration at;  // when it was done, from the begin of the round
  bool hit = false;   // otherwise there was no such process then
  std::string what;   // pids
};

// Of a driver that is not this process; 0: unknown.
struct DriverPids {
  pid_t jvm = 0;
  pid_t coordinator = 0;
};

// How faults reach what a place has, and others have not. Called from the injector's thread.
struct Reach {
  ProxiedLauncher* launcher = nullptr;  // borrowed; null: connections are let be
  // Kills the agent that listens for an executor and starts another; returns its pid, 0 if there is
  // none. Null: nobody listens.
  std::function<pid_t(int executor)> kill_listener;
  // Null: the driver is this process.
  std::function<DriverPids()> driver;
};

// Where the driver is this process, what stops it is done by a child that continues it.
//
// Thread safety: thread-safe. Threads: "chaos-injector". Ownership: borrows everything.
class Injector {
 public:
  Injector(const Plan& plan, const LeakCheck& leaks, SmallDisk& disk, ClockFile& clock,
           Reach reach);
  // As Finish().
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  // What a cluster's observer is told.
  void OnSlot(const SlotStatus& slot);
  // From the begin.
  [[nodiscard]] absl::Duration Elapsed() const;
  // The last fault is done and undone.
  [[nodiscard]] bool finished() const { return finished_.HasBeenNotified(); }
  // Undoes what lasts, does nothing more, and returns when that is so.
  void Finish();
  [[nodiscard]] std::vector<InjectedFault> faults() const;

 private:
  using Undo = std::function<void()>;

  void Run();
  void WaitUntil(absl::Duration time);
  void Do(const Fault& fault);
  void StopDriverAnd(std::vector<pid_t> pids, absl::Duration duration);
  bool StopOthersDriver(const Fault& fault);
  bool FewDescriptors(pid_t pid, const Fault& fault);
  bool LittleMemory(pid_t agent, pid_t node, const Fault& fault);
  void UndoLater(const Fault& fault, Undo undo);
  bool Signal(pid_t pid, int signal, const Fault& fault);
  [[nodiscard]] bool IsOurs(pid_t pid) const;
  pid_t NodePid(int executor) const;
  pid_t AgentPid(int executor) const;
  // Of the JVM whose child the agent is; 0 if there is none.
  pid_t ExecutorPid(int executor) const;

  const Plan& plan_;
  const LeakCheck& leaks_;
  SmallDisk& disk_;
  ClockFile& clock_;
  const Reach reach_;
  const absl::Duration begin_;  // steady
  Notification stop_;
  Notification finished_;
  // The thread's.
  std::multimap<absl::Duration, Undo> undo_;  // by when it is due
  absl::Duration stopped_;                    // how long this process was
  mutable Mutex mu_;
  std::map<int, SlotStatus> slots_ ABSL_GUARDED_BY(mu_);
  std::vector<InjectedFault> faults_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_INJECTOR_H_
