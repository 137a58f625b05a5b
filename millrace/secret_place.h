// File: millrace/secret_place.h
//
// Where a driver finds the secret of the agents that it adopts (docs/hosts.md).
//
// Defines: SecretPlace.

#ifndef MILLRACE_SECRET_PLACE_H_
#define MILLRACE_SECRET_PLACE_H_

#include <string>

namespace millrace {

// Where a secret lies; exactly one is set.
struct SecretPlace {
  std::string file;  // JSON with the members "token", "certificate" and "key"
  std::string dir;   // files "token", "tls.crt" and "tls.key", as Kubernetes mounts a Secret

  [[nodiscard]] bool empty() const { return file.empty() && dir.empty(); }
  // For people: the path.
  [[nodiscard]] const std::string& path() const { return file.empty() ? dir : file; }
};

}  // namespace millrace

#endif  // MILLRACE_SECRET_PLACE_H_
