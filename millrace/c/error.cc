// Errors and memory, which libmillrace.so alone exports.

#include <cstdlib>

#include "absl/status/status.h"
#include "core/base/version.h"
#include "millrace/c/c_support.h"
#include "millrace/c/millrace.h"

void millrace_error_clear(millrace_error* error) {
  millrace::ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_error_set(millrace_error* error, int32_t code, const char* message) {
  millrace::ReportStatus(millrace::StatusOf(code, message), error);
  return code;
}

const char* millrace_code_name(int32_t code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  return code >= MILLRACE_OK && code <= MILLRACE_UNAUTHENTICATED ? kNames[code] : "UNKNOWN";
}

const char* millrace_version(void) { return millrace::kMillraceVersion; }

void millrace_free(void* memory) { std::free(memory); }

void millrace_strings_free(millrace_strings* strings) {
  if (strings == nullptr) return;
  for (size_t i = 0; i < strings->num_items; ++i) std::free(strings->items[i]);
  std::free(strings->items);
  strings->items = nullptr;
  strings->num_items = 0;
}
