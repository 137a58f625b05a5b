// File: core/cli/command_line.h
//
// The command line of millrace, parsed; nothing here does anything but that.
//
// Defines: CommandLine, ParseCommandLine(), OptionNames().
#ifndef CORE_CLI_COMMAND_LINE_H_
#define CORE_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/cli/control_commands.h"
#include "core/cli/doctor_command.h"
#include "core/cli/metrics/metrics_command.h"
#include "core/cli/resolve_command.h"
#include "core/cli/run_command.h"
#include "core/cli/secret_command.h"
#include "core/cli/top/top_command.h"
#include "core/cli/view/view_commands.h"

namespace millrace::cli {

struct CommandLine {
  // "run", "kv get", ...; "help" with `topic`.
  std::string command;
  std::string topic;
  std::string shell;  // completion
  RunOptions run;
  ViewOptions view;        // status, nodes, events, logs, clusters
  ControlOptions control;  // kv ..., stop, restart
  ResolveOptions resolve;  // resolve ...
  SecretOptions secret;    // agent-secret
  DoctorOptions doctor;
  MetricsOptions metrics;
  TopOptions top;
};

// `args` without the program's name. Returns INVALID_ARGUMENT with one line for people, and the
// errors of files that options of `resolve` name. Blocking: those files.
[[nodiscard]] absl::StatusOr<CommandLine> ParseCommandLine(std::vector<std::string> args);

// The long options ("--num-ps") of a command, for its completion and the test of its help.
[[nodiscard]] std::vector<std::string> OptionNames(const std::string& command);

}  // namespace millrace::cli

#endif  // CORE_CLI_COMMAND_LINE_H_
