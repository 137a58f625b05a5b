// File: testing/attacks/raw_peer.h
//
// ZMTP 3.0 by hand, over TCP of this host: a peer that says what no library would.
//
// Defines: LoopbackListener, SocketFor(), ConnectSocket(), ConnectTo(), Greeting(), Say(), Hear(),
// CommandFrame(), HearFrame(), ServePlainHandshake().

#ifndef TESTING_ATTACKS_RAW_PEER_H_
#define TESTING_ATTACKS_RAW_PEER_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"

namespace millrace::attacks {

// A failure of the system fails the test. Thread safety: single-threaded. Blocking: Accept().
class LoopbackListener {
 public:
  LoopbackListener();

  // "tcp://127.0.0.1:4711".
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] UniqueFd Accept() const;

 private:
  UniqueFd fd_;
  std::string endpoint_;
};

// Connects to an endpoint as ZeroMQ writes it, of TCP on this host or "ipc://@name".
[[nodiscard]] UniqueFd ConnectTo(absl::string_view endpoint);
// The same in two steps: a descriptor for it, and the connection. Both failures fail the test.
[[nodiscard]] UniqueFd SocketFor(absl::string_view endpoint);
void ConnectSocket(int fd, absl::string_view endpoint);

// The 64 bytes with which a side begins.
[[nodiscard]] std::string Greeting(absl::string_view mechanism, bool as_server);

// Sends, and receives, all of it; anything else fails the test.
void Say(int fd, absl::string_view bytes);
std::string Hear(int fd, size_t size);

// A command of up to 255 bytes, "\4PING..." for one, as a frame.
[[nodiscard]] std::string CommandFrame(absl::string_view command);
// Receives a frame; returns its body. `flags`, unless it is null, is set to the frame's.
std::string HearFrame(int fd, char* flags = nullptr);

// Plays a PULL server that takes every login, up to the end of the handshake.
void ServePlainHandshake(int fd);

}  // namespace millrace::attacks

#endif  // TESTING_ATTACKS_RAW_PEER_H_
