// File: core/cluster/adoption_call.h
//
// One Adopt call to an agent that listens (core/proto/adopt.proto), over a connection of its own.
//
// Defines: AdoptionCall.

#ifndef CORE_CLUSTER_ADOPTION_CALL_H_
#define CORE_CLUSTER_ADOPTION_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/launch/agent_secret.h"
#include "core/proto/adopt.grpc.pb.h"
#include "core/proto/adopt.pb.h"

namespace millrace {

// What the driver's user reads when a call to the agent at `address` ended with `status`: what
// happened and what to do. A certificate that is not the secret's is PERMISSION_DENIED, what is no
// agent FAILED_PRECONDITION; the other codes are the agent's, or UNAVAILABLE where nobody answers.
[[nodiscard]] absl::Status ExplainAdoptError(const absl::Status& status, absl::string_view address);

// Ownership: shared between its user and gRPC, which gives its part to on_done. Thread safety:
// thread-safe. Blocking: never. Lifetime: its last owner must not let go of it on gRPC's threads,
// which cannot end the connection that they serve.
class AdoptionCall final : public grpc::ClientBidiReactor<v1::AdoptRequest, v1::AdoptEvent> {
 public:
  // From gRPC's threads: on_event in order, on_done last and once, explained, with the call itself,
  // to be let go of elsewhere. They must not block.
  struct Callbacks {
    std::function<void(const v1::AdoptEvent&)> on_event;
    std::function<void(const absl::Status&, std::shared_ptr<AdoptionCall>)> on_done;
  };

  // Connects to `address`, believing nobody but who has the secret's key, and sends `hold`.
  [[nodiscard]] static std::shared_ptr<AdoptionCall> Start(const std::string& address,
                                                           const AgentSecret& secret,
                                                           const v1::Hold& hold,
                                                           Callbacks callbacks);

  // Queues a message; dropped once the call is over.
  void Send(v1::AdoptRequest request);
  // Ends the call now.
  void Cancel() { context_.TryCancel(); }

 private:
  AdoptionCall(std::string address, Callbacks callbacks);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Pump();

  const std::string address_;
  Callbacks callbacks_;  // until OnDone
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AgentHost::Stub> stub_;
  grpc::ClientContext context_;
  v1::AdoptEvent incoming_;             // gRPC's while a read is in progress
  std::shared_ptr<AdoptionCall> self_;  // until OnDone

  Mutex mu_;
  std::deque<v1::AdoptRequest> queue_ ABSL_GUARDED_BY(mu_);  // front: in progress while writing_
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;    // no write may be started any more
  bool released_ ABSL_GUARDED_BY(mu_) = false;  // the writers' hold is given back
};

}  // namespace millrace

#endif  // CORE_CLUSTER_ADOPTION_CALL_H_
