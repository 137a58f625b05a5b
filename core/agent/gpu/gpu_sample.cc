#include "core/agent/gpu/gpu_sample.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/agent/node/node_environment.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

// Calls `set` of `out` if there is a value.
template <typename Value, typename Field>
void Set(const std::optional<Value>& value, v1::GpuSample* out, void (v1::GpuSample::*set)(Field)) {
  if (value.has_value()) (out->*set)(static_cast<Field>(*value));
}

v1::GpuSample ToProto(const GpuReading& gpu, const GpuSnapshot& snapshot) {
  v1::GpuSample out;
  out.set_index(static_cast<uint32_t>(std::max(gpu.index, 0)));
  out.set_uuid(gpu.uuid);
  out.set_name(gpu.name);
  out.set_pci_bus_id(gpu.pci_bus_id);
  out.set_parent_uuid(gpu.parent_uuid);
  out.set_error(gpu.error);
  out.set_source(std::string(GpuSourceName(snapshot.source)));
  *out.mutable_time() = TimeToProto(snapshot.time);
  Set(gpu.utilization_percent, &out, &v1::GpuSample::set_utilization_percent);
  Set(gpu.memory_utilization_percent, &out, &v1::GpuSample::set_memory_utilization_percent);
  Set(gpu.memory_used_bytes, &out, &v1::GpuSample::set_memory_used_bytes);
  Set(gpu.memory_total_bytes, &out, &v1::GpuSample::set_memory_total_bytes);
  Set(gpu.power_watts, &out, &v1::GpuSample::set_power_watts);
  Set(gpu.power_limit_watts, &out, &v1::GpuSample::set_power_limit_watts);
  Set(gpu.temperature_celsius, &out, &v1::GpuSample::set_temperature_celsius);
  Set(gpu.sm_clock_mhz, &out, &v1::GpuSample::set_sm_clock_mhz);
  Set(gpu.memory_clock_mhz, &out, &v1::GpuSample::set_memory_clock_mhz);
  Set(gpu.max_sm_clock_mhz, &out, &v1::GpuSample::set_max_sm_clock_mhz);
  if (gpu.throttle_reasons.has_value()) {
    out.set_throttle_known(true);
    for (const std::string& reason : *gpu.throttle_reasons) out.add_throttle_reasons(reason);
  }
  Set(gpu.pcie_generation, &out, &v1::GpuSample::set_pcie_generation);
  Set(gpu.pcie_width, &out, &v1::GpuSample::set_pcie_width);
  Set(gpu.pcie_rx_bytes_per_second, &out, &v1::GpuSample::set_pcie_rx_bytes_per_second);
  Set(gpu.pcie_tx_bytes_per_second, &out, &v1::GpuSample::set_pcie_tx_bytes_per_second);
  Set(gpu.ecc_corrected, &out, &v1::GpuSample::set_ecc_corrected);
  Set(gpu.ecc_uncorrected, &out, &v1::GpuSample::set_ecc_uncorrected);
  Set(gpu.last_xid, &out, &v1::GpuSample::set_last_xid);
  Set(gpu.xid_count, &out, &v1::GpuSample::set_xid_count);
  Set(gpu.sm_active_percent, &out, &v1::GpuSample::set_sm_active_percent);
  Set(gpu.sm_occupancy_percent, &out, &v1::GpuSample::set_sm_occupancy_percent);
  Set(gpu.tensor_active_percent, &out, &v1::GpuSample::set_tensor_active_percent);
  Set(gpu.dram_active_percent, &out, &v1::GpuSample::set_dram_active_percent);
  if (gpu.processes.has_value()) {
    for (const GpuProcessReading& process : *gpu.processes) {
      v1::GpuProcess* added = out.add_processes();
      added->set_pid(process.pid);
      if (process.memory_bytes.has_value()) added->set_memory_bytes(*process.memory_bytes);
    }
  }
  if (gpu.mig_mode.has_value()) out.set_mig_mode(*gpu.mig_mode);
  return out;
}

}  // namespace

bool WatchesHostGpus(const ClusterSpec& spec, absl::string_view job_name, int task_index) {
  const absl::StatusOr<std::string> address = spec.TaskAddress(job_name, task_index);
  if (!address.ok()) return false;
  const std::string host = HostOf(*address);
  for (const std::string& job : spec.jobs()) {
    const absl::StatusOr<const ClusterSpec::TaskMap*> tasks = spec.TaskMapOf(job);
    if (!tasks.ok()) continue;
    for (const auto& [index, other] : **tasks) {
      if (HostOf(other) == host) return job == job_name && index == task_index;
    }
  }
  return false;
}

void AddGpus(const GpuSnapshot& snapshot, v1::NodeSample* sample) {
  sample->clear_gpus();
  sample->set_gpus_unknown(snapshot.unknown);
  for (const GpuReading& gpu : snapshot.gpus) *sample->add_gpus() = ToProto(gpu, snapshot);
}

}  // namespace millrace
