/* File: core/gpu/nvml_abi.h
 *
 * The part of NVML's binary interface that millrace-gpu calls: types, codes and the table of
 * functions, written from NVIDIA's public API reference. NVML has no header on most hosts that have
 * the library, and its driver is never linked: nvml_library.h loads it.
 *
 * Structures have exactly the size and order that the library expects. Anything it does not know
 * for a device is NVML_ERROR_NOT_SUPPORTED; anything that an older library lacks is a null pointer
 * in the table.
 */

#ifndef CORE_GPU_NVML_ABI_H_
#define CORE_GPU_NVML_ABI_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NvmlDevice* NvmlDeviceHandle;
typedef struct NvmlEventSet* NvmlEventSetHandle;
typedef struct NvmlGpmSample* NvmlGpmSampleHandle;
typedef int NvmlReturn;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_FUNCTION_NOT_FOUND = 13,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_RESET_REQUIRED = 16,
  NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
  NVML_ERROR_NO_DATA = 21,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
  NVML_ERROR_UNKNOWN = 999,
};

enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_PCIE_TX_BYTES = 0, NVML_PCIE_RX_BYTES = 1 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1 };
enum { NVML_ECC_VOLATILE = 0 };

#define NVML_EVENT_XID 0x8ULL
#define NVML_NOT_AVAILABLE (~0ULL)

enum {
  NVML_UUID_BYTES = 96,
  NVML_NAME_BYTES = 96,
  NVML_VERSION_BYTES = 80,
};

typedef struct {
  unsigned int gpu; /* percent */
  unsigned int memory;
} NvmlUtilization;

typedef struct {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used; /* with what the driver keeps for itself */
} NvmlMemory;

typedef struct {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
} NvmlMemoryV2;

/* The version of a structure is its size with the number of its form above. */
#define NVML_STRUCT_VERSION(type, form) \
  ((unsigned int)(sizeof(type) | ((unsigned int)(form) << 24)))

typedef struct {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];
} NvmlPciInfo;

typedef struct {
  unsigned int pid;
  unsigned long long used_bytes; /* or NVML_NOT_AVAILABLE */
} NvmlProcessV1;

typedef struct {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
} NvmlProcess; /* of the functions _v2 and _v3 */

typedef struct {
  NvmlDeviceHandle device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
} NvmlEvent;

enum {
  NVML_GPM_SM_UTIL = 2,
  NVML_GPM_SM_OCCUPANCY = 3,
  NVML_GPM_ANY_TENSOR_UTIL = 5,
  NVML_GPM_DRAM_BW_UTIL = 10,
  NVML_GPM_PCIE_TX = 20, /* MiB/s */
  NVML_GPM_PCIE_RX = 21,
};

typedef struct {
  unsigned int id;
  NvmlReturn result;
  double value;
  struct {
    char* short_name;
    char* long_name;
    char* unit;
  } info;
} NvmlGpmMetric;

/* The library's array is longer (its bound grows with its version); only `count` entries are
 * touched. */
enum { NVML_GPM_MAX_METRICS = 512 };

typedef struct {
  unsigned int version; /* 1 */
  unsigned int count;
  NvmlGpmSampleHandle first;
  NvmlGpmSampleHandle second;
  NvmlGpmMetric metrics[NVML_GPM_MAX_METRICS];
} NvmlGpmMetrics;

typedef struct {
  unsigned int version; /* 1 */
  unsigned int supported;
} NvmlGpmSupport;

/* X(member, exported name, parameters): one row for each function. */
#define NVML_FUNCTIONS(X)                                                                         \
  X(init, "nvmlInit_v2", (void))                                                                  \
  X(shutdown, "nvmlShutdown", (void))                                                             \
  X(driver_version, "nvmlSystemGetDriverVersion", (char* text, unsigned int size))                \
  X(nvml_version, "nvmlSystemGetNVMLVersion", (char* text, unsigned int size))                    \
  X(count, "nvmlDeviceGetCount_v2", (unsigned int* count))                                        \
  X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned int index, NvmlDeviceHandle* device))      \
  X(uuid, "nvmlDeviceGetUUID", (NvmlDeviceHandle device, char* text, unsigned int size))          \
  X(name, "nvmlDeviceGetName", (NvmlDeviceHandle device, char* text, unsigned int size))          \
  X(pci, "nvmlDeviceGetPciInfo_v3", (NvmlDeviceHandle device, NvmlPciInfo * info))                \
  X(utilization, "nvmlDeviceGetUtilizationRates",                                                 \
    (NvmlDeviceHandle device, NvmlUtilization * out))                                             \
  X(memory, "nvmlDeviceGetMemoryInfo", (NvmlDeviceHandle device, NvmlMemory * out))               \
  X(memory_v2, "nvmlDeviceGetMemoryInfo_v2", (NvmlDeviceHandle device, NvmlMemoryV2 * out))       \
  X(power, "nvmlDeviceGetPowerUsage", (NvmlDeviceHandle device, unsigned int* milliwatts))        \
  X(power_limit, "nvmlDeviceGetEnforcedPowerLimit",                                               \
    (NvmlDeviceHandle device, unsigned int* milliwatts))                                          \
  X(temperature, "nvmlDeviceGetTemperature",                                                      \
    (NvmlDeviceHandle device, int sensor, unsigned int* celsius))                                 \
  X(clock, "nvmlDeviceGetClockInfo", (NvmlDeviceHandle device, int type, unsigned int* mhz))      \
  X(max_clock, "nvmlDeviceGetMaxClockInfo",                                                       \
    (NvmlDeviceHandle device, int type, unsigned int* mhz))                                       \
  X(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons",                                        \
    (NvmlDeviceHandle device, unsigned long long* bits))                                          \
  X(throttle_new, "nvmlDeviceGetCurrentClocksEventReasons",                                       \
    (NvmlDeviceHandle device, unsigned long long* bits))                                          \
  X(pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration",                                       \
    (NvmlDeviceHandle device, unsigned int* generation))                                          \
  X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", (NvmlDeviceHandle device, unsigned int* lanes)) \
  X(pcie_throughput, "nvmlDeviceGetPcieThroughput",                                               \
    (NvmlDeviceHandle device, int counter, unsigned int* kib_per_second))                         \
  X(ecc_total, "nvmlDeviceGetTotalEccErrors",                                                     \
    (NvmlDeviceHandle device, int type, int counter, unsigned long long* count))                  \
  X(event_set_create, "nvmlEventSetCreate", (NvmlEventSetHandle * set))                           \
  X(register_events, "nvmlDeviceRegisterEvents",                                                  \
    (NvmlDeviceHandle device, unsigned long long types, NvmlEventSetHandle set))                  \
  X(event_wait, "nvmlEventSetWait_v2",                                                            \
    (NvmlEventSetHandle set, NvmlEvent * event, unsigned int timeout_ms))                         \
  X(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                 \
    (NvmlDeviceHandle device, unsigned int* count, NvmlProcess* out))                             \
  X(compute_processes_v2, "nvmlDeviceGetComputeRunningProcesses_v2",                              \
    (NvmlDeviceHandle device, unsigned int* count, NvmlProcess* out))                             \
  X(compute_processes_v1, "nvmlDeviceGetComputeRunningProcesses",                                 \
    (NvmlDeviceHandle device, unsigned int* count, NvmlProcessV1* out))                           \
  X(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3",                               \
    (NvmlDeviceHandle device, unsigned int* count, NvmlProcess* out))                             \
  X(mig_mode, "nvmlDeviceGetMigMode",                                                             \
    (NvmlDeviceHandle device, unsigned int* current, unsigned int* pending))                      \
  X(mig_count, "nvmlDeviceGetMaxMigDeviceCount", (NvmlDeviceHandle device, unsigned int* count))  \
  X(mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex",                                            \
    (NvmlDeviceHandle device, unsigned int index, NvmlDeviceHandle* instance))                    \
  X(gpu_instance, "nvmlDeviceGetGpuInstanceId", (NvmlDeviceHandle device, unsigned int* id))      \
  X(compute_instance, "nvmlDeviceGetComputeInstanceId",                                           \
    (NvmlDeviceHandle device, unsigned int* id))                                                  \
  X(gpm_support, "nvmlGpmQueryDeviceSupport", (NvmlDeviceHandle device, NvmlGpmSupport * out))    \
  X(gpm_alloc, "nvmlGpmSampleAlloc", (NvmlGpmSampleHandle * sample))                              \
  X(gpm_sample, "nvmlGpmSampleGet", (NvmlDeviceHandle device, NvmlGpmSampleHandle sample))        \
  X(gpm_mig_sample, "nvmlGpmMigSampleGet",                                                        \
    (NvmlDeviceHandle device, unsigned int gpu_instance, NvmlGpmSampleHandle sample))             \
  X(gpm_metrics, "nvmlGpmMetricsGet", (NvmlGpmMetrics * metrics))

typedef struct {
#define NVML_MEMBER(member, symbol, parameters) NvmlReturn(*member) parameters;
  NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
  const char* (*error_string)(NvmlReturn result);
} NvmlFunctions;

#ifdef __cplusplus
}
#endif

#endif /* CORE_GPU_NVML_ABI_H_ */
