// File: millrace/cluster_options.h
//
// How a cluster is made up, and what its driver hears of it. What its nodes get, how they are fed
// and what happens when they fail is in millrace/node_options.h.
//
// Defines: NodeOutput, ClusterObserver, ClusterOptions.
//
//   millrace::ClusterOptions options = {.num_executors = 4, .num_ps = 1, .master_node = "chief",
//                                       .input_mode = millrace::InputMode::kFeed};
//   options.node.gpus_per_node = 2;
//   options.failure.restart.max_restarts = 3;
//   options.observer.on_output = [](const millrace::NodeOutput& output) {
//     for (const std::string& line : output.lines) std::cout << output.node << ": " << line;
//   };
//
// No duration of 0 means "no limit": absl::InfiniteDuration() does.

#ifndef MILLRACE_CLUSTER_OPTIONS_H_
#define MILLRACE_CLUSTER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/cluster_status.h"
#include "millrace/node_options.h"
#include "millrace/option_defaults.h"
#include "millrace/restart_policy.h"
#include "millrace/resume_options.h"
#include "millrace/stop_request.h"

namespace millrace {

// Lines that a node wrote, in its order; valid during the call.
struct NodeOutput {
  absl::string_view node;  // "worker:1"
  LogSource source = LogSource::kStdout;
  std::span<const std::string> lines;
  uint64_t dropped = 0;  // lines before these that were left out here; log_dir has them
};

// Hears what happens, told from one thread, in order. Each may be empty; none may call the cluster.
struct ClusterObserver {
  std::function<void(const SlotStatus& slot)> on_slot;
  std::function<void(const NodeOutput& output)> on_output;
  // Everything that nodes write, byte for byte; empty at the end of a node's attempt. Nothing of it
  // is dropped: a node waits while its output is not taken. `taken` is to be called once, from any
  // thread; Shutdown waits for it, unless the nodes are killed at once (StopRequest).
  std::function<void(absl::string_view node, LogSource source, std::string bytes,
                     const std::function<void()>& taken)>
      on_bytes;
  std::function<void(absl::string_view node, absl::string_view name, int64_t step, double value)>
      on_metric;
  // A node failed and is started again. Empty: a warning in the log (RestartText()).
  std::function<void(const NodeRestart& restart)> on_restart;
  // Once: what the cluster's error is about. Called before Shutdown, or Run that fails, returns it.
  std::function<void(const NodeFailure& failure)> on_failure;
  // An operator has asked to stop the cluster.
  std::function<void()> on_operator_stop;
};

struct ClusterOptions {
  // What people see of the cluster beside its id: at most 64 bytes of UTF-8 without control
  // characters. Need not be unique; empty: nothing.
  std::string name;
  // Nodes in all: ps, master, evaluator and workers. At least 1.
  int num_executors = 1;
  // The first executor ids are parameter servers.
  int num_ps = 0;
  // "chief" or "master": the role of the first executor after the ps. Empty: worker:0 is first.
  std::string master_node;
  // The executor after that evaluates.
  bool eval_node = false;
  InputMode input_mode = InputMode::kDirect;
  // Where nodes' output and metrics go, and events.jsonl. Empty: a temporary directory, gone with
  // the cluster, and no events.jsonl. "file:///x" is /x; other URLs are refused.
  std::string log_dir;
  // TensorBoard on log_dir beside the chief, or worker:0 where there is none
  // (TensorBoardSidecar()).
  bool tensorboard = false;
  // How long all slots may take to be registered.
  absl::Duration reservation_timeout = kDefaultReservationTimeout;

  NodeOptions node;
  FeedOptions feed;
  FailureOptions failure;
  ResumeOptions resume;  // millrace/resume_options.h
  ClusterObserver observer;

  // "9000-9100": where the coordinator listens. Empty: anywhere.
  std::string coordinator_port_range;
  // Write ~/.millrace/clusters/<id>.json, by which dashboard and CLI find the cluster
  // (millrace/cluster_file.h); it is gone with the cluster.
  bool cluster_file = true;
  // The ladder and rows/s on stderr. Unset: if stderr is a terminal.
  std::optional<bool> progress;
  // Ends the cluster from another thread. Not owned; null: nobody does.
  StopRequest* stop_request = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_OPTIONS_H_
