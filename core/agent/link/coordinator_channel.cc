#include "core/agent/link/coordinator_channel.h"

#include <algorithm>
#include <chrono>  // gRPC takes a time_point
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/deadline.h"
#include "core/base/status.h"
#include "core/client/client_channel.h"
#include "core/net/socket_address.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/support/channel_arguments.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxTokenBytes = 4096;
constexpr int kMaxMessageBytes = 32 << 20;

std::chrono::system_clock::time_point SystemTimeAfter(absl::Duration delay) {
  return std::chrono::system_clock::now() + absl::ToChronoMilliseconds(delay);
}

}  // namespace

absl::StatusOr<std::string> ParseCoordinatorAddress(const Json& object, absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(std::string address, GetString(object, "address", where));
  const std::string field = absl::StrCat("field \"", where, ".address\"");
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return Annotate(parsed.status(), field);
  if (parsed->port == 0) return absl::InvalidArgumentError(absl::StrCat(field, " has port 0"));
  return address;
}

absl::StatusOr<CoordinatorEndpoint> ParseCoordinatorEndpoint(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* object, GetObject(params, "coordinator", "params"));
  const absl::string_view where = "params.coordinator";
  CoordinatorEndpoint endpoint;
  MILLRACE_ASSIGN_OR_RETURN(endpoint.address, ParseCoordinatorAddress(*object, where));
  MILLRACE_ASSIGN_OR_RETURN(endpoint.ca_pem, GetString(*object, "ca_pem", where));
  if (!absl::StrContains(endpoint.ca_pem, "-----BEGIN CERTIFICATE-----")) {
    return absl::InvalidArgumentError(
        "field \"params.coordinator.ca_pem\" holds no PEM certificate");
  }
  MILLRACE_ASSIGN_OR_RETURN(endpoint.identity_pem, GetString(*object, "identity_pem", where));
  if (!absl::StrContains(endpoint.identity_pem, "-----BEGIN CERTIFICATE-----") ||
      !absl::StrContains(endpoint.identity_pem, "PRIVATE KEY-----")) {
    return absl::InvalidArgumentError(
        "field \"params.coordinator.identity_pem\" does not hold a PEM certificate with its key");
  }
  MILLRACE_ASSIGN_OR_RETURN(endpoint.token, GetString(*object, "token", where));
  const bool printable = std::all_of(endpoint.token.begin(), endpoint.token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (endpoint.token.empty() || endpoint.token.size() > kMaxTokenBytes || !printable) {
    return absl::InvalidArgumentError(
        "field \"params.coordinator.token\" is no token: 1 to 4096 visible ASCII characters");
  }
  return endpoint;
}

bool WaitConnected(grpc::Channel* channel, const std::atomic<bool>& cancelled) {
  const Deadline deadline(kMaxDial);
  while (!cancelled.load()) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (deadline.Passed()) return false;
    // In slices, since a wait cannot be cancelled.
    channel->WaitForStateChange(state, SystemTimeAfter(absl::Milliseconds(100)));
  }
  return false;
}

std::shared_ptr<grpc::Channel> MakeRelayChannel(UniqueFd connection) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomInsecureChannelFromFd("relay", connection.release(), arguments);
}

std::shared_ptr<grpc::Channel> MakeCoordinatorChannel(const CoordinatorEndpoint& endpoint) {
  return MakeClientChannel(endpoint.address, endpoint.ca_pem, endpoint.identity_pem,
                           kMaxMessageBytes);
}

}  // namespace millrace
