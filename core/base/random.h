// File: core/base/random.h
//
// Random bytes fit for keys, tokens and nonces, from getrandom(2).
//
// Defines: RandomBytes(), RandomHex(), RandomU64(), SecureEquals().
//
//   const std::string token = millrace::RandomHex(32);   // 64 hexadecimal digits
//   if (!millrace::SecureEquals(token, presented)) return absl::UnauthenticatedError("...");
//
// Thread safety: thread-safe. Blocking: only before the kernel's pool is seeded, at early boot. A
// kernel without getrandom ends the process: nothing weaker is ever used.

#ifndef CORE_BASE_RANDOM_H_
#define CORE_BASE_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// `count_bytes` random bytes.
[[nodiscard]] std::string RandomBytes(size_t count_bytes);

// `count_bytes` random bytes as 2 * count_bytes lower-case hexadecimal digits.
[[nodiscard]] std::string RandomHex(size_t count_bytes);

[[nodiscard]] uint64_t RandomU64();

// Compares secrets in a time that depends on the length of `b` only, not on where they differ.
[[nodiscard]] bool SecureEquals(absl::string_view a, absl::string_view b);

}  // namespace millrace

#endif  // CORE_BASE_RANDOM_H_
