#include "millrace/c/c_support.h"

#include <cstdlib>
#include <string>

#include "core/base/log.h"

namespace millrace {

int32_t ReportStatus(const absl::Status& status, millrace_error* error) {
  const auto code = static_cast<int32_t>(status.code());
  if (error == nullptr || error->struct_size < sizeof(millrace_error)) return code;
  std::free(error->message);
  error->code = code;
  error->message = status.ok() ? nullptr : CopyText(status.message());
  return code;
}

absl::Status StatusOf(int32_t code, const char* message) {
  if (code == MILLRACE_OK) return absl::OkStatus();
  const bool known = code > MILLRACE_OK && code <= MILLRACE_UNAUTHENTICATED;
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      message == nullptr ? "" : message);
}

absl::Status StatusOf(int32_t code, const millrace_error& error) {
  return StatusOf(code, error.message == nullptr ? "no reason was given" : error.message);
}

char* CopyText(absl::string_view text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  MILLRACE_CHECK(copy != nullptr) << "out of memory";
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

absl::Status NullArgument(absl::string_view function, absl::string_view argument) {
  return absl::InvalidArgumentError(
      absl::StrCat(function, ": the argument ", argument, " must not be NULL"));
}

namespace c_support_internal {

absl::Status CheckStructSize(const void* given, size_t given_size, size_t known_size) {
  constexpr size_t kLargest = 1 << 16;
  if (given_size < sizeof(size_t) || given_size > kLargest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "struct_size is ", given_size, "; set it to the sizeof of the struct that it is in"));
  }
  const char* bytes = static_cast<const char*>(given);
  for (size_t i = known_size; bytes != nullptr && i < given_size; ++i) {
    if (bytes[i] != 0) {
      return absl::UnimplementedError(absl::StrCat(
          "a struct of ", given_size, " bytes sets what this version of Millrace, which knows ",
          known_size, " of them, does not have; use a newer libmillrace"));
    }
  }
  return absl::OkStatus();
}

}  // namespace c_support_internal
}  // namespace millrace
