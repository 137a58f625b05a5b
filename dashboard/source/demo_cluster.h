// File: dashboard/source/demo_cluster.h
//
// The simulated cluster behind the demo: what its coordinator would tell a reader, second by
// second.
//
// Defines: DemoShape, DemoCluster.

#ifndef DASHBOARD_SOURCE_DEMO_CLUSTER_H_
#define DASHBOARD_SOURCE_DEMO_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/watch.pb.h"

namespace millrace::dashboard {

struct DemoShape {
  int nodes = 0;
  int gpus_per_node = 0;
  std::string scenario;  // empty: all is well
  uint64_t seed = 0;
  int sample_every = 0;  // seconds; 0: as DemoOptions
  absl::Time started;
};

// Same shape, same updates. Thread safety: not thread-safe.
class DemoCluster {
 public:
  explicit DemoCluster(const DemoShape& shape);

  // What changed in the second that ends `second` seconds (0, 1, 2, ...) after the start. Call it
  // for each second in order. The first is a snapshot.
  [[nodiscard]] v1::WatchUpdate Step(int second);

 private:
  struct Node {
    std::string job;
    int task = 0;
    bool fed = false;
    v1::SlotState state = v1::SLOT_STATE_UNSPECIFIED;  // as last told
    uint32_t attempt = 0;
    double attempt_from = 0;  // seconds after the start
    double ends = 1e18;       // when it fails, seconds after the start
    int64_t pid = 0;
    int port = 0;
    // Counters of this attempt.
    double cpu_us = 0, rows = 0, bytes = 0, wait_us = 0, compute_us = 0, decode_us = 0, full_us = 0;
    double last_sample = 0;
    int64_t step = 0;
  };
  // What a fed node does with its time, and its GPUs with theirs.
  struct Load {
    double rows_per_second = 0;
    double starved = 0, compute = 0, decode = 0, backpressured = 0;
    double gpu_percent = 0;
    double queued_bytes = 0;
  };

  // 0 to 1, the same for the same arguments.
  [[nodiscard]] double Noise(uint64_t a, uint64_t b, uint64_t c = 0) const;
  [[nodiscard]] std::string Name(int node) const;
  [[nodiscard]] int Find(absl::string_view job, int task) const;
  // Seconds after its attempt began at which a node reaches `state`.
  [[nodiscard]] double ReachedAfter(int node, v1::SlotState state) const;
  [[nodiscard]] v1::SlotState StateAt(int node, double second) const;
  [[nodiscard]] Load LoadOf(int node, int second) const;
  [[nodiscard]] std::string FailureText(int node, absl::string_view what) const;
  [[nodiscard]] absl::Time At(double second) const {
    return shape_.started + absl::Seconds(second);
  }

  void Script(int second, v1::WatchUpdate* update);
  void Restart(int node, double second, absl::string_view why, v1::WatchUpdate* update);
  void Fail(int node, double second, absl::string_view what, bool folded, v1::WatchUpdate* update);
  void AddSlots(int second, v1::WatchUpdate* update);
  void AddSample(int node, int second, v1::WatchUpdate* update);
  void AddGpus(int node, int second, const Load& load, v1::NodeSample* sample);
  void AddCluster(v1::WatchUpdate* update);
  void AddFeed(int second, v1::WatchUpdate* update);
  void AddMetricsAndLogs(int second, v1::WatchUpdate* update);
  void AddMembership(int second, v1::WatchUpdate* update);
  v1::Event* AddEvent(double second, absl::string_view kind, v1::Event::Severity severity, int node,
                      absl::string_view text, v1::WatchUpdate* update);
  void AddLog(int node, double second, v1::LogLines::Source source, absl::string_view line,
              v1::WatchUpdate* update);

  const DemoShape shape_;
  std::vector<Node> nodes_;
  int workers_ = 0;       // that are fed
  int sample_every_ = 1;  // seconds
  uint64_t events_ = 0;
  uint64_t epoch_ = 0;
  bool membership_changed_ = false;
  double running_since_ = -1;  // all nodes are; seconds after the start
  int first_cause_ = -1;
  std::string first_cause_text_;
  int folded_ = 0;
  double stopped_at_ = 1e18;
  double rows_done_ = 0;
  bool feed_opened_ = false;
  bool feed_closed_ = false;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_DEMO_CLUSTER_H_
