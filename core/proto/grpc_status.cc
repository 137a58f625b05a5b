#include "core/proto/grpc_status.h"

#include <cstddef>

#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxMessageBytes = 4 << 10;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Ellipsize(status.message(), kMaxMessageBytes));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace millrace
