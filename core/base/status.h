// File: core/base/status.h
//
// Helpers around absl::Status that every package uses. Errors are plain absl::Status with gRPC's
// meanings; there is no Status type of our own.
//
// Defines: Annotate(), StatusCodeFromName().
//
//   absl::Status status = ReadSpec(path);
//   if (!status.ok()) return millrace::Annotate(status, absl::StrCat("node ", id));
//   // "node worker:3: field \"port\" must be an integer, found string"

#ifndef CORE_BASE_STATUS_H_
#define CORE_BASE_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Returns `status` with "prefix: " put before its message; code and payloads stay. An OK status and
// an empty prefix come back unchanged. A status without a message becomes just the prefix.
// Thread safety: pure function.
[[nodiscard]] absl::Status Annotate(const absl::Status& status, absl::string_view prefix);

// The code of that name, as JSON carries it ("DATA_LOSS"); kUnknown for a name that is none, and
// for "OK", which is no error. absl::StatusCodeToString is the other direction. Thread safety: pure
// function.
[[nodiscard]] absl::StatusCode StatusCodeFromName(absl::string_view name);

}  // namespace millrace

#endif  // CORE_BASE_STATUS_H_
