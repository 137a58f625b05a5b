#include "millrace/tensorflow_error.h"

#include "absl/strings/cord.h"

namespace millrace {
namespace {

constexpr absl::string_view kPayloadUrl = "millrace/tensorflow_error_class";

}  // namespace

absl::Status TensorFlowError(absl::StatusCode code, absl::string_view python_class,
                             absl::string_view message) {
  absl::Status status(code, message);
  status.SetPayload(kPayloadUrl, absl::Cord(python_class));
  return status;
}

std::optional<std::string> TensorFlowErrorClass(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace millrace
