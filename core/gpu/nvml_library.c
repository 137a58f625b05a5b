#include "core/gpu/nvml_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that the
 * representation is the same. */
static void Resolve(void* library, const char* symbol, void* slot) {
  void* found = dlsym(library, symbol);
  memcpy(slot, &found, sizeof(found));
}

bool LoadNvml(NvmlFunctions* nvml, char* problem, size_t problem_size) {
  const char* chosen = getenv(MILLRACE_NVML_LIBRARY_VARIABLE);
  const char* path = chosen != NULL && chosen[0] != '\0' ? chosen : "libnvidia-ml.so.1";
  memset(nvml, 0, sizeof(*nvml));
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char* why = dlerror();
    snprintf(problem, problem_size, "%s cannot be loaded: %s", path, why == NULL ? "?" : why);
    return false;
  }
#define NVML_RESOLVE(member, symbol, parameters) Resolve(library, symbol, &nvml->member);
  NVML_FUNCTIONS(NVML_RESOLVE)
#undef NVML_RESOLVE
  Resolve(library, "nvmlErrorString", &nvml->error_string);
  if (nvml->init == NULL || nvml->count == NULL || nvml->handle == NULL) {
    snprintf(problem, problem_size, "%s is no NVML, or one from before 2013: it lacks %s", path,
             nvml->init == NULL    ? "nvmlInit_v2"
             : nvml->count == NULL ? "nvmlDeviceGetCount_v2"
                                   : "nvmlDeviceGetHandleByIndex_v2");
    return false;
  }
  return true;
}

const char* NvmlErrorText(const NvmlFunctions* nvml, NvmlReturn result) {
  const char* text = nvml->error_string == NULL ? NULL : nvml->error_string(result);
  return text == NULL ? "unknown error" : text;
}
