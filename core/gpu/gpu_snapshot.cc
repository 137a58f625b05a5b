#include "core/gpu/gpu_snapshot.h"

namespace millrace {

absl::string_view GpuSourceName(GpuSource source) {
  switch (source) {
    case GpuSource::kNvml:
      return "nvml";
    case GpuSource::kNvidiaSmi:
      return "nvidia-smi";
    case GpuSource::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace millrace
