// File: core/agent/gpu/gpu_monitor.h
//
// Knows what this host's GPUs do: runs millrace-gpu, ends it and starts it again when it is late,
// and asks nvidia-smi where NVML cannot be loaded.
//
// Defines: GpuMonitor.
//
//   GpuMonitor monitor(&loop, &reaper, {.environment = environment},
//                      [&](const GpuSnapshot& snapshot) { Send(snapshot); });
//   monitor.Start();
//
// A driver call may hang for good. The helper says which one; it is killed and started again
// without that GPU, which is tried again now and then. The agent itself never waits.

#ifndef CORE_AGENT_GPU_GPU_MONITOR_H_
#define CORE_AGENT_GPU_GPU_MONITOR_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/helper_process.h"
#include "core/base/line_reader.h"
#include "core/gpu/gpu_lines.h"
#include "core/gpu/gpu_snapshot.h"

namespace millrace {

// Ownership: loop and reaper must outlive it. Thread safety: the loop's thread only, the main
// thread. Blocking: never. Lifetime: the destructor kills the helper.
class GpuMonitor {
 public:
  struct Options {
    std::string helper;  // path of millrace-gpu; empty: FindGpuHelper(), beside this program
    std::string nvidia_smi = "nvidia-smi";  // a path, or a name in PATH
    std::vector<std::string> environment;   // "NAME=value", of this process; the children get it
    absl::Duration interval = absl::Seconds(1);
    absl::Duration late_after = absl::Seconds(5);      // without a line: killed
    absl::Duration start_timeout = absl::Seconds(30);  // for the first line: drivers load slowly
    absl::Duration stuck_after = absl::Seconds(2);     // one driver call
    absl::Duration min_backoff = absl::Seconds(1);
    absl::Duration max_backoff = absl::Minutes(1);
    absl::Duration smi_interval = absl::Seconds(5);
    absl::Duration smi_timeout = absl::Seconds(10);
    // When a GPU that was left out, and NVML that could not be used, are tried again.
    absl::Duration retry = absl::Minutes(2);
  };
  // Called when snapshot() has changed. Must not destroy the monitor.
  using UpdateFn = std::function<void(const GpuSnapshot&)>;

  GpuMonitor(EventLoop* loop, ChildReaper* reaper, Options options, UpdateFn on_update);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // Idempotent.
  void Start();

  // The last values, however old (`time`); `unknown` says why there are none, or none newer.
  [[nodiscard]] const GpuSnapshot& snapshot() const { return snapshot_; }
  // Whether snapshot() is an answer already, if only "unknown".
  [[nodiscard]] bool settled() const { return settled_; }
  // How often a helper was given up because it was late, hung in a call or crashed.
  [[nodiscard]] int restarts() const { return restarts_; }

 private:
  void StartHelper();
  void OnHelperOutput(absl::string_view bytes);
  void OnHelperLine(absl::string_view text);
  void OnHelperEnd(const ExitStatus& status);
  void OnStuck(const GpuLine& line);
  void OnLate();
  // Ends what runs and begins again after the backoff.
  void GiveUp(const std::string& why);
  void StartSmi();
  void OnSmiEnd(const ExitStatus& status);
  void SmiFailed(const std::string& why);
  // Keeps the last values and says why there is none newer.
  void SetUnknown(std::string why);
  void Publish(GpuSnapshot snapshot);
  void Rearm(absl::Duration delay, void (GpuMonitor::*then)());

  EventLoop* const loop_;
  ChildReaper* const reaper_;
  Options options_;
  const UpdateFn on_update_;
  bool started_ = false;
  bool settled_ = false;
  int restarts_ = 0;
  GpuSnapshot snapshot_;
  std::unique_ptr<HelperProcess> process_;                // millrace-gpu or nvidia-smi
  EventLoop::TimerId timer_ = EventLoop::kNoTimer;        // the next step, whatever it is
  EventLoop::TimerId retry_timer_ = EventLoop::kNoTimer;  // without left-out GPUs
  int helper_ = 0;                                        // counts those that were started
  std::unique_ptr<LineReader> lines_;
  std::string smi_output_;
  std::string driver_version_;
  std::string nvml_version_;
  std::string nvml_problem_;  // why NVML cannot be used; empty: it can
  std::string stuck_;         // the call that hung last, while it does
  std::set<int> skipped_;     // GPUs in whose calls the driver hung
  absl::Duration backoff_;
};

}  // namespace millrace

#endif  // CORE_AGENT_GPU_GPU_MONITOR_H_
