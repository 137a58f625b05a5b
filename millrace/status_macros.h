// File: millrace/status_macros.h
//
// The two macros that hand an error to the caller.
//
// Defines: MILLRACE_RETURN_IF_ERROR(expr), MILLRACE_ASSIGN_OR_RETURN(lhs, expr).
//
//   absl::StatusOr<int> Sum(absl::string_view a, absl::string_view b) {
//     MILLRACE_RETURN_IF_ERROR(CheckReady());
//     MILLRACE_ASSIGN_OR_RETURN(int x, ParseInt(a));   // declares x
//     int y = 0;
//     MILLRACE_ASSIGN_OR_RETURN(y, ParseInt(b));       // assigns y
//     return x + y;
//   }
//
// The enclosing function returns absl::Status or absl::StatusOr<T>. `expr` is evaluated once and
// may contain commas; a `lhs` with a comma in its type needs `auto` or a type alias.
// MILLRACE_ASSIGN_OR_RETURN is more than one statement: put braces around it under if, for, while.

#ifndef MILLRACE_STATUS_MACROS_H_
#define MILLRACE_STATUS_MACROS_H_

#include <utility>  // for std::move

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::internal {

inline absl::Status ToStatus(absl::Status status) { return status; }
template <typename T>
absl::Status ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace millrace::internal

// Returns from the enclosing function if `expr`, an absl::Status or StatusOr, is not OK.
#define MILLRACE_RETURN_IF_ERROR(...)                                                          \
  do {                                                                                         \
    if (absl::Status millrace_internal_status = ::millrace::internal::ToStatus((__VA_ARGS__)); \
        !millrace_internal_status.ok()) {                                                      \
      return millrace_internal_status;                                                         \
    }                                                                                          \
  } while (false)

// Moves the value of `expr`, an absl::StatusOr<T>, into `lhs` (a variable or a declaration), or
// returns its status from the enclosing function.
#define MILLRACE_ASSIGN_OR_RETURN(lhs, ...) \
  MILLRACE_INTERNAL_ASSIGN_OR_RETURN(       \
      MILLRACE_INTERNAL_CONCAT(millrace_internal_result_, __LINE__), lhs, (__VA_ARGS__))

#define MILLRACE_INTERNAL_ASSIGN_OR_RETURN(result, lhs, expr) \
  auto result = expr;                                         \
  if (!result.ok()) return std::move(result).status();        \
  lhs = *std::move(result)

#define MILLRACE_INTERNAL_CONCAT(a, b) MILLRACE_INTERNAL_CONCAT2(a, b)
#define MILLRACE_INTERNAL_CONCAT2(a, b) a##b

#endif  // MILLRACE_STATUS_MACROS_H_
