/* A libnvidia-ml.so.1 whose GPUs stand in a text file (README.md has its lines). The file is read
 * again for every call, so that a test may change it while a program runs. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/gpu/nvml_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum { kMaxMig = 16, kMigHandle = 10000, kDeviceHandle = 1000, kMaxArrays = 64 };

static char script[65536];

static void ReadScript(void) {
  const char* path = getenv("FAKE_NVML_SCRIPT");
  FILE* file = path == NULL ? NULL : fopen(path, "re");
  size_t size = 0;
  if (file != NULL) {
    size = fread(script, 1, sizeof(script) - 1, file);
    fclose(file);
  }
  script[size] = '\0';
}

/* The `nth` line that begins with `prefix` and a space or the line's end; what follows in `rest`.
 */
static bool Line(const char* prefix, int nth, char* rest, size_t size) {
  const size_t length = strlen(prefix);
  for (const char* at = script; *at != '\0';) {
    const char* end = strchr(at, '\n');
    if (end == NULL) end = at + strlen(at);
    const bool found =
        strncmp(at, prefix, length) == 0 && (at[length] == ' ' || at + length == end);
    if (found && nth-- == 0) {
      const char* from = at + length < end ? at + length + 1 : end;
      snprintf(rest, size, "%.*s", (int)(end - from), from);
      return true;
    }
    at = *end == '\0' ? end : end + 1;
  }
  return false;
}

static bool LineOf(const char* kind, int index, int nth, char* rest, size_t size) {
  char prefix[64];
  snprintf(prefix, sizeof(prefix), "%s %d", kind, index);
  return Line(prefix, nth, rest, size);
}

/* The value of "key=value" among the words of `rest`. */
static bool Member(const char* rest, const char* key, char* value, size_t size) {
  const size_t length = strlen(key);
  for (const char* at = rest; *at != '\0';) {
    const size_t word = strcspn(at, " ");
    if (word > length && strncmp(at, key, length) == 0 && at[length] == '=') {
      snprintf(value, size, "%.*s", (int)(word - length - 1), at + length + 1);
      return true;
    }
    at += word;
    at += strspn(at, " ");
  }
  return false;
}

/* ---- what a call does ---- */

typedef struct {
  int gpu;      /* -1: none */
  int instance; /* number of its mig line; -1: the GPU itself */
} Target;

static Target TargetOf(NvmlDeviceHandle device) {
  const long number = (long)(intptr_t)device;
  if (number >= kMigHandle) {
    return (Target){(int)(number - kMigHandle) / 100, (int)(number - kMigHandle) % 100};
  }
  return (Target){(int)number - kDeviceHandle, -1};
}

/* What the script says about `symbol` for GPU `gpu`: hangs, or the code it returns. */
static NvmlReturn Fault(int gpu, const char* symbol) {
  char rest[1024];
  ReadScript();
  for (int nth = 0; LineOf("hang", gpu, nth, rest, sizeof(rest)); ++nth) {
    if (strcmp(rest, symbol) != 0) continue;
    for (;;) pause();
  }
  if (gpu >= 0 && LineOf("lost", gpu, 0, rest, sizeof(rest)) &&
      strcmp(symbol, "nvmlDeviceGetHandleByIndex_v2") != 0) {
    return NVML_ERROR_GPU_IS_LOST;
  }
  for (int nth = 0; LineOf("error", gpu, nth, rest, sizeof(rest)); ++nth) {
    char name[128] = "";
    int code = 0;
    if (sscanf(rest, "%127s %d", name, &code) == 2 && strcmp(name, symbol) == 0) return code;
  }
  return NVML_SUCCESS;
}

/* The text of `key` of the device; spaces are written as underscores. */
static NvmlReturn Text(NvmlDeviceHandle device, const char* symbol, const char* key, char* out,
                       unsigned int size) {
  const Target target = TargetOf(device);
  const NvmlReturn fault = Fault(target.gpu, symbol);
  if (fault != NVML_SUCCESS) return fault;
  char rest[1024];
  char value[256];
  const bool found = target.instance < 0
                         ? LineOf("gpu", target.gpu, 0, rest, sizeof(rest))
                         : LineOf("mig", target.gpu, target.instance, rest, sizeof(rest));
  if (!found || !Member(rest, key, value, sizeof(value))) return NVML_ERROR_NOT_SUPPORTED;
  if (strlen(value) + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (char* at = value; *at != '\0'; ++at) {
    if (*at == '_') *at = ' ';
  }
  memcpy(out, value, strlen(value) + 1);
  return NVML_SUCCESS;
}

static NvmlReturn Number(NvmlDeviceHandle device, const char* symbol, const char* key,
                         unsigned long long* out) {
  char value[256];
  const NvmlReturn result = Text(device, symbol, key, value, sizeof(value));
  if (result == NVML_SUCCESS) *out = strtoull(value, NULL, 0);
  return result;
}

static NvmlReturn Unsigned(NvmlDeviceHandle device, const char* symbol, const char* key,
                           unsigned int* out) {
  unsigned long long value = 0;
  const NvmlReturn result = Number(device, symbol, key, &value);
  if (result == NVML_SUCCESS) *out = (unsigned int)value;
  return result;
}

static NvmlReturn SystemText(const char* symbol, const char* key, char* out, unsigned int size) {
  const NvmlReturn fault = Fault(-1, symbol);
  if (fault != NVML_SUCCESS) return fault;
  char rest[256];
  if (!Line(key, 0, rest, sizeof(rest))) return NVML_ERROR_NOT_SUPPORTED;
  snprintf(out, size, "%s", rest);
  return NVML_SUCCESS;
}

/* ---- the library ---- */

EXPORT NvmlReturn nvmlInit_v2(void) { return Fault(-1, "nvmlInit_v2"); }
EXPORT NvmlReturn nvmlShutdown(void) { return NVML_SUCCESS; }

EXPORT const char* nvmlErrorString(NvmlReturn result) {
  switch (result) {
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

EXPORT NvmlReturn nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  return SystemText("nvmlSystemGetDriverVersion", "driver", text, size);
}
EXPORT NvmlReturn nvmlSystemGetNVMLVersion(char* text, unsigned int size) {
  return SystemText("nvmlSystemGetNVMLVersion", "nvml", text, size);
}

EXPORT NvmlReturn nvmlDeviceGetCount_v2(unsigned int* count) {
  const NvmlReturn fault = Fault(-1, "nvmlDeviceGetCount_v2");
  if (fault != NVML_SUCCESS) return fault;
  char rest[1024];
  *count = 0;
  while (LineOf("gpu", (int)*count, 0, rest, sizeof(rest))) ++*count;
  return NVML_SUCCESS;
}

EXPORT NvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned int index, NvmlDeviceHandle* device) {
  const NvmlReturn fault = Fault((int)index, "nvmlDeviceGetHandleByIndex_v2");
  *device = (NvmlDeviceHandle)(intptr_t)(kDeviceHandle + (int)index);
  return fault;
}

EXPORT NvmlReturn nvmlDeviceGetUUID(NvmlDeviceHandle device, char* text, unsigned int size) {
  return Text(device, "nvmlDeviceGetUUID", "uuid", text, size);
}
EXPORT NvmlReturn nvmlDeviceGetName(NvmlDeviceHandle device, char* text, unsigned int size) {
  return Text(device, "nvmlDeviceGetName", "name", text, size);
}

EXPORT NvmlReturn nvmlDeviceGetPciInfo_v3(NvmlDeviceHandle device, NvmlPciInfo* info) {
  return Text(device, "nvmlDeviceGetPciInfo_v3", "bus", info->bus_id, sizeof(info->bus_id));
}

EXPORT NvmlReturn nvmlDeviceGetUtilizationRates(NvmlDeviceHandle device, NvmlUtilization* out) {
  const char* symbol = "nvmlDeviceGetUtilizationRates";
  (void)Unsigned(device, symbol, "memory_util", &out->memory);
  return Unsigned(device, symbol, "util", &out->gpu);
}

EXPORT NvmlReturn nvmlDeviceGetMemoryInfo(NvmlDeviceHandle device, NvmlMemory* out) {
  const char* symbol = "nvmlDeviceGetMemoryInfo";
  (void)Number(device, symbol, "used", &out->used);
  return Number(device, symbol, "total", &out->total);
}

#ifndef FAKE_NVML_OLD
EXPORT NvmlReturn nvmlDeviceGetMemoryInfo_v2(NvmlDeviceHandle device, NvmlMemoryV2* out) {
  const char* symbol = "nvmlDeviceGetMemoryInfo_v2";
  /* 0x02000028: the number that a real library compares with. */
  if (out->version != 0x02000028u) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  (void)Number(device, symbol, "used", &out->used);
  return Number(device, symbol, "total", &out->total);
}
#endif

EXPORT NvmlReturn nvmlDeviceGetPowerUsage(NvmlDeviceHandle device, unsigned int* milliwatts) {
  return Unsigned(device, "nvmlDeviceGetPowerUsage", "power", milliwatts);
}
EXPORT NvmlReturn nvmlDeviceGetEnforcedPowerLimit(NvmlDeviceHandle device,
                                                  unsigned int* milliwatts) {
  return Unsigned(device, "nvmlDeviceGetEnforcedPowerLimit", "limit", milliwatts);
}
EXPORT NvmlReturn nvmlDeviceGetTemperature(NvmlDeviceHandle device, int sensor,
                                           unsigned int* celsius) {
  if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  return Unsigned(device, "nvmlDeviceGetTemperature", "temperature", celsius);
}
EXPORT NvmlReturn nvmlDeviceGetClockInfo(NvmlDeviceHandle device, int type, unsigned int* mhz) {
  return Unsigned(device, "nvmlDeviceGetClockInfo", type == NVML_CLOCK_SM ? "sm" : "mem", mhz);
}
EXPORT NvmlReturn nvmlDeviceGetMaxClockInfo(NvmlDeviceHandle device, int type, unsigned int* mhz) {
  return Unsigned(device, "nvmlDeviceGetMaxClockInfo", type == NVML_CLOCK_SM ? "max_sm" : "max_mem",
                  mhz);
}
EXPORT NvmlReturn nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDeviceHandle device,
                                                            unsigned long long* bits) {
  return Number(device, "nvmlDeviceGetCurrentClocksThrottleReasons", "throttle", bits);
}
EXPORT NvmlReturn nvmlDeviceGetCurrPcieLinkGeneration(NvmlDeviceHandle device,
                                                      unsigned int* generation) {
  return Unsigned(device, "nvmlDeviceGetCurrPcieLinkGeneration", "pcie_gen", generation);
}
EXPORT NvmlReturn nvmlDeviceGetCurrPcieLinkWidth(NvmlDeviceHandle device, unsigned int* lanes) {
  return Unsigned(device, "nvmlDeviceGetCurrPcieLinkWidth", "pcie_width", lanes);
}
EXPORT NvmlReturn nvmlDeviceGetPcieThroughput(NvmlDeviceHandle device, int counter,
                                              unsigned int* kib_per_second) {
  return Unsigned(device, "nvmlDeviceGetPcieThroughput",
                  counter == NVML_PCIE_RX_BYTES ? "rx_kib" : "tx_kib", kib_per_second);
}
EXPORT NvmlReturn nvmlDeviceGetTotalEccErrors(NvmlDeviceHandle device, int type, int counter,
                                              unsigned long long* count) {
  if (counter != NVML_ECC_VOLATILE) return NVML_ERROR_INVALID_ARGUMENT;
  return Number(device, "nvmlDeviceGetTotalEccErrors",
                type == NVML_ECC_CORRECTED ? "ecc_corrected" : "ecc_uncorrected", count);
}

/* Events: each xid line is reported once per process. */
EXPORT NvmlReturn nvmlEventSetCreate(NvmlEventSetHandle* set) {
  *set = (NvmlEventSetHandle)(intptr_t)1;
  return Fault(-1, "nvmlEventSetCreate");
}
EXPORT NvmlReturn nvmlDeviceRegisterEvents(NvmlDeviceHandle device, unsigned long long types,
                                           NvmlEventSetHandle set) {
  (void)set;
  if ((types & NVML_EVENT_XID) == 0) return NVML_ERROR_INVALID_ARGUMENT;
  return Fault(TargetOf(device).gpu, "nvmlDeviceRegisterEvents");
}
EXPORT NvmlReturn nvmlEventSetWait_v2(NvmlEventSetHandle set, NvmlEvent* event,
                                      unsigned int timeout_ms) {
  static int seen;
  (void)set;
  (void)timeout_ms;
  const NvmlReturn fault = Fault(-1, "nvmlEventSetWait_v2");
  if (fault != NVML_SUCCESS) return fault;
  char rest[256];
  int gpu = 0;
  unsigned int code = 0;
  if (!Line("xid", seen, rest, sizeof(rest)) || sscanf(rest, "%d %u", &gpu, &code) != 2) {
    return NVML_ERROR_TIMEOUT;
  }
  ++seen;
  event->device = (NvmlDeviceHandle)(intptr_t)(kDeviceHandle + gpu);
  event->type = NVML_EVENT_XID;
  event->data = code;
  return NVML_SUCCESS;
}

/* `process GPU pid=.. [bytes=..] [mig=K]`: of the GPU, or of its K-th mig line. */
static NvmlReturn Processes(NvmlDeviceHandle device, const char* symbol, unsigned int* count,
                            NvmlProcess* out) {
  const Target target = TargetOf(device);
  const NvmlReturn fault = Fault(target.gpu, symbol);
  if (fault != NVML_SUCCESS) return fault;
  unsigned int found = 0;
  char rest[1024];
  for (int nth = 0; LineOf("process", target.gpu, nth, rest, sizeof(rest)); ++nth) {
    char value[64];
    const int instance = Member(rest, "mig", value, sizeof(value)) ? atoi(value) : -1;
    if (instance != target.instance || !Member(rest, "pid", value, sizeof(value))) continue;
    if (found < *count) {
      out[found].pid = (unsigned int)strtoul(value, NULL, 10);
      out[found].used_bytes = Member(rest, "bytes", value, sizeof(value))
                                  ? strtoull(value, NULL, 10)
                                  : NVML_NOT_AVAILABLE;
    }
    ++found;
  }
  const NvmlReturn result = found > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
  *count = found;
  return result;
}

#ifdef FAKE_NVML_OLD
EXPORT NvmlReturn nvmlDeviceGetComputeRunningProcesses(NvmlDeviceHandle device, unsigned int* count,
                                                       NvmlProcessV1* out) {
  NvmlProcess processes[kMaxArrays];
  unsigned int room = *count < kMaxArrays ? *count : kMaxArrays;
  const NvmlReturn result =
      Processes(device, "nvmlDeviceGetComputeRunningProcesses", &room, processes);
  for (unsigned int i = 0; result == NVML_SUCCESS && i < room; ++i) {
    out[i].pid = processes[i].pid;
    out[i].used_bytes = processes[i].used_bytes;
  }
  *count = room;
  return result;
}
#else
EXPORT NvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(NvmlDeviceHandle device,
                                                          unsigned int* count, NvmlProcess* out) {
  return Processes(device, "nvmlDeviceGetComputeRunningProcesses_v3", count, out);
}

EXPORT NvmlReturn nvmlDeviceGetMigMode(NvmlDeviceHandle device, unsigned int* current,
                                       unsigned int* pending) {
  const NvmlReturn result = Unsigned(device, "nvmlDeviceGetMigMode", "mig_mode", current);
  *pending = *current;
  return result;
}
EXPORT NvmlReturn nvmlDeviceGetMaxMigDeviceCount(NvmlDeviceHandle device, unsigned int* count) {
  *count = kMaxMig;
  return Fault(TargetOf(device).gpu, "nvmlDeviceGetMaxMigDeviceCount");
}
EXPORT NvmlReturn nvmlDeviceGetMigDeviceHandleByIndex(NvmlDeviceHandle device, unsigned int index,
                                                      NvmlDeviceHandle* instance) {
  const int gpu = TargetOf(device).gpu;
  const NvmlReturn fault = Fault(gpu, "nvmlDeviceGetMigDeviceHandleByIndex");
  if (fault != NVML_SUCCESS) return fault;
  char rest[1024];
  if (!LineOf("mig", gpu, (int)index, rest, sizeof(rest))) return NVML_ERROR_NOT_FOUND;
  *instance = (NvmlDeviceHandle)(intptr_t)(kMigHandle + gpu * 100 + (int)index);
  return NVML_SUCCESS;
}
EXPORT NvmlReturn nvmlDeviceGetGpuInstanceId(NvmlDeviceHandle device, unsigned int* id) {
  return Unsigned(device, "nvmlDeviceGetGpuInstanceId", "gi", id);
}
EXPORT NvmlReturn nvmlDeviceGetComputeInstanceId(NvmlDeviceHandle device, unsigned int* id) {
  return Unsigned(device, "nvmlDeviceGetComputeInstanceId", "ci", id);
}

/* GPM: a sample remembers its device and instance; metrics are the script's, of the second sample.
 */
struct NvmlGpmSample {
  int gpu;
  int instance; /* gi, or -1 */
  bool taken;
};

EXPORT NvmlReturn nvmlGpmQueryDeviceSupport(NvmlDeviceHandle device, NvmlGpmSupport* out) {
  const int gpu = TargetOf(device).gpu;
  const NvmlReturn fault = Fault(gpu, "nvmlGpmQueryDeviceSupport");
  if (fault != NVML_SUCCESS) return fault;
  if (out->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  char rest[1024];
  out->supported = LineOf("gpm", gpu, 0, rest, sizeof(rest)) ? 1 : 0;
  return NVML_SUCCESS;
}
EXPORT NvmlReturn nvmlGpmSampleAlloc(NvmlGpmSampleHandle* sample) {
  *sample = calloc(1, sizeof(**sample));
  return NVML_SUCCESS;
}
EXPORT NvmlReturn nvmlGpmSampleGet(NvmlDeviceHandle device, NvmlGpmSampleHandle sample) {
  sample->gpu = TargetOf(device).gpu;
  sample->instance = -1;
  sample->taken = true;
  return Fault(sample->gpu, "nvmlGpmSampleGet");
}
EXPORT NvmlReturn nvmlGpmMigSampleGet(NvmlDeviceHandle device, unsigned int gpu_instance,
                                      NvmlGpmSampleHandle sample) {
  sample->gpu = TargetOf(device).gpu;
  sample->instance = (int)gpu_instance;
  sample->taken = true;
  return Fault(sample->gpu, "nvmlGpmMigSampleGet");
}
EXPORT NvmlReturn nvmlGpmMetricsGet(NvmlGpmMetrics* metrics) {
  const NvmlGpmSampleHandle first = metrics->first;
  const NvmlGpmSampleHandle second = metrics->second;
  if (metrics->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (first == NULL || second == NULL || !first->taken || !second->taken || first == second ||
      first->gpu != second->gpu || first->instance != second->instance) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const NvmlReturn fault = Fault(second->gpu, "nvmlGpmMetricsGet");
  if (fault != NVML_SUCCESS) return fault;
  /* `gpm GPU 2=81.5 ...` for the GPU, `gpm_mig GPU gi=1 2=.. ...` for an instance. */
  char rest[1024] = "";
  char value[64];
  if (second->instance < 0) {
    (void)LineOf("gpm", second->gpu, 0, rest, sizeof(rest));
  } else {
    for (int nth = 0; LineOf("gpm_mig", second->gpu, nth, rest, sizeof(rest)); ++nth) {
      if (Member(rest, "gi", value, sizeof(value)) && atoi(value) == second->instance) break;
      rest[0] = '\0';
    }
  }
  for (unsigned int i = 0; i < metrics->count; ++i) {
    char key[16];
    snprintf(key, sizeof(key), "%u", metrics->metrics[i].id);
    const bool known = Member(rest, key, value, sizeof(value));
    metrics->metrics[i].result = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    if (known) metrics->metrics[i].value = strtod(value, NULL);
  }
  return NVML_SUCCESS;
}
#endif /* FAKE_NVML_OLD */
