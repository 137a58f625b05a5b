// File: core/gpu/gpu_snapshot.h
//
// What is known of a host's GPUs at one moment, as the agent's GpuMonitor has it.
//
// Defines: GpuProcessReading, GpuReading, GpuSource, GpuSnapshot, GpuSourceName().
//
//   for (const GpuReading& gpu : snapshot.gpus) {
//     if (gpu.power_watts.has_value()) Show(*gpu.power_watts);   // otherwise "unknown", never 0
//   }
//
// A value that the driver cannot tell is unset, never 0. Thread safety: ordinary values.

#ifndef CORE_GPU_GPU_SNAPSHOT_H_
#define CORE_GPU_GPU_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

struct GpuProcessReading {
  int64_t pid = 0;  // in the helper's PID namespace
  std::optional<uint64_t> memory_bytes;
};

// One GPU, or one MIG instance of a GPU (parent_uuid is set then).
//
// No table makes a value's way from the driver to a panel, because at each step something else is
// done to it: millrace-gpu calls what NVML has for it, in NVML's unit; gpu_lines.cc checks its
// range and converts it, and has the column of nvidia-smi that comes nearest; v1::GpuSample takes
// it to readers, and is not this struct since core/gpu has no Protobuf; the window keeps it where
// it is drawn from.
struct GpuReading {
  int index = -1;    // of the GPU among its host's, in PCI order; of an instance: its GPU's
  std::string uuid;  // "GPU-..." or "MIG-..."; empty: unknown
  std::string name;
  std::string pci_bus_id;               // "00000000:3B:00.0"
  std::string parent_uuid;              // of the GPU that this is a MIG instance of
  std::optional<int> gpu_instance;      // MIG only
  std::optional<int> compute_instance;  // MIG only
  // Why values of this GPU are missing ("GPU is lost"); empty if nothing went wrong. The values
  // that could be read are here all the same.
  std::string error;

  // Share of the last sample period (up to a second) in which a kernel ran, or memory was in use.
  std::optional<double> utilization_percent;
  std::optional<double> memory_utilization_percent;
  std::optional<uint64_t> memory_used_bytes;
  std::optional<uint64_t> memory_total_bytes;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> temperature_celsius;
  std::optional<uint32_t> sm_clock_mhz;
  std::optional<uint32_t> memory_clock_mhz;
  std::optional<uint32_t> max_sm_clock_mhz;
  // Why the clocks are lower than they could be, by NVML's names in lower case ("sw_power_cap");
  // empty: they are not.
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<uint32_t> pcie_generation;
  std::optional<uint32_t> pcie_width;
  std::optional<uint64_t> pcie_rx_bytes_per_second;  // to the GPU
  std::optional<uint64_t> pcie_tx_bytes_per_second;
  std::optional<uint64_t> ecc_corrected;  // since the driver was loaded
  std::optional<uint64_t> ecc_uncorrected;
  std::optional<uint32_t> last_xid;   // unset: none came
  std::optional<uint32_t> xid_count;  // since the monitor started; unset: no events from this GPU
  // Hopper and later (GPM), over the time between two samples.
  std::optional<double> sm_active_percent;
  std::optional<double> sm_occupancy_percent;
  std::optional<double> tensor_active_percent;
  std::optional<double> dram_active_percent;

  std::optional<std::vector<GpuProcessReading>> processes;
  std::optional<bool> mig_mode;
};

enum class GpuSource {
  kUnknown,    // neither answers; GpuSnapshot::unknown says why
  kNvml,       // millrace-gpu
  kNvidiaSmi,  // nvidia-smi --query-gpu, where NVML cannot be loaded
};

// "unknown", "nvml" or "nvidia-smi".
[[nodiscard]] absl::string_view GpuSourceName(GpuSource source);

struct GpuSnapshot {
  absl::Time time = absl::InfinitePast();  // of reading, on this host's clock
  GpuSource source = GpuSource::kUnknown;
  // Why nothing (kUnknown) or nothing newer is known: "libnvidia-ml.so.1 cannot be loaded: ...".
  // Empty: all is well.
  std::string unknown;
  std::string driver_version;
  std::string nvml_version;
  std::vector<GpuReading> gpus;  // by index; the instances of a GPU follow it
};

}  // namespace millrace

#endif  // CORE_GPU_GPU_SNAPSHOT_H_
