// File: core/gpu/gpu_lines.h
//
// Reads what millrace-gpu and nvidia-smi write. Both are other programs: anything may come, and
// what makes no sense is "unknown".
//
// Defines: GpuLine, ParseGpuLine(), kNvidiaSmiArguments, ParseNvidiaSmi().
//
//   MILLRACE_ASSIGN_OR_RETURN(GpuLine line, ParseGpuLine(text));
//   if (line.kind == GpuLine::Kind::kSample) Show(line.snapshot);

#ifndef CORE_GPU_GPU_LINES_H_
#define CORE_GPU_GPU_LINES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/gpu/gpu_snapshot.h"

namespace millrace {

inline constexpr size_t kMaxGpuLineBytes = size_t{4} << 20;

// One line of millrace-gpu (core/gpu/README.md).
struct GpuLine {
  enum class Kind {
    kReady,   // snapshot has versions, and GPUs without values
    kSample,  // snapshot has time and GPUs, no versions
    kStuck,   // a driver call does not return: `gpu` (-1: none in particular), `text` is its name
    kError,   // NVML cannot be used: `text` says why
  };
  Kind kind = Kind::kError;
  GpuSnapshot snapshot;
  int gpu = -1;
  std::string text;  // short, on one line
};

// Members of the wrong type count as absent; so do values out of any sane range, and text is made
// harmless. Returns INVALID_ARGUMENT for anything that is none of the four kinds.
// Thread safety: pure function.
[[nodiscard]] absl::StatusOr<GpuLine> ParseGpuLine(absl::string_view line);

// What to ask nvidia-smi for: ParseNvidiaSmi() counts on these columns.
inline constexpr const char* kNvidiaSmiArguments[] = {
    "--query-gpu=index,uuid,name,pci.bus_id,driver_version,utilization.gpu,utilization.memory,"
    "memory.used,memory.total,power.draw,power.limit,temperature.gpu,clocks.sm,clocks.mem,"
    "clocks.max.sm,pcie.link.gen.current,pcie.link.width.current,mig.mode.current",
    "--format=csv,noheader,nounits"};

// The output of nvidia-smi. Columns such as "[N/A]" are unknown. MIG instances, processes,
// throttling, ECC and XID are not among the columns. Returns INVALID_ARGUMENT, quoting it, if a
// line has not as many columns as were asked for (nvidia-smi writes its errors to stdout). Thread
// safety: pure function.
[[nodiscard]] absl::StatusOr<GpuSnapshot> ParseNvidiaSmi(absl::string_view output, absl::Time time);

// Whether `id` can be a GPU's or MIG instance's id: "GPU-" or "MIG-" and up to 76 of A-Z a-z 0-9 -
// /.
[[nodiscard]] bool IsGpuId(absl::string_view id);

}  // namespace millrace

#endif  // CORE_GPU_GPU_LINES_H_
