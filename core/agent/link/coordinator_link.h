// File: core/agent/link/coordinator_link.h
//
// The agent's connection to its coordinator: dials, registers, keeps up heartbeats, and dials again
// within the lease when the stream breaks.
//
//   CoordinatorLink link(&loop, {.address = "10.0.0.1:4000", .ca_pem = pem,
//                         .identity_pem = identity, .token = token},
//                        {.make_register = ..., .on_registered = ..., .on_message = ...,
//                         .on_lost = ..., .on_end = ...});
//   link.Start();
//   link.Send(message);      // dropped without a stream: what must not get lost is sent again
//                            // from on_registered
//   link.Finish();           // the node has ended and said so; on_end(OK) follows

#ifndef CORE_AGENT_LINK_COORDINATOR_LINK_H_
#define CORE_AGENT_LINK_COORDINATOR_LINK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/link/attach_call.h"
#include "core/agent/link/coordinator_channel.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Whether dialling again cannot help: UNAUTHENTICATED, ALREADY_EXISTS, CANCELLED, ...
[[nodiscard]] bool IsFinalAttachError(absl::StatusCode code);

// What the person who started the cluster reads when the link ended with `status`: what happened,
// with whom, and what to do.
[[nodiscard]] absl::Status ExplainAttachError(const absl::Status& status,
                                              absl::string_view address);

// Ownership: the loop must outlive it. Threads: "coord-dial" while it dials, "heartbeat" from
// Registered on, gRPC's own. Thread safety: the loop's thread only. Blocking: only the destructor,
// for at most a tenth of a second.
class CoordinatorLink {
 public:
  struct Options {
    CoordinatorEndpoint endpoint;
    // How long the first attachment may take; later ones have the lease.
    absl::Duration connect_timeout;
    // How long a coordinator may take to answer Register.
    absl::Duration register_timeout = absl::Seconds(30);
    // Starts a relay (core/agent/modes/relay_mode.h), which serves `listening`. Set: the stream
    // goes over the connection that the agents of this host share; where there is none to be had,
    // and after one that failed, over one of its own.
    std::function<absl::Status(UniqueFd listening)> start_relay;
  };

  struct Callbacks {
    // Connected, from `local_host`: the numeric address of this end. Returns the message to
    // register with; an error ends the link with it.
    std::function<absl::StatusOr<v1::Register>(const std::string& local_host)> make_register;
    // Registered, for the first time or again.
    std::function<void(const v1::Registered&)> on_registered;
    // Any other message.
    std::function<void(const v1::CoordinatorMessage&)> on_message;
    // The stream broke; the link dials again.
    std::function<void(const absl::Status&)> on_lost;
    // The link is over: OK after Finish(), otherwise a final error (see ExplainAttachError()) or
    // UNAVAILABLE after connect_timeout or the lease. Nothing follows.
    std::function<void(const absl::Status&)> on_end;
  };

  CoordinatorLink(EventLoop* loop, Options options, Callbacks callbacks);
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  void Start();

  // Sends on the present stream. False if there is none that is registered, or, for a message that
  // may be lost, if too much waits.
  bool Send(v1::AgentMessage message, bool droppable = false);

  // Breaks the stream and attaches again (to get the whole spec).
  void Reattach(const absl::Status& why);

  // Half-closes after what was sent, now or as soon as there is a stream again.
  void Finish();

  // The coordinator is at `address` (host:port) from now on: leaves another one, and dials there at
  // once. The lease counts from the end of the stream that there was.
  void SetAddress(const std::string& address);

  // Paused: the coordinator may be silent or gone for any time, and is not dialled. Afterwards the
  // lease begins anew.
  void SetPaused(bool paused);

  [[nodiscard]] bool registered() const { return registered_; }
  // For other calls to the same coordinator, over a connection of its own, which is made when it is
  // needed. Thread-safe objects.
  [[nodiscard]] std::shared_ptr<v1::Coordinator::Stub> stub() const { return stub_; }
  // Of the last dial; null before the first.
  [[nodiscard]] std::shared_ptr<grpc::Channel> channel() const { return channel_; }

 private:
  void Dial();
  // An invalid descriptor: none is wanted, or to be had.
  UniqueFd ReachOrStartRelay();
  // `local_host` empty: not connected. `relay` valid: connected over it.
  void OnDialled(const std::string& local_host, UniqueFd relay);
  void StartStream();
  void StartGiveUpTimer(absl::Duration after);
  void StartFinishTimer();
  void OnRegistered(const v1::Registered& registered);
  void OnStreamDone(const absl::Status& status);
  void Retry(const absl::Status& why);
  void End(const absl::Status& status);
  void StartHeartbeats(absl::Duration interval);

  EventLoop* const loop_;
  Options options_;  // but for the address constant
  Callbacks callbacks_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted closures
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<v1::Coordinator::Stub> stub_;         // over channel_
  std::shared_ptr<v1::Coordinator::Stub> attach_stub_;  // the same, or over the relay
  bool relay_works_ = true;
  bool relayed_ = false;  // attach_stub_ is over the relay
  std::shared_ptr<AttachCall> stream_;
  uint64_t generation_ = 0;  // of stream_: callbacks of older ones are ignored
  bool registered_ = false;  // on stream_
  bool ever_registered_ = false;
  bool finishing_ = false;
  bool paused_ = false;
  bool dial_when_resumed_ = false;  // only while paused_
  bool ended_ = false;
  bool dialling_ = false;      // the thread has not said yet what came of it
  bool redial_ = false;        // only while dialling_: what comes of it is about another address
  absl::Status reattach_why_;  // set: the stream was broken by Reattach()
  absl::Duration lease_ = absl::Seconds(10);
  absl::Status last_error_;  // of the stream or dial before
  absl::Duration backoff_;
  EventLoop::TimerId timer_ = EventLoop::kNoTimer;          // next dial, or the wait for an answer
  EventLoop::TimerId give_up_timer_ = EventLoop::kNoTimer;  // while not registered

  std::shared_ptr<std::atomic<bool>> dial_cancelled_;
  Thread dialler_;

  // Shared with the heartbeat thread.
  Mutex heartbeat_mu_;
  std::shared_ptr<AttachCall> heartbeat_stream_ ABSL_GUARDED_BY(heartbeat_mu_);
  UniqueFd heartbeat_stop_;  // eventfd
  Thread heartbeats_;
};

}  // namespace millrace

#endif  // CORE_AGENT_LINK_COORDINATOR_LINK_H_
