// File: core/net/sha256.h
//
// SHA-256 as 64 lower-case hexadecimal digits. A target of its own, since it needs OpenSSL.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::string digest, Sha256HexOfFile(program_path));
//
// Thread safety: thread-safe.

#ifndef CORE_NET_SHA256_H_
#define CORE_NET_SHA256_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

[[nodiscard]] std::string Sha256Hex(absl::string_view bytes);

// Reads the file in pieces, so that its size does not matter. Errors as ReadFile() in
// core/base/file.h. Blocking: disk I/O.
[[nodiscard]] absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);

}  // namespace millrace

#endif  // CORE_NET_SHA256_H_
