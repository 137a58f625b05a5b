#include "core/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "core/base/log.h"

namespace millrace {
namespace {

void Fill(void* out, size_t count_bytes) {
  auto* next = static_cast<unsigned char*>(out);
  while (count_bytes > 0) {
    const ssize_t got = getrandom(next, count_bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    MILLRACE_CHECK(got > 0) << "getrandom: " << std::strerror(errno);
    next += got;
    count_bytes -= static_cast<size_t>(got);
  }
}

}  // namespace

std::string RandomBytes(size_t count_bytes) {
  std::string bytes(count_bytes, '\0');
  Fill(bytes.data(), bytes.size());
  return bytes;
}

std::string RandomHex(size_t count_bytes) {
  return absl::BytesToHexString(RandomBytes(count_bytes));
}

uint64_t RandomU64() {
  uint64_t value = 0;
  Fill(&value, sizeof(value));
  return value;
}

bool SecureEquals(absl::string_view a, absl::string_view b) {
  // Runs over all of `b` whatever `a` is; volatile keeps the compiler from leaving early.
  volatile unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i) {
    const char other = i < a.size() ? a[i] : '\0';
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(other ^ b[i]));
  }
  return difference == 0;
}

}  // namespace millrace
