// File: core/agent/link/local_address.h
//
// Which address of this host a connection of this process uses: the one under which peers on the
// same network can reach it.
//
//   const std::string host = LocalHostTowards(4000);   // "10.0.0.7"

#ifndef CORE_AGENT_LINK_LOCAL_ADDRESS_H_
#define CORE_AGENT_LINK_LOCAL_ADDRESS_H_

#include <cstdint>
#include <string>

namespace millrace {

// The numeric local address of an open TCP connection of this process to `peer_port` (gRPC does not
// tell that of its own); IPv4 as such also when the socket is IPv6. Empty if there is none.
// Thread safety: thread-safe. Blocking: never (procfs).
[[nodiscard]] std::string LocalHostTowards(uint16_t peer_port);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_LOCAL_ADDRESS_H_
