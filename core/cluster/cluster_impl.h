// File: core/cluster/cluster_impl.h
//
// What stands behind a Cluster (millrace/cluster.h).
//
// Defines: Cluster::Impl. Its feeding is in cluster_feed.cc, everything else in cluster.cc.

#ifndef CORE_CLUSTER_CLUSTER_IMPL_H_
#define CORE_CLUSTER_CLUSTER_IMPL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/cluster/cluster_directory.h"
#include "core/cluster/progress.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/coordinator_options.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/inference_job.h"
#include "millrace/cluster.h"

namespace millrace {

class [[gnu::visibility("hidden")]] Cluster::Impl : public CoordinatorObserver {
 public:
  Impl(Launcher & launcher, ClusterOptions options, std::vector<NodeRole> roles)
      : launcher_(launcher),
        options_(std::move(options)),
        roles_(std::move(roles)),
        progress_(options_.progress.value_or(Progress::StderrIsTerminal()),
                  static_cast<int>(roles_.size()), Progress::WriteToStderr, RealClock()) {}

  ~Impl() override {
    if (!shutdown_started_) Abort();
  }

  absl::Status Start(const NodeProgram& program);
  // Ends everything at once.
  void Abort();
  absl::StatusOr<TrainResult> Train(const PartitionedSource& source, const TrainOptions& options);
  absl::Status CheckInference(const InferenceOptions& options);
  absl::Status Infer(const PartitionedSource& source, const InferenceOptions& options,
                     const InferenceJob::Sink& sink);
  absl::Status EndFeed(absl::string_view queue);
  absl::Status Shutdown(const ShutdownOptions& options);

  std::string EndpointNamed(const std::string& name) const;
  const ClusterOptions& options() const { return options_; }
  Coordinator& coordinator() const { return *coordinator_; }

 private:
  using Cancel = std::function<void(const absl::Status&)>;

  // CoordinatorObserver.
  void OnSlot(const SlotStatus& slot) override;
  void OnOutput(int executor_id, const NodeRole& role, LogSource source,
                const std::vector<std::string>& lines, uint64_t dropped) override;
  void OnBytes(int executor_id, const NodeRole& role, LogSource source, std::string bytes,
               const std::function<void()>& taken) override;
  void OnMetric(int executor_id, const NodeRole& role, absl::string_view name, int64_t step,
                double value) override;
  void OnRelaunch(int executor_id) override;
  void OnRestart(const NodeRestart& restart) override;
  void OnFailure(const absl::Status& status) override;
  void OnOperatorStop(const absl::Status& status, bool now) override;

  absl::Status LaunchAgents();
  AgentTicket TicketOf(int executor_id) const;
  absl::Status CheckQueue(absl::string_view queue);
  absl::Status CheckFeed(absl::string_view queue, absl::Duration feed_timeout, int64_t batch_bytes);
  absl::StatusOr<TrainResult> RunTrainJob(const PartitionedSource& source,
                                          const TrainOptions& options);
  // Waits for the nodes' feeds, then runs `run`, so that a failure, a shutdown or `stop` (may be
  // null) cancels it, and explains its error.
  absl::Status RunCancellable(Cancel cancel, StopRequest * stop, absl::Duration feed_timeout,
                              const std::function<absl::Status()>& run);
  void CancelJobs(const absl::Status& status);
  void OnStopRequest(const std::string& reason, bool now);
  absl::Status Explain(const absl::Status& status);
  absl::Status EndNodes(const ShutdownOptions& options);
  void TearDown();

  Launcher& launcher_;
  const ClusterOptions options_;
  const std::vector<NodeRole> roles_;  // by executor id
  Progress progress_;

  // Written by Start only. A launcher that refused may be running another cluster.
  bool launched_ = false;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ClusterDirectory> directory_;
  std::unique_ptr<Feeder> feeder_;  // null in InputMode DIRECT

  Mutex mu_;
  CondVar changed_;
  std::set<std::string> training_ ABSL_GUARDED_BY(mu_);  // queues of Train calls under way
  std::set<std::string> ended_ ABSL_GUARDED_BY(mu_);     // queues after EndFeed: no training
  std::map<int64_t, Cancel> jobs_ ABSL_GUARDED_BY(mu_);
  int64_t next_job_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);  // why jobs may not run any more
  bool shutdown_started_ = false;  // written under mu_; read without it by the destructor only
  bool shutdown_done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status shutdown_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // CORE_CLUSTER_CLUSTER_IMPL_H_
