// File: feed/wire/login.h
//
// The PLAIN logins of docs/feed_protocol.md, section 9: how a feeder and a node prove to one
// another that they know the node's key, which itself never goes over a socket.
//
// Defines: FeederPassword(), NodePassword(), FeederLogins, MakeChallenge().
//
//   // The feeder, to the node's data socket; the node checks it.
//   SocketOptions::Plain(principal, FeederPassword(key, principal, ++count));
//   if (logins.Accept(request.user, request.password)) ...
//   // The node, to the reply socket that OPEN named; the feeder checks it.
//   SocketOptions::Plain(node, NodePassword(key, open.reply.challenge, principal, node));

#ifndef FEED_WIRE_LOGIN_H_
#define FEED_WIRE_LOGIN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The password with which a feeder, `principal`, logs in to the node with this key. `count` is
// greater at each login of the principal: a password is good once. Thread safety: pure function.
[[nodiscard]] std::string FeederPassword(absl::string_view key, absl::string_view principal,
                                         uint64_t count);

// The password with which `node` ("node/<nonce>") logs in to the reply socket of `feeder`, as the
// answer to the challenge of that feeder's OPEN. Nobody can give it who does not know `key`: it is
// what tells a node from another process at its address. Thread safety: pure function.
[[nodiscard]] std::string NodePassword(absl::string_view key, absl::string_view challenge,
                                       absl::string_view feeder, absl::string_view node);

// A fresh challenge of a feeder process. Thread safety: thread-safe.
[[nodiscard]] std::string MakeChallenge();

// A node's side of FeederPassword(). Thread safety: one thread.
class FeederLogins {
 public:
  explicit FeederLogins(std::string key) : key_(std::move(key)) {}

  // Whether `password` is the principal's and is not one that was used before, or older than one.
  // From here on it is used.
  [[nodiscard]] bool Accept(absl::string_view principal, absl::string_view password);

 private:
  // A peer that knows the key can invent any number of principals. Beyond this number, the count of
  // the oldest is forgotten.
  static constexpr size_t kMaxPrincipals = 65'536;

  const std::string key_;
  absl::flat_hash_map<std::string, uint64_t> counts_;  // the last, by principal
  std::deque<std::string> in_order_;                   // its keys, by their first login
};

}  // namespace millrace

#endif  // FEED_WIRE_LOGIN_H_
