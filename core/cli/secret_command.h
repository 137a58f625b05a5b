// File: core/cli/secret_command.h
//
// `millrace agent-secret`: makes what drivers and the agents that they adopt have in common.
#ifndef CORE_CLI_SECRET_COMMAND_H_
#define CORE_CLI_SECRET_COMMAND_H_

#include <string>

#include "absl/time/time.h"
#include "core/launch/agent_secret.h"

namespace millrace::cli {

// Exactly one of file, dir and kubernetes is set.
struct SecretOptions {
  std::string file;
  std::string dir;
  std::string kubernetes;  // the Secret's name; its manifest goes to stdout
  std::string name_space;  // of the Secret; empty: kubectl's
  bool replace = false;    // one that is there
  absl::Duration valid = kAgentSecretValidity;
};

// Returns the exit code; what went wrong is on stderr. Blocking: disk I/O.
int MakeSecret(const SecretOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_SECRET_COMMAND_H_
