// File: core/node/control_client.h
//
// The node's end of the control channel to its agent (docs/control_protocol.md, section 2).
//
// Defines: ControlClient, CheckControlSocket(), kMaxControlFrameBytes.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ControlClient> control,
//                             ControlClient::Start(UniqueFd(fd), handlers));
//   MILLRACE_ASSIGN_OR_RETURN(Json reply, control->Call("kv.get", params, absl::Seconds(5)));
#ifndef CORE_NODE_CONTROL_CLIENT_H_
#define CORE_NODE_CONTROL_CLIENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Largest frame in either direction, in bytes, as the protocol fixes it.
inline constexpr uint32_t kMaxControlFrameBytes = 4u << 20;

// Returns FAILED_PRECONDITION, naming the descriptor, if `fd` is no connected UNIX stream socket.
[[nodiscard]] absl::Status CheckControlSocket(int fd);

// Calls to the agent and pushes from it.
//
// Ownership: owns the descriptor, which becomes close-on-exec: the node's own children must not
// keep the channel open. Thread safety: all methods, from any thread. Blocking: Call() waits for
// its reply and Flush() for the agent to read, both at most as long as they are told; Notify()
// never. What the socket does not take is sent by the channel's own thread. Lifetime: the
// destructor closes the channel, fails calls still waiting with CANCELLED, and returns when they
// have returned.
class ControlClient {
 public:
  // Frames that the agent has not read, beyond what the socket holds.
  static constexpr size_t kMaxUnsentBytes = size_t{2} * kMaxControlFrameBytes;

  struct Handlers {
    // One push frame. Runs on the channel's thread, one at a time; must not block and must not
    // Call(). `control` is for answers: the first push may come before Start() has returned its
    // owner the pointer, the last one while the owner destroys it.
    std::function<void(ControlClient& control, const Json& frame)> on_push;
    // What is to be done at intervals, from StartTicks() on. As on_push.
    std::function<void(ControlClient& control)> on_tick;
    // The channel ended from the other side (UNAVAILABLE), or what came was no frame (DATA_LOSS).
    // Runs on the channel's thread, at most once, and before any call fails because of it: who ends
    // the process here ends it before the program can do so in its own way.
    std::function<void(const absl::Status&)> on_closed;
  };

  // Returns FAILED_PRECONDITION as CheckControlSocket, RESOURCE_EXHAUSTED without descriptors or
  // threads.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ControlClient>> Start(UniqueFd fd,
                                                                            Handlers handlers);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  // Sends a request and waits for its reply: the `result`, or the `error` as a Status. Returns
  // DEADLINE_EXCEEDED after `timeout` (absl::InfiniteDuration() is allowed; zero and less send the
  // request and do not wait), UNAVAILABLE if the agent is gone, INVALID_ARGUMENT if the frame would
  // be too large, INTERNAL if the reply is none.
  [[nodiscard]] absl::StatusOr<Json> Call(absl::string_view method, const Json& params,
                                          absl::Duration timeout);

  // The same for what waits for other nodes, and may do so for long: also returns what EndWaits()
  // was given, at once if that was before.
  [[nodiscard]] absl::StatusOr<Json> CallAndWait(absl::string_view method, const Json& params,
                                                 absl::Duration timeout);
  // The node is to end: CallAndWait() returns `why`, which must not be OK, now and from here on.
  // What the agent still answers is dropped. The first call counts.
  void EndWaits(const absl::Status& why);

  // Sends a request that gets no reply. Returns UNAVAILABLE and INVALID_ARGUMENT as Call(),
  // RESOURCE_EXHAUSTED if the agent does not read and kMaxUnsentBytes wait for it.
  absl::Status Notify(absl::string_view method, const Json& params);

  // From now on on_tick runs once per `interval`, which is at least a millisecond.
  void StartTicks(absl::Duration interval);

  // Waits until the system has taken all frames, so that they reach the agent even if this process
  // ends. Returns false if that did not happen within `timeout`.
  bool Flush(absl::Duration timeout);

 private:
  struct Waiter {
    CondVar changed;
    bool for_others = false;  // CallAndWait()
    bool done = false;
    absl::Status status;
    Json result;
  };
  // Counts a thread inside a method that waits; lives while mu_ is held.
  class Visit;

  ControlClient(UniqueFd fd, UniqueFd wake, Handlers handlers);

  [[nodiscard]] absl::StatusOr<Json> Call(absl::string_view method, const Json& params,
                                          absl::Duration timeout, bool for_others);

  // ---- The channel's thread.
  void Run();
  // Waits until `due` (steady) at the longest.
  [[nodiscard]] absl::Status RunTurn(bool unsent, absl::Duration due);
  [[nodiscard]] absl::Status ReadSome();
  [[nodiscard]] absl::Status HandleFrames();
  void Dispatch(const Json& frame);

  void FailAll(const absl::Status& status);
  [[nodiscard]] bool HasRoom(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Enqueue(absl::string_view frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake();

  const UniqueFd fd_;
  const UniqueFd wake_;  // eventfd: there is something to send, or the end
  const Handlers handlers_;
  std::atomic<uint64_t> next_id_{1};
  std::string in_;  // the channel's thread: at most one frame and one read

  Mutex mu_;
  CondVar room_;  // out_ has shrunk, or the channel is closed
  CondVar idle_;  // visits_ is 0
  std::map<uint64_t, Waiter*> waiting_ ABSL_GUARDED_BY(mu_);
  std::string out_ ABSL_GUARDED_BY(mu_);  // frames not sent, from out_start_ on
  size_t out_start_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);  // why nothing can be sent any more; OK while open
  absl::Status waits_ended_ ABSL_GUARDED_BY(mu_);  // OK while calls may wait for others
  absl::Duration tick_interval_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int visits_ ABSL_GUARDED_BY(mu_) = 0;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace millrace

#endif  // CORE_NODE_CONTROL_CLIENT_H_
