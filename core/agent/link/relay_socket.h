// File: core/agent/link/relay_socket.h
//
// How the agents of one host find the relay that has the connection to their coordinator
// (core/agent/modes/relay_mode.h): a unix socket in the abstract namespace, whose name all of them
// know and nobody can guess before it is bound. The first that asks binds it, and starts the relay.
//
// Defines: RelayName(), RelayEnds, ReachRelay(), IsOwnUser(), kMaxGreetingBytes, ReadGreeting().
//
//   MILLRACE_ASSIGN_OR_RETURN(RelayEnds relay, ReachRelay(RelayName(endpoint)));
//   if (relay.listening.valid()) Start(std::move(relay.listening));   // it is this agent's to do
//   MILLRACE_ASSIGN_OR_RETURN(std::string local_host, ReadGreeting(relay.connection.get(), ...));
//
// A relay's first line is the numeric address of its end of the connection to the coordinator; what
// follows is gRPC without TLS. One that cannot reach the coordinator closes the socket instead.
//
// Thread safety: pure functions.

#ifndef CORE_AGENT_LINK_RELAY_SOCKET_H_
#define CORE_AGENT_LINK_RELAY_SOCKET_H_

#include <atomic>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/agent/link/coordinator_channel.h"
#include "core/base/unique_fd.h"

namespace millrace {

// That of this user's agents on this host with this token, coordinator and CA.
[[nodiscard]] std::string RelayName(const CoordinatorEndpoint& endpoint);

struct RelayEnds {
  UniqueFd connection;  // to the relay, which may not have accepted it yet
  UniqueFd listening;   // valid: nobody listened before; a relay is to be started with it
};

// Connects to whoever listens under `name`, or listens. Returns PERMISSION_DENIED if another user
// does, UNAVAILABLE if neither succeeds, RESOURCE_EXHAUSTED without a descriptor. Blocking: never.
[[nodiscard]] absl::StatusOr<RelayEnds> ReachRelay(const std::string& name);

// Whether the other end of a unix socket is a process of this process's user.
[[nodiscard]] bool IsOwnUser(int fd);

inline constexpr size_t kMaxGreetingBytes = 64;

// The relay's first line, and not a byte more. Returns UNAVAILABLE if there is none, or the socket
// ends; DEADLINE_EXCEEDED after `timeout`, CANCELLED soon after `cancelled` is set. Blocking.
[[nodiscard]] absl::StatusOr<std::string> ReadGreeting(int fd, absl::Duration timeout,
                                                       const std::atomic<bool>& cancelled);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_RELAY_SOCKET_H_
