#include "dashboard/model/cluster_state.h"

#include <algorithm>
#include <cmath>

namespace millrace::dashboard {
namespace {

// As long as what the status bar compares with the half minute before.
constexpr double kLatelySeconds = 8;

}  // namespace

void Lately::Add(float value, absl::Time time) {
  if (!Known(value)) {
    *this = Lately();
    return;
  }
  if (values > 0 && time <= at) return;
  // The first ones count alike: none of them stands for all that was before it.
  const double weight =
      values == 0 ? 1
                  : std::max(1.0 / (values + 1),
                             1 - std::exp(-absl::ToDoubleSeconds(time - at) / kLatelySeconds));
  mean = values == 0 ? value : mean + (value - mean) * static_cast<float>(weight);
  at = time;
  ++values;
}

absl::string_view GpuMetricName(GpuMetric metric) {
  constexpr absl::string_view kNames[kGpuMetrics] = {"utilisation", "memory", "power",
                                                     "temperature", "clock",  "memory bandwidth"};
  return kNames[static_cast<int>(metric)];
}

float QueueState::placed() const {
  if (sample.batches_received() == 0) return kUnknown;
  return static_cast<float>(static_cast<double>(sample.batches_placed()) /
                            static_cast<double>(sample.batches_received()));
}

absl::Time NodeState::since() const {
  return state >= 0 && state < kSlotStates ? reached[state] : absl::InfinitePast();
}

bool SlowsDown(const std::vector<std::string>& throttle_reasons) {
  for (const std::string& reason : throttle_reasons) {
    if (reason != "gpu_idle" && reason != "applications_clocks_setting" && reason != "sync_boost" &&
        reason != "display_clock_setting" && reason != "sw_power_cap" && reason != "none") {
      return true;
    }
  }
  return false;
}

}  // namespace millrace::dashboard
