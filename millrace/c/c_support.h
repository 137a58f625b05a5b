// File: millrace/c/c_support.h
//
// What both C libraries need at their border: statuses, structs and texts.
//
// Defines: ReportStatus(), StatusOf(), ReadStruct(), WriteStruct(), CopyText(), NullArgument(),
// DurationOf().
#ifndef MILLRACE_C_C_SUPPORT_H_
#define MILLRACE_C_C_SUPPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/c/millrace.h"

namespace millrace {

// Puts `status` into *error, if there is one, and returns its code.
int32_t ReportStatus(const absl::Status& status, millrace_error* error);

// What a callback has returned, with the text that it has put into `error`.
[[nodiscard]] absl::Status StatusOf(int32_t code, const millrace_error& error);
[[nodiscard]] absl::Status StatusOf(int32_t code, const char* message);

// In memory that millrace_free() frees.
[[nodiscard]] char* CopyText(absl::string_view text);

[[nodiscard]] absl::Status NullArgument(absl::string_view function, absl::string_view argument);

[[nodiscard]] inline absl::Duration DurationOf(int64_t ms) {
  return ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(ms);
}

namespace c_support_internal {
[[nodiscard]] absl::Status CheckStructSize(const void* given, size_t given_size, size_t known_size);
}  // namespace c_support_internal

// The caller's struct in the size that this library knows; what the caller does not know is zero.
// Returns INVALID_ARGUMENT if struct_size is none, UNIMPLEMENTED if the caller sets a member that
// this library does not know.
template <typename T>
[[nodiscard]] absl::StatusOr<T> ReadStruct(const T* given) {
  T known;
  std::memset(&known, 0, sizeof(known));
  if (given == nullptr) return known;
  if (absl::Status status =
          c_support_internal::CheckStructSize(given, given->struct_size, sizeof(T));
      !status.ok()) {
    return status;
  }
  std::memcpy(&known, given, std::min(given->struct_size, sizeof(T)));
  return known;
}

// The other way round: as much as the caller knows. Its struct_size stays. Errors as ReadStruct.
template <typename T>
[[nodiscard]] absl::Status WriteStruct(T known, T* out) {
  if (absl::Status status =
          c_support_internal::CheckStructSize(nullptr, out->struct_size, sizeof(T));
      !status.ok()) {
    return status;
  }
  known.struct_size = out->struct_size;
  std::memcpy(out, &known, std::min(out->struct_size, sizeof(T)));
  return absl::OkStatus();
}

}  // namespace millrace

#endif  // MILLRACE_C_C_SUPPORT_H_
