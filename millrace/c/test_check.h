// What the tests in C check with: a line on stderr and exit code 1 at the first thing that is
// wrong.
#ifndef MILLRACE_C_TEST_CHECK_H_
#define MILLRACE_C_TEST_CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/c/millrace.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

// `call` returns `code`, and leaves a text that contains `part` in `error`.
#define CHECK_ERROR(call, error, expected, part) \
  CheckError((call), &(error), (expected), (part), __FILE__, __LINE__)
#define CHECK_OK(call, error) CHECK_ERROR(call, error, MILLRACE_OK, "")

static inline void CheckError(int32_t code, const millrace_error* error, int32_t expected,
                              const char* part, const char* file, int line) {
  const char* text = error->message == NULL ? "" : error->message;
  if (code == expected && error->code == expected && strstr(text, part) != NULL) return;
  fprintf(stderr, "%s:%d: expected %s with \"%s\", got %s: %s\n", file, line,
          millrace_code_name(expected), part, millrace_code_name(code), text);
  exit(1);
}

#endif  // MILLRACE_C_TEST_CHECK_H_
