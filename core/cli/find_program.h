// File: core/cli/find_program.h
//
// The program that a command line names, as a shell would find it.
#ifndef CORE_CLI_FIND_PROGRAM_H_
#define CORE_CLI_FIND_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"

namespace millrace::cli {

// `name` itself, made absolute, if it has a slash (relative to `folder`); otherwise the first
// executable file of that name in `path`, the value of PATH. Returns NOT_FOUND, or
// PERMISSION_DENIED for a file without the run bit or a script with Windows line ends, saying what
// to do.
[[nodiscard]] absl::StatusOr<std::string> FindProgram(const std::string& name,
                                                      const std::string& folder,
                                                      const std::string& path);

}  // namespace millrace::cli

#endif  // CORE_CLI_FIND_PROGRAM_H_
