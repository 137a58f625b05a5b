// File: testing/bench/dashboard_viewer.h
//
// The dashboard without a window: its session, model and shell, drawn by the real Dear ImGui into
// draw lists that nobody shows, with all panels side by side.
//
// Defines: DashboardViewer, FrameCost, CountingSource, ThreadedSource, ThreadCpuTime().
//
//   DashboardViewer viewer(std::move(source));
//   viewer.OpenAllPanels(absl::Now());
//   FrameCost cost = viewer.Frame(absl::Now());

#ifndef TESTING_BENCH_DASHBOARD_VIEWER_H_
#define TESTING_BENCH_DASHBOARD_VIEWER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "dashboard/app/session.h"
#include "dashboard/app/shell.h"
#include "dashboard/source/update_source.h"

namespace millrace::bench {

// CPU time of the calling thread: other threads and programs do not count.
[[nodiscard]] absl::Duration ThreadCpuTime();

// What the frames of a viewer have been given.
struct Traffic {
  uint64_t samples = 0;  // of nodes
  absl::Duration age;    // of all these together when a frame took them, by this host's clock
  uint64_t gpus = 0;     // samples of GPUs
  uint64_t lines = 0;
  uint64_t metrics = 0;
  uint64_t bytes = 0;  // of messages
};

// Counts what passes by. Thread safety: as UpdateSource.
class CountingSource : public dashboard::UpdateSource {
 public:
  explicit CountingSource(std::unique_ptr<dashboard::UpdateSource> source)
      : source_(std::move(source)) {}
  [[nodiscard]] std::string title() const override { return source_->title(); }
  void Poll(absl::Time now, size_t max_updates,
            std::vector<dashboard::SourceUpdate>* updates) override;
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  const std::unique_ptr<dashboard::UpdateSource> source_;
  Traffic traffic_;
};

// A source that is polled by a thread of its own, as a live one reads: a simulation's own work is
// not the window's. Thread: "bench-source". Thread safety: as UpdateSource.
class ThreadedSource : public dashboard::UpdateSource {
 public:
  explicit ThreadedSource(std::unique_ptr<dashboard::UpdateSource> source);
  ~ThreadedSource() override;
  [[nodiscard]] std::string title() const override { return title_; }
  void Poll(absl::Time now, size_t max_updates,
            std::vector<dashboard::SourceUpdate>* updates) override;

 private:
  void Run();

  const std::unique_ptr<dashboard::UpdateSource> source_;
  const std::string title_;
  std::atomic<bool> stopping_{false};
  Mutex mu_;
  CondVar taken_;
  std::deque<dashboard::SourceUpdate> queue_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

// CPU time of the thread that drew it.
struct FrameCost {
  absl::Duration poll;   // taking updates, and the model's time passing
  absl::Duration build;  // from NewFrame() to Render()
};

// One at a time: it owns ImGui's context. Thread safety: not thread-safe.
class DashboardViewer {
 public:
  explicit DashboardViewer(std::unique_ptr<dashboard::UpdateSource> source);
  ~DashboardViewer();
  DashboardViewer(const DashboardViewer&) = delete;
  DashboardViewer& operator=(const DashboardViewer&) = delete;

  // Another cluster in the same window.
  void SetSource(std::unique_ptr<dashboard::UpdateSource> source);
  // Some frames in which every panel gets a place of its own, with a node selected.
  void OpenAllPanels(absl::Time now);
  // Clicks into the field that searches log lines.
  void FocusSearch();
  // Other text for the field that has the cursor.
  void Type(const std::string& text);
  // One frame, with the mouse somewhere else than in the frame before.
  FrameCost Frame(absl::Time now);

  [[nodiscard]] const dashboard::DashboardModel& model() const { return session_->model(); }
  [[nodiscard]] const Traffic& traffic() const { return counting_->traffic(); }
  // Of the last frame.
  [[nodiscard]] int panels_drawn() const;
  [[nodiscard]] int vertices() const { return vertices_; }

 private:
  class Host;

  void Dock();

  std::unique_ptr<Host> host_;
  std::unique_ptr<dashboard::Session> session_;
  CountingSource* counting_ = nullptr;  // of session_
  std::unique_ptr<dashboard::Shell> shell_;
  bool dock_ = false;
  std::optional<std::pair<float, float>> mouse_;  // where it stays
  int frames_ = 0;
  int vertices_ = 0;
};

}  // namespace millrace::bench

#endif  // TESTING_BENCH_DASHBOARD_VIEWER_H_
