// File: core/net/grpc_log.h
//
// gRPC's own log, which holds peers' bytes as they came (a header's value, a certificate's name):
// as lines of MILLRACE_LOG, so escaped, cut and limited. A target of its own, since it needs gRPC.
//
//   LogGrpcHere();   // first in a program that serves or dials

#ifndef CORE_NET_GRPC_LOG_H_
#define CORE_NET_GRPC_LOG_H_

#include <cstdint>

namespace millrace {

// gRPC's errors become warnings; what GRPC_VERBOSITY asks for besides, lines of level info and
// debug. `handshake_hint`: put before a failed handshake's text, for people; it must live for ever.
// The first call of this or of SilenceGrpc() counts for the process; a program's own
// gpr_set_log_function() after it wins. Thread safety: thread-safe.
void LogGrpcHere(const char* handshake_hint = nullptr);

// Handshakes of which this process's gRPC has said that they failed, since LogGrpcHere() with a
// hint. Thread safety: thread-safe.
[[nodiscard]] uint64_t FailedHandshakes();

// gRPC writes nothing.
void SilenceGrpc();

}  // namespace millrace

#endif  // CORE_NET_GRPC_LOG_H_
