// File: testing/fuzz/fuzz.h
//
// What a fuzz target defines, and how it says that something is wrong. Test only.
//
// Defines: Fuzz(), FUZZ_CHECK().
//
// A target is one source with a Fuzz(). It is linked with libFuzzer (fuzzer_main.cc), which calls
// it with what it makes up, and with replay_main.cc, which calls it with the files of its corpus.

#ifndef TESTING_FUZZ_FUZZ_H_
#define TESTING_FUZZ_FUZZ_H_

#include <cstdio>
#include <cstdlib>

#include "absl/strings/string_view.h"

namespace millrace {

// Defined by each target. `input` is any bytes, in memory of exactly its size. Ends the process
// (FUZZ_CHECK, a sanitizer) if the code under test is wrong; an error that it returns is not.
// Thread safety: one thread.
void Fuzz(absl::string_view input);

}  // namespace millrace

// Aborts with the condition and its place unless it holds.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

#endif  // TESTING_FUZZ_FUZZ_H_
