// File: core/agent/modes/relay_mode.h
//
// `millrace-agent relay`: the connection to the coordinator that the agents of one host share. It
// is started by the first of them (core/agent/link/relay_socket.h), belongs to none, and ends with
// the last one's connection.
//
// Defines: RelayMode.

#ifndef CORE_AGENT_MODES_RELAY_MODE_H_
#define CORE_AGENT_MODES_RELAY_MODE_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/agent/link/coordinator_channel.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/modes/host_call.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/coordinator/stream/live_calls.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"

namespace millrace {

// Reads {"coordinator": {...}}, as in `start`, from `in_fd` to its end, and dials. Agents that
// connect to `listening_fd` are greeted once the coordinator is reached. When it is not, when the
// stream to it ends, or when no agent is left, the process ends; agents whose connection is cut so
// dial the coordinator themselves.
//
// Ownership: the loop must outlive it. Threads: "relay-dial" while it dials; gRPC's own. Thread
// safety: the loop's thread only. Blocking: never. Lifetime: as long as the process.
class RelayMode {
 public:
  struct Options {
    int in_fd = 0;
    int listening_fd = 3;
  };

  RelayMode(EventLoop* loop, Options options);
  ~RelayMode();
  RelayMode(const RelayMode&) = delete;
  RelayMode& operator=(const RelayMode&) = delete;

  void Start();
  void OnSignal(int signal);
  int Cleanup();

 private:
  class Service;

  void ReadRequest();
  void Dial(const CoordinatorEndpoint& endpoint);
  void OnDialled(const std::string& local_host);  // empty: not reached
  void Accept();
  void Greet(UniqueFd connection);
  void OnAgentGone(int watched);
  // Nobody is left: says so to the coordinator, and quits when it has heard.
  void Leave();
  void StopListening();
  void Fail(const std::string& why);

  EventLoop* const loop_;
  const UniqueFd in_;
  UniqueFd listening_;  // until it leaves: its name is free then
  std::string request_;
  CoordinatorEndpoint endpoint_;
  std::atomic<bool> dial_cancelled_{false};
  Thread dialler_;
  std::shared_ptr<grpc::Channel> channel_;
  std::string local_host_;  // set: the coordinator is reached
  LiveCalls calls_;
  std::shared_ptr<HostCall> call_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::map<int, UniqueFd> agents_;  // copies of their sockets, to see their ends
  std::vector<UniqueFd> waiting_;   // not greeted yet
  bool leaving_ = false;
  int exit_code_ = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_RELAY_MODE_H_
