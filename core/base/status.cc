#include "core/base/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::Status Annotate(const absl::Status& status, absl::string_view prefix) {
  if (status.ok() || prefix.empty()) return status;
  absl::Status annotated(status.code(), status.message().empty()
                                            ? std::string(prefix)
                                            : absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&annotated](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

absl::StatusCode StatusCodeFromName(absl::string_view name) {
  for (int value = 1; value <= 16; ++value) {
    const absl::StatusCode code = static_cast<absl::StatusCode>(value);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace millrace
