// libFuzzer's entry.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "testing/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Without bytes libFuzzer gives no address.
  millrace::Fuzz(size == 0 ? "" : absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
