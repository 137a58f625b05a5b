// File: core/client/client_channel.h
//
// A channel to one cluster's coordinator, and what every call over it needs.
//
// Defines: CheckEndpoint(), MakeClientChannel(), PrepareCall(), FromCallStatus(), LiveContexts.
//
// Thread safety: thread-safe. Blocking: never.

#ifndef CORE_CLIENT_CLIENT_CHANNEL_H_
#define CORE_CLIENT_CLIENT_CHANNEL_H_

#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace millrace {

// Returns INVALID_ARGUMENT if the address is no host:port, the CA is no certificate, or the
// identity is not a certificate with its key.
[[nodiscard]] absl::Status CheckEndpoint(const std::string& address, const std::string& ca_pem,
                                         const std::string& identity_pem);

// A snapshot of 10,000 nodes with eight GPUs each is some 40 MB.
inline constexpr int kMaxSnapshotBytes = 256 << 20;

// TLS that trusts `ca_pem` only, expects a coordinator's name, and shows the client certificate of
// `identity_pem`, which holds its key as well. Shares its connection with no other channel.
// Readers, feeders and agents (core/agent/link/coordinator_channel.h) all dial with this.
[[nodiscard]] std::shared_ptr<grpc::Channel> MakeClientChannel(
    const std::string& address, const std::string& ca_pem, const std::string& identity_pem,
    int max_message_bytes = kMaxSnapshotBytes);

// Who calls, with which token, of which version (core/base/peer_version.h), and for how long;
// InfiniteDuration(): no deadline.
void PrepareCall(const std::string& token, absl::Duration timeout, grpc::ClientContext* context);

// The status of a call; its message says which coordinator was called and what to do. A certificate
// that is not the cluster's is FAILED_PRECONDITION.
[[nodiscard]] absl::Status FromCallStatus(const grpc::Status& status, const std::string& address);

// The calls under way, so that they can be cancelled from another thread.
class LiveContexts {
 public:
  // A call, from before it starts until it has ended.
  class Entry {
   public:
    Entry(LiveContexts* all, grpc::ClientContext* context);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    // CANCELLED: the call must not be made.
    [[nodiscard]] const absl::Status& status() const { return status_; }

   private:
    LiveContexts* const all_;
    grpc::ClientContext* const context_;
    absl::Status status_;
  };

  // Cancels all, and refuses later ones.
  void CancelAll();
  [[nodiscard]] bool cancelled() const;

 private:
  mutable Mutex mu_;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace millrace

#endif  // CORE_CLIENT_CLIENT_CHANNEL_H_
