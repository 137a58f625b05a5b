#include "core/gpu/gpu_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxGpus = 256;
constexpr size_t kMaxInstances = 64;
constexpr size_t kMaxProcesses = 4096;
constexpr size_t kMaxTextBytes = 300;

const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string Text(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  if (value == nullptr || !value->is_string()) return "";
  return Ellipsize(EscapeControls(value->get_ref<const std::string&>()), kMaxTextBytes);
}

std::optional<double> Number(const Json& object, const char* key, double factor = 1) {
  const Json* value = Find(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->get<double>() * factor;
  if (!std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

// At most 2^53, so that doubles and integers mean the same.
std::optional<uint64_t> Count(const Json& object, const char* key) {
  const std::optional<double> number = Number(object, key);
  if (!number.has_value() || *number > 9007199254740992.0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<uint32_t> Small(const Json& object, const char* key) {
  const std::optional<uint64_t> count = Count(object, key);
  if (!count.has_value() || *count > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*count);
}

std::optional<int> Id(const Json& object, const char* key) {
  const std::optional<uint64_t> count = Count(object, key);
  if (!count.has_value() || *count > 65535) return std::nullopt;
  return static_cast<int>(*count);
}

std::optional<double> Percent(const Json& object, const char* key) {
  const std::optional<double> number = Number(object, key);
  // GPM overshoots by rounding.
  if (!number.has_value() || *number > 101) return std::nullopt;
  return std::min(*number, 100.0);
}

std::optional<std::vector<GpuProcessReading>> Processes(const Json& object) {
  const Json* list = Find(object, "processes");
  if (list == nullptr || !list->is_array()) return std::nullopt;
  std::vector<GpuProcessReading> processes;
  for (const Json& entry : *list) {
    if (!entry.is_object() || processes.size() == kMaxProcesses) continue;
    const std::optional<uint32_t> pid = Small(entry, "pid");
    if (pid.has_value()) processes.push_back({*pid, Count(entry, "memory_bytes")});
  }
  return processes;
}

std::string GpuId(const Json& object) {
  std::string id = Text(object, "uuid");
  return IsGpuId(id) ? id : "";
}

// What a GPU and an instance of one have in common.
GpuReading Common(const Json& object) {
  GpuReading gpu;
  gpu.uuid = GpuId(object);
  gpu.name = Text(object, "name");
  gpu.memory_used_bytes = Count(object, "memory_used_bytes");
  gpu.memory_total_bytes = Count(object, "memory_total_bytes");
  gpu.processes = Processes(object);
  gpu.sm_active_percent = Percent(object, "sm_active_percent");
  gpu.sm_occupancy_percent = Percent(object, "sm_occupancy_percent");
  gpu.tensor_active_percent = Percent(object, "tensor_active_percent");
  gpu.dram_active_percent = Percent(object, "dram_active_percent");
  return gpu;
}

GpuReading Whole(const Json& object, int index) {
  GpuReading gpu = Common(object);
  gpu.index = index;
  gpu.pci_bus_id = Text(object, "pci_bus_id");
  gpu.error = Text(object, "error");
  gpu.utilization_percent = Percent(object, "utilization_percent");
  gpu.memory_utilization_percent = Percent(object, "memory_utilization_percent");
  gpu.power_watts = Number(object, "power_mw", 1e-3);
  gpu.power_limit_watts = Number(object, "power_limit_mw", 1e-3);
  gpu.temperature_celsius = Number(object, "temperature_celsius");
  gpu.sm_clock_mhz = Small(object, "sm_clock_mhz");
  gpu.memory_clock_mhz = Small(object, "memory_clock_mhz");
  gpu.max_sm_clock_mhz = Small(object, "max_sm_clock_mhz");
  gpu.pcie_generation = Small(object, "pcie_generation");
  gpu.pcie_width = Small(object, "pcie_width");
  gpu.pcie_rx_bytes_per_second = Count(object, "pcie_rx_bytes_per_second");
  gpu.pcie_tx_bytes_per_second = Count(object, "pcie_tx_bytes_per_second");
  gpu.ecc_corrected = Count(object, "ecc_corrected");
  gpu.ecc_uncorrected = Count(object, "ecc_uncorrected");
  gpu.last_xid = Small(object, "last_xid");
  gpu.xid_count = Small(object, "xid_count");
  if (const Json* mig = Find(object, "mig_mode"); mig != nullptr && mig->is_boolean()) {
    gpu.mig_mode = mig->get<bool>();
  }
  if (const Json* reasons = Find(object, "throttle_reasons");
      reasons != nullptr && reasons->is_array() && reasons->size() <= 64) {
    gpu.throttle_reasons.emplace();
    for (const Json& reason : *reasons) {
      if (!reason.is_string()) continue;
      gpu.throttle_reasons->push_back(
          Ellipsize(EscapeControls(reason.get_ref<const std::string&>()), 64));
    }
  }
  return gpu;
}

void AddGpus(const Json& line, std::vector<GpuReading>* gpus) {
  const Json* list = Find(line, "gpus");
  if (list == nullptr || !list->is_array()) return;
  for (const Json& entry : *list) {
    if (!entry.is_object() || gpus->size() >= kMaxGpus) continue;
    const std::optional<int> index = Id(entry, "index");
    if (!index.has_value()) continue;
    GpuReading gpu = Whole(entry, *index);
    const std::string uuid = gpu.uuid;
    gpus->push_back(std::move(gpu));
    const Json* instances = Find(entry, "instances");
    if (instances == nullptr || !instances->is_array()) continue;
    size_t count = 0;
    for (const Json& instance : *instances) {
      if (!instance.is_object() || ++count > kMaxInstances) continue;
      GpuReading part = Common(instance);
      if (part.uuid.empty()) continue;
      part.index = *index;
      part.parent_uuid = uuid;
      part.gpu_instance = Id(instance, "gpu_instance");
      part.compute_instance = Id(instance, "compute_instance");
      gpus->push_back(std::move(part));
    }
  }
}

// ---- nvidia-smi ----

std::optional<double> CellNumber(absl::string_view text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

std::optional<uint64_t> CellCount(absl::string_view text, uint64_t factor = 1) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number > (uint64_t{1} << 40)) return std::nullopt;
  return number * factor;
}

std::optional<uint32_t> CellSmall(absl::string_view text) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

}  // namespace

bool IsGpuId(absl::string_view id) {
  if (id.size() < 5 || id.size() > 80) return false;
  if (!absl::StartsWith(id, "GPU-") && !absl::StartsWith(id, "MIG-")) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '/';
  });
}

absl::StatusOr<GpuLine> ParseGpuLine(absl::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json json,
                            ParseJson(text, {.max_depth = 8, .max_bytes = kMaxGpuLineBytes}));
  MILLRACE_ASSIGN_OR_RETURN(const std::string type, GetString(json, "type"));
  GpuLine line;
  line.snapshot.source = GpuSource::kNvml;
  if (type == "ready") {
    line.kind = GpuLine::Kind::kReady;
    line.snapshot.driver_version = Text(json, "driver_version");
    line.snapshot.nvml_version = Text(json, "nvml_version");
    AddGpus(json, &line.snapshot.gpus);
  } else if (type == "sample") {
    line.kind = GpuLine::Kind::kSample;
    if (const std::optional<uint64_t> time_ms = Count(json, "time_ms"); time_ms.has_value()) {
      line.snapshot.time = absl::FromUnixMillis(static_cast<int64_t>(*time_ms));
    }
    AddGpus(json, &line.snapshot.gpus);
  } else if (type == "stuck") {
    line.kind = GpuLine::Kind::kStuck;
    line.gpu = Id(json, "gpu").value_or(-1);
    line.text = Text(json, "call");
  } else if (type == "error") {
    line.kind = GpuLine::Kind::kError;
    line.text = Text(json, "message");
  } else {
    return absl::InvalidArgumentError(absl::StrCat("a line of millrace-gpu has the type \"",
                                                   Ellipsize(EscapeControls(type), 40), "\""));
  }
  return line;
}

absl::StatusOr<GpuSnapshot> ParseNvidiaSmi(absl::string_view output, absl::Time time) {
  const absl::string_view asked = kNvidiaSmiArguments[0];
  const auto column_count = static_cast<size_t>(std::count(asked.begin(), asked.end(), ',')) + 1;
  GpuSnapshot snapshot;
  snapshot.time = time;
  snapshot.source = GpuSource::kNvidiaSmi;
  for (const absl::string_view row : absl::StrSplit(output, '\n')) {
    if (absl::StripAsciiWhitespace(row).empty()) continue;
    std::vector<absl::string_view> cells = absl::StrSplit(row, ',');
    for (absl::string_view& cell : cells) cell = absl::StripAsciiWhitespace(cell);
    const std::optional<uint32_t> index = CellSmall(cells[0]);
    if (cells.size() != column_count || !index.has_value() || *index > 65535) {
      return absl::InvalidArgumentError(
          absl::StrCat("nvidia-smi: ", Ellipsize(EscapeControls(FirstLine(row)), 200)));
    }
    if (snapshot.gpus.size() == kMaxGpus) break;
    GpuReading gpu;
    gpu.index = static_cast<int>(*index);
    if (IsGpuId(cells[1])) gpu.uuid = std::string(cells[1]);
    gpu.name = Ellipsize(EscapeControls(cells[2]), kMaxTextBytes);
    gpu.pci_bus_id = Ellipsize(EscapeControls(cells[3]), kMaxTextBytes);
    snapshot.driver_version = Ellipsize(EscapeControls(cells[4]), kMaxTextBytes);
    gpu.utilization_percent = CellNumber(cells[5]);
    gpu.memory_utilization_percent = CellNumber(cells[6]);
    gpu.memory_used_bytes = CellCount(cells[7], uint64_t{1} << 20);
    gpu.memory_total_bytes = CellCount(cells[8], uint64_t{1} << 20);
    gpu.power_watts = CellNumber(cells[9]);
    gpu.power_limit_watts = CellNumber(cells[10]);
    gpu.temperature_celsius = CellNumber(cells[11]);
    gpu.sm_clock_mhz = CellSmall(cells[12]);
    gpu.memory_clock_mhz = CellSmall(cells[13]);
    gpu.max_sm_clock_mhz = CellSmall(cells[14]);
    gpu.pcie_generation = CellSmall(cells[15]);
    gpu.pcie_width = CellSmall(cells[16]);
    if (cells[17] == "Enabled" || cells[17] == "Disabled") gpu.mig_mode = cells[17] == "Enabled";
    snapshot.gpus.push_back(std::move(gpu));
  }
  return snapshot;
}

}  // namespace millrace
