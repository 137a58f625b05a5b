// File: testing/bench/dashboard_hour.h
//
// The dashboard's model through an hour of the largest cluster, as fast as it goes.
//
// Defines: HourCost, RunHour().

#ifndef TESTING_BENCH_DASHBOARD_HOUR_H_
#define TESTING_BENCH_DASHBOARD_HOUR_H_

#include <vector>

#include "absl/status/statusor.h"

namespace millrace::bench {

struct HourCost {
  std::vector<double> part_ms;     // CPU of each part of an update
  std::vector<double> advance_ms;  // CPU of letting time pass, 60 times a second
  double samples = 0;              // of nodes and GPUs, per second of the cluster's time
  double cpu_per_second = 0;       // CPU seconds per second of the cluster's time
  double message_bytes = 0;        // per second of the cluster's time
  double history_bytes = 0;        // at the end: the past of values
  double model_bytes = 0;          // at the end, as the model counts: log lines and states too
  double resident_bytes = 0;       // by which the process has grown
};

// `nodes` simulated nodes with `gpus` GPUs each, every one sampled every `sample_every` seconds (0:
// as often as a coordinator asks), with feed counters, metrics and log lines, for `seconds` of
// their time. Utilisation, power and memory traffic of a GPU are others in each sample, its
// temperature in most; its memory and its clock stay, as they do while a program trains.
[[nodiscard]] absl::StatusOr<HourCost> RunHour(int nodes, int gpus, int sample_every, int seconds);

}  // namespace millrace::bench

#endif  // TESTING_BENCH_DASHBOARD_HOUR_H_
