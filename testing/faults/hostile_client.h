// File: testing/faults/hostile_client.h
//
// Somebody who connects to a port and does not mean well.
//
// Defines: HostileAttack, HostileAttacks(), HostileConnection.

#ifndef TESTING_FAULTS_HOSTILE_CLIENT_H_
#define TESTING_FAULTS_HOSTILE_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"
#include "testing/process_table.h"

namespace millrace::faults {

struct HostileAttack {
  std::string name;
  std::string bytes;  // sent after connecting; empty: a half-open connection
};

// Noise, plain HTTP, broken TLS, broken ZMTP with and without a mechanism, wrong passwords. The
// same every time.
[[nodiscard]] std::vector<HostileAttack> HostileAttacks();

// One connection. Thread safety: single-threaded. Blocking: Connect, for a local connection.
class HostileConnection {
 public:
  // Returns the system's error.
  [[nodiscard]] static absl::StatusOr<HostileConnection> Connect(const BoundSocket& socket);

  // Sends as much as the other side takes at once. A connection that it has closed is no error.
  void Send(absl::string_view bytes);
  // Takes what has come, without waiting. Returns false once the other side has closed.
  bool Drain();

 private:
  explicit HostileConnection(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace millrace::faults

#endif  // TESTING_FAULTS_HOSTILE_CLIENT_H_
