// File: core/balance/feed_target.h
//
// A fed node at one moment: what the coordinator knows of it and feeders ask for.
//
// Defines: FeedTarget.
//
// Thread safety: an ordinary value.

#ifndef CORE_BALANCE_FEED_TARGET_H_
#define CORE_BALANCE_FEED_TARGET_H_

#include <cstdint>
#include <string>

namespace millrace {

struct FeedTarget {
  enum class State {
    kStarting,    // it has not published its endpoints yet
    kRunning,     // the endpoints are those of a living process
    kRestarting,  // the process is gone, another attempt follows; endpoints mean nothing
    kFinished,    // exited with 0
    kFailed,      // will not come back
  };

  std::string node;  // "worker:1"
  int executor_id = -1;
  uint32_t attempt = 0;
  std::string host;   // as its agent names it; empty: not known
  std::string nonce;  // of the attempt: 16 hex digits
  // Where the node receives rows; any of them may be empty. ipc is for feeders of the network
  // namespace that its name tells (feed/wire/local_name.h): in another one it may be somebody
  // else's. All others, and those whom the ipc endpoint fails, come by CURVE, or by tcp to a node
  // without it.
  std::string ipc_endpoint;
  std::string tcp_endpoint;    // loopback
  std::string curve_endpoint;  // the advertised address
  std::string key;             // what logins at ipc and tcp prove to know, both ways; secret
  std::string curve_key;       // Z85, public: the server's at curve_endpoint, and the node's own
  State state = State::kRunning;
};

}  // namespace millrace

#endif  // CORE_BALANCE_FEED_TARGET_H_
