// File: core/cli/signal_watch.h
//
// Ctrl-C, Ctrl-Z and their like, and a time limit, as calls on a thread.
//
//   BlockTerminationSignals();              // first in main, before there are threads
//   SignalWatch watch({.on_signal = [&](int signal, int count) { stop.Request(..., count > 1); }});
#ifndef CORE_CLI_SIGNAL_WATCH_H_
#define CORE_CLI_SIGNAL_WATCH_H_

#include <functional>

#include "absl/time/time.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

namespace millrace::cli {

// SIGINT, SIGTERM and SIGHUP wait for a SignalWatch from now on, but for those that whoever started
// this program has ignored (nohup, a script's background job); SIGPIPE is ignored, so that a write
// says that nobody reads.
void BlockTerminationSignals();
// SIGTSTP (Ctrl-Z) waits for a SignalWatch too, unless it is ignored.
void BlockSuspendSignal();
// SIGINT, SIGTERM and SIGHUP end the process again, for commands that hold nothing.
void UnblockTerminationSignals();

// One thread, "cli-signals". Thread safety: single-threaded. Blocking: the destructor waits for a
// callback under way.
class SignalWatch {
 public:
  struct Callbacks {
    // `count`: from 1, how many signals there were in all.
    std::function<void(int signal, int count)> on_signal;
    std::function<void()> on_timeout;  // `timeout` after the watch began; once
    // With BlockSuspendSignal(). Returns whether this process is to stop now; then on_resume
    // follows when it goes on, and the time between does not count for `timeout`.
    std::function<bool()> on_suspend;
    std::function<void()> on_resume;
  };
  explicit SignalWatch(Callbacks callbacks, absl::Duration timeout = absl::InfiniteDuration());
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void Run(absl::Duration timeout);
  // How long this process was stopped.
  absl::Duration Suspend();

  const Callbacks callbacks_;
  UniqueFd signals_;
  UniqueFd end_;  // eventfd
  Thread thread_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_SIGNAL_WATCH_H_
