// File: core/proto/grpc_status.h
//
// absl::Status as gRPC carries it. The codes are the same numbers.
//
// Defines: ToGrpcStatus(), FromGrpcStatus().
//
// Thread safety: pure functions.

#ifndef CORE_PROTO_GRPC_STATUS_H_
#define CORE_PROTO_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace millrace {

// The message travels as metadata, of which a peer takes little: it is cut to 4 KiB. Payloads stay
// behind.
[[nodiscard]] grpc::Status ToGrpcStatus(const absl::Status& status);

// Whole: what came over the wire has gRPC's bounds.
[[nodiscard]] absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace millrace

#endif  // CORE_PROTO_GRPC_STATUS_H_
