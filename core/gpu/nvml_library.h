/* File: core/gpu/nvml_library.h
 *
 * Loads libnvidia-ml.so.1.
 *
 *   NvmlFunctions nvml;
 *   char problem[512];
 *   if (!LoadNvml(&nvml, problem, sizeof(problem))) Fail(problem);
 *   if (nvml.power != NULL) nvml.power(device, &milliwatts);
 */

#ifndef CORE_GPU_NVML_LIBRARY_H_
#define CORE_GPU_NVML_LIBRARY_H_

#include <stdbool.h>
#include <stddef.h>

#include "core/gpu/nvml_abi.h"

/* Names another file than libnvidia-ml.so.1; for tests and unusual hosts. */
#define MILLRACE_NVML_LIBRARY_VARIABLE "MILLRACE_NVML_LIBRARY"

/* Fills `nvml`; a function that the library does not have is NULL. False, with a sentence for
 * people in `problem`, if the library cannot be loaded or lacks what nothing works without (init,
 * count, handle). Once per process; the library stays loaded. */
bool LoadNvml(NvmlFunctions* nvml, char* problem, size_t problem_size);

/* What a return code means; never NULL. Works without a library. */
const char* NvmlErrorText(const NvmlFunctions* nvml, NvmlReturn result);

#endif /* CORE_GPU_NVML_LIBRARY_H_ */
