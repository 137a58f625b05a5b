// File: core/cluster/cluster_impl.h
//
// What stands behind a Cluster (millrace/cluster.h).
//
// Defines: Cluster::Impl. Its feeding is in cluster_feed.cc, the reading of results in
// cluster_results.cc, everything else in cluster.cc.

#ifndef CORE_CLUSTER_CLUSTER_IMPL_H_
#define CORE_CLUSTER_CLUSTER_IMPL_H_

#include <atomic>
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
#include "core/coordinator/state/saved_train.h"
#include "feed/feeder/feeder.h"
#include "millrace/cluster.h"

namespace millrace {

class [[gnu::visibility("hidden")]] Cluster::Impl : public CoordinatorObserver {
 public:
  Impl(Launcher & launcher, ClusterOptions options, std::vector<NodeRole> roles)
      : launcher_(launcher),
        options_(std::move(options)),
        roles_(std::move(roles)),
        progress_(options_.progress.value_or(Progress::StderrIsTerminal()),
                  static_cast<int>(roles_.size()), Progress::ShowOnStderr, RealClock()) {}

  ~Impl() override {
    if (!shutdown_started_) Abort();
  }

  // `resume`: takes over what is in options.resume.state_folder.
  absl::Status Start(const NodeProgram& program, bool resume);
  // Ends everything at once.
  void Abort();
  absl::StatusOr<TrainResult> Train(const PartitionedSource& source, const TrainOptions& options);
  absl::Status CheckInference(const InferenceOptions& options);
  using Sink = std::function<absl::Status(int partition, RecordBatch rows)>;
  absl::Status Infer(const std::shared_ptr<const PartitionedSource>& source,
                     const InferenceOptions& options, const Sink& sink);
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> OpenResults(
      const std::shared_ptr<const PartitionedSource>& source, const InferenceOptions& options);
  absl::Status EndFeed(absl::string_view queue);
  absl::Status Shutdown(const ShutdownOptions& options);

  std::string EndpointNamed(const std::string& name) const;
  const ClusterOptions& options() const { return options_; }
  Coordinator& coordinator() const { return *coordinator_; }

 private:
  using Cancel = std::function<void(const absl::Status&)>;
  class Results;
  class ResultsReader;

  // A call that feeds, from BeginCall() to EndCall(). Neither copyable nor movable: handlers point
  // to it.
  struct Call {
    StopRequest* stop = nullptr;  // null: nobody stops it alone
    int64_t id = -1;              // in calls_; -1: it is not there
    std::atomic<bool> given_up = false;
  };
  // What the cluster does to a call when it ends before it.
  struct OpenCall {
    Cancel cancel;
    Cancel end;  // as `cancel`, and EndCall(); empty if the call's own thread does that
  };

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
  absl::Status BeginTraining(const TrainOptions& options);
  absl::StatusOr<TrainResult> RunTrainJob(const PartitionedSource& source,
                                          const TrainOptions& options);
  // What is left of the call: all of it, but in a cluster that was taken over.
  absl::StatusOr<TrainResult> FeedTrain(const PartitionedSource& source,
                                        const TrainOptions& options, const SavedTrain& saved);
  // Waits for the nodes' feeds. From here on a failure, a shutdown or call->stop cancels the call.
  // After an error too, EndCall() is due.
  absl::Status BeginCall(OpenCall open, absl::Duration feed_timeout, Call * call);
  // With the status that the call came to, which is returned with its cause. Afterwards the cluster
  // may be gone.
  absl::Status EndCall(Call * call, absl::Status status);
  void CancelCalls(const absl::Status& status);
  void EndCalls();
  void OnStopRequest(const std::string& reason, bool now);
  absl::Status Explain(const absl::Status& status);
  absl::Status EndNodes(const ShutdownOptions& options);
  void TearDown();

  Launcher& launcher_;
  const ClusterOptions options_;
  const std::vector<NodeRole> roles_;  // by executor id
  Progress progress_;

  // The observer's calls wait for these: of a cluster that is taken over they may come at once.
  Notification has_coordinator_;
  Notification has_launched_;  // or has failed to

  // Written by Start only. A launcher that refused may be running another cluster.
  bool launched_ = false;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ClusterDirectory> directory_;
  std::unique_ptr<Feeder> feeder_;  // null in InputMode DIRECT

  Mutex mu_;
  CondVar changed_;
  std::set<std::string> training_ ABSL_GUARDED_BY(mu_);  // queues of Train calls under way
  std::set<std::string> ended_ ABSL_GUARDED_BY(mu_);     // queues after EndFeed: no training
  std::map<int64_t, OpenCall> calls_ ABSL_GUARDED_BY(mu_);
  int64_t next_call_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);  // why calls may not feed any more
  bool shutdown_started_ = false;  // written under mu_; read without it by the destructor only
  bool shutdown_done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status shutdown_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // CORE_CLUSTER_CLUSTER_IMPL_H_
