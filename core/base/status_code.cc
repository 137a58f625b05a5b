#include "core/base/status_code.h"

namespace millrace {

absl::StatusCode StatusCodeFromName(absl::string_view name) {
  for (int value = 1; value <= 16; ++value) {
    const absl::StatusCode code = static_cast<absl::StatusCode>(value);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace millrace
