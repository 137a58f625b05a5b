#include "core/net/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxTextBytes = 1024;

std::atomic<bool> g_set{false};
std::atomic<const char*> g_handshake_hint{nullptr};
std::atomic<uint64_t> g_failed_handshakes{0};

void OnGrpcLog(gpr_log_func_args* args) {
  const absl::string_view text = args->message;
  const char* const hint = g_handshake_hint.load();
  if (hint != nullptr && absl::StrContains(text, "Handshake failed")) {
    g_failed_handshakes.fetch_add(1);
    MILLRACE_LOG(WARNING) << hint << " (" << Ellipsize(text, kMaxTextBytes) << ")";
  } else if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    MILLRACE_LOG(WARNING) << "gRPC: " << Ellipsize(text, kMaxTextBytes);
  } else if (args->severity == GPR_LOG_SEVERITY_INFO) {
    MILLRACE_LOG(INFO) << "gRPC: " << Ellipsize(text, kMaxTextBytes);
  } else {
    MILLRACE_LOG(DEBUG) << "gRPC: " << Ellipsize(text, kMaxTextBytes);
  }
}

}  // namespace

void LogGrpcHere(const char* handshake_hint) {
  if (g_set.exchange(true)) return;
  g_handshake_hint.store(handshake_hint);
  gpr_set_log_function(OnGrpcLog);
}

uint64_t FailedHandshakes() { return g_failed_handshakes.load(); }

void SilenceGrpc() {
  if (!g_set.exchange(true)) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace millrace
