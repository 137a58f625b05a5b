// File: core/client/feed_gateway_client.h
//
// The coordinator's feed directory and ledger, for a process that feeds and is not the driver.
//
// Defines: FeedGatewayOptions, FeedGatewayClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto gateway, FeedGatewayClient::Connect(options));
//   v1::LookupRequest where;
//   where.set_feed_id("feed-7");
//   where.set_partition(3);
//   MILLRACE_ASSIGN_OR_RETURN(v1::LookupReply target, gateway->Lookup(where));

#ifndef CORE_CLIENT_FEED_GATEWAY_CLIENT_H_
#define CORE_CLIENT_FEED_GATEWAY_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/proto/feed_gateway.pb.h"

namespace millrace {

struct FeedGatewayOptions {
  std::string address;       // host:port
  std::string ca_pem;        // of the cluster
  std::string identity_pem;  // a client certificate of the cluster with its key; a secret
  std::string agent_token;   // a secret
  absl::Duration timeout;    // of each call
};

// Codes as core/proto/feed_gateway.proto and millrace/client.h say.
// Thread safety: thread-safe. Blocking: every call, for at most options.timeout.
class FeedGatewayClient {
 public:
  // Does not connect yet. Returns INVALID_ARGUMENT as ClusterClient::Connect().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FeedGatewayClient>> Connect(
      FeedGatewayOptions options);
  virtual ~FeedGatewayClient() = default;

  [[nodiscard]] virtual absl::StatusOr<v1::LookupReply> Lookup(
      const v1::LookupRequest& request) = 0;
  [[nodiscard]] virtual absl::StatusOr<v1::CauseReply> Cause(const v1::CauseRequest& request) = 0;
  virtual absl::Status Report(const v1::ReportRequest& request) = 0;
  virtual absl::Status Announce(const v1::AnnounceRequest& request) = 0;
  [[nodiscard]] virtual absl::StatusOr<v1::PaceReply> Pace(const v1::PaceRequest& request) = 0;
  virtual absl::StatusOr<v1::AgentGoneReply> AgentGone(const v1::AgentGoneRequest& request) = 0;

  // Ends the calls under way, and refuses later ones: CANCELLED.
  virtual void Cancel() = 0;
};

}  // namespace millrace

#endif  // CORE_CLIENT_FEED_GATEWAY_CLIENT_H_
