// File: status_code.h
//
// gRPC's status codes by name, as JSON carries them ("DATA_LOSS"). The other direction is
// absl::StatusCodeToString.
#ifndef CORE_BASE_STATUS_CODE_H_
#define CORE_BASE_STATUS_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The code of that name; kUnknown for a name that is none, and for "OK", which is no error.
[[nodiscard]] absl::StatusCode StatusCodeFromName(absl::string_view name);

}  // namespace millrace

#endif  // CORE_BASE_STATUS_CODE_H_
