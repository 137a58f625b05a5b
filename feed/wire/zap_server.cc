#include "feed/wire/zap_server.h"

#include <vector>

#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxUserIdBytes = 255;

}  // namespace

absl::StatusOr<ZapServer> ZapServer::Create(const ZmqContext& context, Decision decide) {
  SocketOptions options;
  MILLRACE_ASSIGN_OR_RETURN(ZmqSocket socket,
                            ZmqSocket::Create(context, SocketType::kRep, options));
  MILLRACE_RETURN_IF_ERROR(socket.Bind("inproc://zeromq.zap.01").status());
  socket.DetachFromThread();
  return ZapServer(std::move(socket), std::move(decide));
}

absl::Status ZapServer::Poll() {
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<std::vector<ZmqMessage>> parts, socket_.Receive());
    if (!parts.has_value()) return absl::OkStatus();
    // version, request id, domain, address, routing id, mechanism, credentials...
    const auto text = [&](size_t i) {
      return i < parts->size() ? std::string((*parts)[i].view()) : std::string();
    };
    ZapRequest request{.mechanism = text(5), .domain = text(2), .address = text(3)};
    if (request.mechanism == "PLAIN") {
      request.user = text(6);
      request.password = text(7);
    } else if (request.mechanism == "CURVE") {
      request.curve_key = text(6);
    }
    std::optional<std::string> principal;
    if (parts->size() >= 6 && text(0) == "1.0" && request.domain == kZapDomain) {
      principal = decide_(request);
    }
    if (principal.has_value() && principal->size() > kMaxUserIdBytes) principal.reset();

    std::vector<ZmqMessage> reply;
    reply.push_back(ZmqMessage::Copy("1.0"));
    reply.push_back(ZmqMessage::Copy(text(1)));
    reply.push_back(ZmqMessage::Copy(principal.has_value() ? "200" : "400"));
    reply.push_back(ZmqMessage::Copy(principal.has_value() ? "OK" : "refused"));
    reply.push_back(ZmqMessage::Copy(principal.value_or("")));
    reply.push_back(ZmqMessage::Copy(""));  // no metadata
    MILLRACE_RETURN_IF_ERROR(socket_.Send(std::move(reply)).status());
  }
}

}  // namespace millrace
