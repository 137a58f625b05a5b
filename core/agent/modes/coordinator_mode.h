// File: core/agent/modes/coordinator_mode.h
//
// `millrace-agent coordinator`: a coordinator that its parent (the JVM of a Spark driver, or any
// other program) drives by JSON Lines; docs/control_protocol.md, section 5.

#ifndef CORE_AGENT_MODES_COORDINATOR_MODE_H_
#define CORE_AGENT_MODES_COORDINATOR_MODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/blocking_calls.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/loop/parent_link.h"
#include "core/agent/modes/coordinator_params.h"
#include "core/base/json.h"
#include "core/coordinator/coordinator.h"

namespace millrace {

// Ownership: the loop must outlive it. Thread safety: the loop's thread only; the coordinator's
// observer hands its events to the loop. Blocking: only Cleanup().
class CoordinatorMode : private CoordinatorObserver {
 public:
  struct Options {
    int in_fd = 0;   // from the parent
    int out_fd = 1;  // to the parent
    std::string version;
  };

  CoordinatorMode(EventLoop* loop, Options options);
  ~CoordinatorMode() override;

  // Says ready and serves the parent. The loop quits when the coordinator has ended.
  void Start();
  // Ends the cluster, as EOF on stdin does.
  void OnSignal(int signal);
  // Ends what is left within the time that a parent's end allows. Returns the exit code.
  int Cleanup();

 private:
  using Handler = absl::StatusOr<Json> (CoordinatorMode::*)(const Json& params);
  using Wait = std::function<absl::StatusOr<Json>(Coordinator&)>;

  // CoordinatorObserver, on its thread.
  void OnSlot(const SlotStatus& slot) override;
  void OnOutput(int executor_id, const NodeRole& role, LogSource source,
                const std::vector<std::string>& lines, uint64_t dropped) override;
  void OnMetric(int executor_id, const NodeRole& role, absl::string_view name, int64_t step,
                double value) override;
  void OnFailure(const absl::Status& status) override;
  void OnRelaunch(int executor_id) override;
  void OnRestart(const NodeRestart& restart) override;

  void OnRequest(const Json& id, const std::string& method, const Json& params);
  void OnParentGone(const absl::Status& status);
  void StartCoordinator(const Json& id, const Json& params);
  void OnStarted(const Json& id, const absl::StatusOr<Json>& outcome);
  absl::StatusOr<Wait> ParseWait(const std::string& method, const Json& params) const;
  void End(int exit_code, absl::string_view reason);
  void Quit();
  // An event from another thread; `droppable` ones are dropped while the parent does not read.
  void PostEvent(std::string name, OrderedJson members, bool droppable);

  // The methods that answer at once.
  static const std::map<std::string, Handler>& Handlers();
  absl::StatusOr<Json> Status(const Json& params);
  absl::StatusOr<Json> Spec(const Json& params);
  absl::StatusOr<Json> Endpoints(const Json& params);
  absl::StatusOr<Json> OpenFeed(const Json& params);
  absl::StatusOr<Json> CloseFeed(const Json& params);
  absl::StatusOr<Json> Summary(const Json& params);
  absl::StatusOr<Json> Unfinished(const Json& params);
  absl::StatusOr<Json> FeedEnd(const Json& params);
  absl::Status CheckFeedOrRound(const std::string& feed) const;
  absl::StatusOr<Json> EndFeed(const Json& params);
  absl::StatusOr<Json> AgentGone(const Json& params);
  absl::StatusOr<Json> Stop(const Json& params);

  EventLoop* const loop_;
  const Options options_;
  ParentLink parent_;
  bool starting_ = false;
  bool output_events_ = false;  // before the coordinator starts; then constant
  bool metric_events_ = false;
  uint64_t dropped_events_ = 0;  // not told yet
  bool ending_ = false;
  int exit_code_ = 0;
  EventLoop::TimerId end_timer_ = EventLoop::kNoTimer;
  std::shared_ptr<Coordinator> coordinator_;
  BlockingCalls calls_;  // last: joined before what its bodies use is gone
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_COORDINATOR_MODE_H_
