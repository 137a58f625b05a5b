/* millrace-gpu: reads the host's GPUs by NVML and writes JSON Lines (core/gpu/README.md has them).
 *
 * A program of its own for two reasons: the agent is fully static and cannot load a shared library,
 * and a driver call that hangs can be abandoned in a process only. The main thread makes every NVML
 * call; the watcher thread says which call takes too long, and ends the process at the end of stdin
 * even then. */

#define _GNU_SOURCE

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/gpu/json_line.h"
#include "core/gpu/nvml_abi.h"
#include "core/gpu/nvml_library.h"

enum { kExitOk = 0, kExitCommandLine = 2, kExitNoNvml = 3, kExitStuck = 4 };

enum {
  kMaxGpus = 64,
  kMaxProcesses = 1024,
  kMaxMig = 16,           /* instances of a GPU */
  kMaxGpuInstanceId = 16, /* ids are small numbers */
  kWatchMs = 200,
  kHandleRetryTicks = 10,
};

static const char kHelp[] =
    "millrace-gpu: writes what the host's GPUs do, one JSON object a line, read by NVML.\n"
    "\n"
    "  millrace-gpu [--interval-ms=1000] [--once] [--skip-gpu=INDEX]... [--stuck-ms=2000]\n"
    "\n"
    "  --interval-ms  time between two samples, at least 100\n"
    "  --once         one sample, then end; stdin is not read\n"
    "  --skip-gpu     do not touch this GPU: it is listed as an error\n"
    "  --stuck-ms     a driver call that takes longer is reported as stuck\n"
    "\n"
    "Ends at the end of stdin. Exit codes: 0; 2, the command line is wrong; 3, NVML cannot be "
    "used\n"
    "(the last line says why); 4, --once and a driver call hangs.\n"
    "MILLRACE_NVML_LIBRARY names another library than libnvidia-ml.so.1.\n";

typedef struct {
  NvmlGpmSampleHandle samples[2];
  int newest; /* index in samples */
  int taken;  /* 0, 1, 2: how many are valid */
} GpmPair;

typedef struct {
  NvmlDeviceHandle handle; /* NULL: could not be had */
  bool skipped;
  unsigned int ticks; /* samples without an identity */
  bool xid_known;
  unsigned int xid_count;
  unsigned long long last_xid;
  char uuid[NVML_UUID_BYTES];
  char name[NVML_NAME_BYTES];
  char bus_id[32];
  bool gpm;
  GpmPair gpm_whole;
  GpmPair gpm_instances[kMaxGpuInstanceId];
  /* Of the present sample. */
  bool dead; /* no more calls */
  char error[256];
} Gpu;

typedef struct {
  long interval_ms;
  long stuck_ms;
  bool once;
} Options;

static Options options = {.interval_ms = 1000, .stuck_ms = 2000};
static NvmlFunctions nvml;
static Gpu gpus[kMaxGpus];
static unsigned int gpu_count;
static NvmlEventSetHandle events;
static JsonLine line;

/* ---- the call that is being made, for the watcher ---- */

static const char* _Atomic call_name; /* NULL: none */
static atomic_int call_gpu;
static atomic_llong call_began_ms;

static long long NowMs(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void BeginCall(int gpu, const char* name) {
  atomic_store(&call_gpu, gpu);
  atomic_store(&call_began_ms, NowMs(CLOCK_MONOTONIC));
  atomic_store(&call_name, name);
}

static NvmlReturn EndCall(NvmlReturn result) {
  atomic_store(&call_name, NULL);
  return result;
}

static const struct {
#define NVML_NAME(member, symbol, parameters) const char* member;
  NVML_FUNCTIONS(NVML_NAME)
#undef NVML_NAME
} kNames = {
#define NVML_NAME(member, symbol, parameters) .member = symbol,
    NVML_FUNCTIONS(NVML_NAME)
#undef NVML_NAME
};

/* Calls nvml.`function` if the library has it. */
#define CALL(gpu, function, ...)                         \
  (nvml.function == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND \
                         : (BeginCall(gpu, kNames.function), EndCall(nvml.function(__VA_ARGS__))))

static void* Watch(void* unused) {
  (void)unused;
  const char* reported = NULL;
  JsonLine stuck = {0};
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (;;) {
    if (options.once) {
      poll(NULL, 0, kWatchMs);
    } else if (poll(&input, 1, kWatchMs) > 0) {
      char ignored[256];
      const ssize_t got = read(0, ignored, sizeof(ignored));
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) _exit(kExitOk);
    }
    const char* name = atomic_load(&call_name);
    if (name == NULL || NowMs(CLOCK_MONOTONIC) - atomic_load(&call_began_ms) < options.stuck_ms) {
      reported = NULL;
      continue;
    }
    if (name == reported) continue;
    reported = name;
    JsonOpen(&stuck, NULL, '{');
    JsonText(&stuck, "type", "stuck");
    JsonSigned(&stuck, "gpu", atomic_load(&call_gpu));
    JsonText(&stuck, "call", name);
    JsonClose(&stuck, '}');
    JsonSend(&stuck, 1);
    if (options.once) _exit(kExitStuck);
  }
}

/* ---- values ---- */

/* True if the call gave a value. An error of the GPU itself, as opposed to a value that it does not
 * have, is kept for the sample. */
static bool Got(int index, NvmlReturn result, const char* what) {
  Gpu* gpu = &gpus[index];
  switch (result) {
    case NVML_SUCCESS:
      return true;
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
    case NVML_ERROR_NO_PERMISSION:
    case NVML_ERROR_NOT_FOUND:
    case NVML_ERROR_NO_DATA:
    case NVML_ERROR_INVALID_ARGUMENT:
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return false;
    default:
      if (gpu->error[0] == '\0') {
        snprintf(gpu->error, sizeof(gpu->error), "%s: %s (NVML error %d)", what,
                 NvmlErrorText(&nvml, result), result);
      }
      /* Each further call to a lost GPU may take seconds. */
      if (result == NVML_ERROR_GPU_IS_LOST || result == NVML_ERROR_RESET_REQUIRED) gpu->dead = true;
      return false;
  }
}

/* As above for a call that is made only while the GPU answers. */
#define ASK(index, function, ...) \
  (!gpus[index].dead && Got(index, CALL(index, function, __VA_ARGS__), kNames.function))

static void Memory(int index, NvmlDeviceHandle device) {
  NvmlMemoryV2 memory = {.version = NVML_STRUCT_VERSION(NvmlMemoryV2, 2)};
  NvmlMemory old = {0};
  if (ASK(index, memory_v2, device, &memory)) {
    JsonInteger(&line, "memory_used_bytes", memory.used);
    JsonInteger(&line, "memory_total_bytes", memory.total);
  } else if (ASK(index, memory, device, &old)) {
    JsonInteger(&line, "memory_used_bytes", old.used);
    JsonInteger(&line, "memory_total_bytes", old.total);
  }
}

static void Throttle(int index, NvmlDeviceHandle device) {
  static const char* const kReasons[] = {"gpu_idle",
                                         "applications_clocks_setting",
                                         "sw_power_cap",
                                         "hw_slowdown",
                                         "sync_boost",
                                         "sw_thermal_slowdown",
                                         "hw_thermal_slowdown",
                                         "hw_power_brake_slowdown",
                                         "display_clock_setting"};
  unsigned long long bits = 0;
  if (!ASK(index, throttle, device, &bits) && !ASK(index, throttle_new, device, &bits)) return;
  JsonOpen(&line, "throttle_reasons", '[');
  for (int bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1) == 0) continue;
    char unnamed[16];
    const bool named = bit < (int)(sizeof(kReasons) / sizeof(kReasons[0]));
    if (!named) snprintf(unnamed, sizeof(unnamed), "bit_%d", bit);
    JsonText(&line, NULL, named ? kReasons[bit] : unnamed);
  }
  JsonClose(&line, ']');
}

static void OneProcess(unsigned int pid, unsigned long long used_bytes) {
  JsonOpen(&line, NULL, '{');
  JsonInteger(&line, "pid", pid);
  if (used_bytes != NVML_NOT_AVAILABLE) JsonInteger(&line, "memory_bytes", used_bytes);
  JsonClose(&line, '}');
}

static void Processes(int index, NvmlDeviceHandle device) {
  static NvmlProcess found[kMaxProcesses];
  static NvmlProcess graphics[kMaxProcesses];
  static NvmlProcessV1 old[kMaxProcesses];
  unsigned int count = kMaxProcesses;
  bool known = ASK(index, compute_processes, device, &count, found);
  if (!known) {
    count = kMaxProcesses;
    known = ASK(index, compute_processes_v2, device, &count, found);
  }
  if (!known) {
    count = kMaxProcesses;
    known = ASK(index, compute_processes_v1, device, &count, old);
    for (unsigned int i = 0; known && i < count && i < kMaxProcesses; ++i) {
      found[i].pid = old[i].pid;
      found[i].used_bytes = old[i].used_bytes;
    }
  }
  if (!known) return;
  if (count > kMaxProcesses) count = kMaxProcesses;
  unsigned int more = kMaxProcesses;
  if (!ASK(index, graphics_processes, device, &more, graphics)) more = 0;
  if (more > kMaxProcesses) more = kMaxProcesses;
  JsonOpen(&line, "processes", '[');
  for (unsigned int i = 0; i < count; ++i) OneProcess(found[i].pid, found[i].used_bytes);
  for (unsigned int i = 0; i < more; ++i) {
    bool listed = false;
    for (unsigned int k = 0; k < count && !listed; ++k) listed = found[k].pid == graphics[i].pid;
    if (!listed) OneProcess(graphics[i].pid, graphics[i].used_bytes);
  }
  JsonClose(&line, ']');
}

/* Takes a sample and writes what happened since the one before. `gpu_instance` < 0: the whole GPU.
 * Returns whether the PCIe throughput was among it. */
static bool Gpm(int index, GpmPair* pair, int gpu_instance) {
  const int next = 1 - pair->newest;
  if (pair->samples[next] == NULL && !ASK(index, gpm_alloc, &pair->samples[next])) return false;
  const NvmlGpmSampleHandle sample = pair->samples[next];
  const NvmlDeviceHandle device = gpus[index].handle;
  const bool taken = gpu_instance < 0
                         ? ASK(index, gpm_sample, device, sample)
                         : ASK(index, gpm_mig_sample, device, (unsigned int)gpu_instance, sample);
  if (!taken) {
    pair->taken = 0;
    return false;
  }
  const NvmlGpmSampleHandle before = pair->samples[pair->newest];
  pair->newest = next;
  if (pair->taken < 2) ++pair->taken;
  if (pair->taken < 2) return false;

  static const struct {
    unsigned int id;
    const char* key;
    double factor;
  } kMetrics[] = {
      {NVML_GPM_SM_UTIL, "sm_active_percent", 1},
      {NVML_GPM_SM_OCCUPANCY, "sm_occupancy_percent", 1},
      {NVML_GPM_ANY_TENSOR_UTIL, "tensor_active_percent", 1},
      {NVML_GPM_DRAM_BW_UTIL, "dram_active_percent", 1},
      {NVML_GPM_PCIE_RX, "pcie_rx_bytes_per_second", 1 << 20},
      {NVML_GPM_PCIE_TX, "pcie_tx_bytes_per_second", 1 << 20},
  };
  enum { kCount = sizeof(kMetrics) / sizeof(kMetrics[0]) };
  static NvmlGpmMetrics metrics;
  memset(&metrics, 0, sizeof(metrics));
  metrics.version = 1;
  metrics.count = gpu_instance < 0 ? kCount : kCount - 2; /* PCIe belongs to the GPU */
  metrics.first = before;
  metrics.second = sample;
  for (unsigned int i = 0; i < metrics.count; ++i) metrics.metrics[i].id = kMetrics[i].id;
  if (!ASK(index, gpm_metrics, &metrics)) return false;
  bool pcie = false;
  for (unsigned int i = 0; i < metrics.count; ++i) {
    const NvmlGpmMetric* metric = &metrics.metrics[i];
    if (metric->result != NVML_SUCCESS || !(metric->value >= 0 && metric->value < 1e12)) continue;
    JsonNumber(&line, kMetrics[i].key, metric->value * kMetrics[i].factor);
    if (metric->id == NVML_GPM_PCIE_RX) pcie = true;
  }
  return pcie;
}

static void Pcie(int index, NvmlDeviceHandle device, bool throughput_known) {
  unsigned int value = 0;
  if (ASK(index, pcie_generation, device, &value)) JsonInteger(&line, "pcie_generation", value);
  if (ASK(index, pcie_width, device, &value)) JsonInteger(&line, "pcie_width", value);
  /* Measures for 20 ms each. */
  if (throughput_known || options.interval_ms < 1000) return;
  if (ASK(index, pcie_throughput, device, NVML_PCIE_RX_BYTES, &value)) {
    JsonInteger(&line, "pcie_rx_bytes_per_second", value * 1024ULL);
  }
  if (ASK(index, pcie_throughput, device, NVML_PCIE_TX_BYTES, &value)) {
    JsonInteger(&line, "pcie_tx_bytes_per_second", value * 1024ULL);
  }
}

static void Instances(int index) {
  Gpu* gpu = &gpus[index];
  unsigned int count = 0;
  if (!ASK(index, mig_count, gpu->handle, &count)) return;
  if (count > kMaxMig) count = kMaxMig;
  JsonOpen(&line, "instances", '[');
  for (unsigned int i = 0; i < count; ++i) {
    NvmlDeviceHandle device = NULL;
    char uuid[NVML_UUID_BYTES] = "";
    char name[NVML_NAME_BYTES] = "";
    unsigned int gpu_instance = 0;
    unsigned int compute_instance = 0;
    if (!ASK(index, mig_handle, gpu->handle, i, &device)) continue;
    if (!ASK(index, uuid, device, uuid, sizeof(uuid))) continue;
    JsonOpen(&line, NULL, '{');
    JsonText(&line, "uuid", uuid);
    if (ASK(index, name, device, name, sizeof(name))) JsonText(&line, "name", name);
    const bool has_instance = ASK(index, gpu_instance, device, &gpu_instance);
    if (has_instance) JsonInteger(&line, "gpu_instance", gpu_instance);
    if (ASK(index, compute_instance, device, &compute_instance)) {
      JsonInteger(&line, "compute_instance", compute_instance);
    }
    Memory(index, device);
    Processes(index, device);
    if (gpu->gpm && has_instance && gpu_instance < kMaxGpuInstanceId) {
      Gpm(index, &gpu->gpm_instances[gpu_instance], (int)gpu_instance);
    }
    JsonClose(&line, '}');
  }
  JsonClose(&line, ']');
}

/* ---- one GPU ---- */

static void Identify(int index) {
  Gpu* gpu = &gpus[index];
  NvmlPciInfo pci = {0};
  NvmlGpmSupport support = {.version = 1};
  NvmlDeviceHandle handle = NULL;
  if (gpu->skipped || !ASK(index, handle, (unsigned int)index, &handle)) return;
  gpu->handle = handle;
  if (!ASK(index, uuid, handle, gpu->uuid, sizeof(gpu->uuid))) gpu->uuid[0] = '\0';
  if (!ASK(index, name, handle, gpu->name, sizeof(gpu->name))) gpu->name[0] = '\0';
  if (ASK(index, pci, handle, &pci)) memcpy(gpu->bus_id, pci.bus_id, sizeof(gpu->bus_id));
  gpu->uuid[sizeof(gpu->uuid) - 1] = '\0';
  gpu->name[sizeof(gpu->name) - 1] = '\0';
  gpu->bus_id[sizeof(gpu->bus_id) - 1] = '\0';
  gpu->gpm = ASK(index, gpm_support, handle, &support) && support.supported != 0;
  if (events != NULL) gpu->xid_known = ASK(index, register_events, handle, NVML_EVENT_XID, events);
}

static void Identity(int index) {
  const Gpu* gpu = &gpus[index];
  JsonInteger(&line, "index", (unsigned long long)index);
  if (gpu->uuid[0] != '\0') JsonText(&line, "uuid", gpu->uuid);
  if (gpu->name[0] != '\0') JsonText(&line, "name", gpu->name);
  if (gpu->bus_id[0] != '\0') JsonText(&line, "pci_bus_id", gpu->bus_id);
}

static void Measure(int index) {
  Gpu* gpu = &gpus[index];
  const NvmlDeviceHandle device = gpu->handle;
  NvmlUtilization utilization = {0};
  unsigned int value = 0;
  unsigned long long count = 0;
  unsigned int mig = 0;
  unsigned int mig_pending = 0;
  if (ASK(index, utilization, device, &utilization)) {
    JsonInteger(&line, "utilization_percent", utilization.gpu);
    JsonInteger(&line, "memory_utilization_percent", utilization.memory);
  }
  Memory(index, device);
  if (ASK(index, power, device, &value)) JsonInteger(&line, "power_mw", value);
  if (ASK(index, power_limit, device, &value)) JsonInteger(&line, "power_limit_mw", value);
  if (ASK(index, temperature, device, NVML_TEMPERATURE_GPU, &value)) {
    JsonInteger(&line, "temperature_celsius", value);
  }
  if (ASK(index, clock, device, NVML_CLOCK_SM, &value)) JsonInteger(&line, "sm_clock_mhz", value);
  if (ASK(index, clock, device, NVML_CLOCK_MEM, &value)) {
    JsonInteger(&line, "memory_clock_mhz", value);
  }
  if (ASK(index, max_clock, device, NVML_CLOCK_SM, &value)) {
    JsonInteger(&line, "max_sm_clock_mhz", value);
  }
  Throttle(index, device);
  if (ASK(index, ecc_total, device, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &count)) {
    JsonInteger(&line, "ecc_corrected", count);
  }
  if (ASK(index, ecc_total, device, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &count)) {
    JsonInteger(&line, "ecc_uncorrected", count);
  }
  Processes(index, device);
  const bool mig_known = ASK(index, mig_mode, device, &mig, &mig_pending);
  if (mig_known) JsonBool(&line, "mig_mode", mig != 0);
  Pcie(index, device, gpu->gpm && Gpm(index, &gpu->gpm_whole, -1));
  if (mig_known && mig != 0) Instances(index);
}

static void Sample(int index) {
  Gpu* gpu = &gpus[index];
  gpu->dead = false;
  gpu->error[0] = '\0';
  const bool unnamed = gpu->handle == NULL || gpu->uuid[0] == '\0';
  if (unnamed && !gpu->skipped && ++gpu->ticks % kHandleRetryTicks == 0) Identify(index);
  JsonOpen(&line, NULL, '{');
  Identity(index);
  if (gpu->skipped) {
    snprintf(gpu->error, sizeof(gpu->error), "left out: a driver call for this GPU did not return");
  } else if (gpu->handle != NULL) {
    Measure(index);
  } else if (gpu->error[0] == '\0') {
    snprintf(gpu->error, sizeof(gpu->error), "the driver gives no access to this GPU");
  }
  if (gpu->xid_known) {
    JsonInteger(&line, "xid_count", gpu->xid_count);
    if (gpu->xid_count > 0) JsonInteger(&line, "last_xid", gpu->last_xid);
  }
  if (gpu->error[0] != '\0') JsonText(&line, "error", gpu->error);
  JsonClose(&line, '}');
}

static void TakeEvents(void) {
  /* Bounded: a GPU that is falling apart reports without end. */
  for (int i = 0; events != NULL && i < 256; ++i) {
    NvmlEvent event;
    memset(&event, 0, sizeof(event));
    if (CALL(-1, event_wait, events, &event, 0) != NVML_SUCCESS) return;
    if (event.type != NVML_EVENT_XID) continue;
    for (unsigned int k = 0; k < gpu_count; ++k) {
      if (gpus[k].handle != event.device) continue;
      ++gpus[k].xid_count;
      gpus[k].last_xid = event.data;
    }
  }
}

/* ---- lines ---- */

static bool SendSample(void) {
  TakeEvents();
  JsonOpen(&line, NULL, '{');
  JsonText(&line, "type", "sample");
  JsonSigned(&line, "time_ms", NowMs(CLOCK_REALTIME));
  JsonOpen(&line, "gpus", '[');
  for (unsigned int i = 0; i < gpu_count; ++i) Sample((int)i);
  JsonClose(&line, ']');
  JsonClose(&line, '}');
  return JsonSend(&line, 1);
}

static bool SendReady(void) {
  char text[NVML_VERSION_BYTES] = "";
  JsonOpen(&line, NULL, '{');
  JsonText(&line, "type", "ready");
  JsonInteger(&line, "protocol", 1);
  if (CALL(-1, driver_version, text, sizeof(text)) == NVML_SUCCESS) {
    JsonText(&line, "driver_version", text);
  }
  if (CALL(-1, nvml_version, text, sizeof(text)) == NVML_SUCCESS) {
    JsonText(&line, "nvml_version", text);
  }
  JsonOpen(&line, "gpus", '[');
  for (unsigned int i = 0; i < gpu_count; ++i) {
    JsonOpen(&line, NULL, '{');
    Identity((int)i);
    if (gpus[i].error[0] != '\0') JsonText(&line, "error", gpus[i].error);
    JsonClose(&line, '}');
  }
  JsonClose(&line, ']');
  JsonClose(&line, '}');
  return JsonSend(&line, 1);
}

static int NoNvml(const char* problem) {
  JsonOpen(&line, NULL, '{');
  JsonText(&line, "type", "error");
  JsonText(&line, "message", problem);
  JsonClose(&line, '}');
  JsonSend(&line, 1);
  return kExitNoNvml;
}

static int Usage(const char* argument) {
  fprintf(stderr, "millrace-gpu: bad argument \"%s\" (--help says more)\n", argument);
  return kExitCommandLine;
}

/* "--name=123" within [min, max]. */
static bool ParseNumber(const char* argument, const char* name, long min, long max, long* value) {
  const size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0 || argument[length] != '=') return false;
  char* end = NULL;
  errno = 0;
  const long parsed = strtol(argument + length + 1, &end, 10);
  if (end == argument + length + 1 || *end != '\0' || errno != 0 || parsed < min || parsed > max) {
    return false;
  }
  *value = parsed;
  return true;
}

static void SleepUntil(long long wake_ms) {
  const struct timespec wake = {.tv_sec = wake_ms / 1000, .tv_nsec = (wake_ms % 1000) * 1000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR) {
  }
}

static int Run(void) {
  pthread_t watcher;
  if (pthread_create(&watcher, NULL, Watch, NULL) != 0) return NoNvml("no thread to be had");
  char problem[512];
  if (!LoadNvml(&nvml, problem, sizeof(problem))) return NoNvml(problem);
  NvmlReturn result = CALL(-1, init);
  if (result == NVML_SUCCESS) result = CALL(-1, count, &gpu_count);
  if (result != NVML_SUCCESS) {
    snprintf(problem, sizeof(problem), "NVML cannot be used: %s (NVML error %d)",
             NvmlErrorText(&nvml, result), result);
    return NoNvml(problem);
  }
  if (gpu_count > kMaxGpus) gpu_count = kMaxGpus;
  if (CALL(-1, event_set_create, &events) != NVML_SUCCESS) events = NULL;
  bool gpm = false;
  for (unsigned int i = 0; i < gpu_count; ++i) {
    Identify((int)i);
    gpm = gpm || gpus[i].gpm;
  }
  if (!SendReady()) return kExitOk;
  if (options.once) {
    if (gpm) { /* GPM needs two samples. */
      for (unsigned int i = 0; i < gpu_count; ++i) Sample((int)i);
      line.size = 0;
      SleepUntil(NowMs(CLOCK_MONOTONIC) + 200);
    }
    SendSample();
    return kExitOk;
  }
  long long wake_ms = NowMs(CLOCK_MONOTONIC);
  while (SendSample()) {
    const long long now_ms = NowMs(CLOCK_MONOTONIC);
    wake_ms += options.interval_ms;
    if (wake_ms < now_ms) wake_ms = now_ms; /* the driver was slow */
    SleepUntil(wake_ms);
  }
  return kExitOk;
}

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  for (int i = 1; i < argc; ++i) {
    long skip = 0;
    if (strcmp(argv[i], "--help") == 0) {
      fputs(kHelp, stdout);
      return kExitOk;
    }
    if (strcmp(argv[i], "--once") == 0) {
      options.once = true;
    } else if (ParseNumber(argv[i], "--skip-gpu", 0, kMaxGpus - 1, &skip)) {
      gpus[skip].skipped = true;
    } else if (!ParseNumber(argv[i], "--interval-ms", 100, 3600000, &options.interval_ms) &&
               !ParseNumber(argv[i], "--stuck-ms", 100, 3600000, &options.stuck_ms)) {
      return Usage(argv[i]);
    }
  }
  const int exit_code = Run();
  /* Not by return: the library's destructors may hang with the driver. */
  _exit(exit_code);
}
