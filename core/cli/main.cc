// millrace: the command line for people. README.md says what is where.

#include <openssl/crypto.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/base/version_line.h"
#include "core/cli/command_line.h"
#include "core/cli/control_commands.h"
#include "core/cli/doctor_command.h"
#include "core/cli/help/completion.h"
#include "core/cli/help/help_text.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/exit_code.h"
#include "core/cli/output/report_error.h"
#include "core/cli/output/terminal.h"
#include "core/cli/resolve_command.h"
#include "core/cli/run_command.h"
#include "core/cli/secret_command.h"
#include "core/cli/signal_watch.h"
#include "core/cli/top/top_command.h"
#include "core/cli/view/view_commands.h"
#include "core/net/grpc_log.h"
#include "core/process/process.h"
#include "core/process/standard_streams.h"

namespace millrace::cli {
namespace {

// `bazel run //:millrace` starts this program in a folder of Bazel's tree, while paths on the
// command line are relative to the folder in which the user typed it. The variable is not passed on
// to nodes, which may be in another folder.
void EnterFolderOfBazelRun() {
  const std::string folder = EnvOr("BUILD_WORKING_DIRECTORY", "");
  if (folder.empty()) return;
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  const absl::StatusOr<std::string> self = SelfExecutablePath();
  if (self.ok() && absl::StartsWith(here, absl::StrCat(*self, ".runfiles"))) {
    std::filesystem::current_path(folder, error);
  }
  unsetenv("BUILD_WORKING_DIRECTORY");
}

int Main(std::vector<std::string> args) {
  OpenStandardStreams();
  // A static program cannot load the modules that a host's openssl.cnf may name.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  EnterFolderOfBazelRun();
  // What gRPC fails with comes as a Status; its own lines would stand between ours.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) SilenceGrpc();
  LogGrpcHere();
  BlockTerminationSignals();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(std::move(args));
  if (!line.ok()) {
    WriteAll(STDERR_FILENO,
             absl::StrCat("millrace: ", EscapeControls(line.status().message()), "\n"));
    return absl::IsInvalidArgument(line.status()) ? kExitUsage : ExitCodeOfStatus(line.status());
  }
  if (line->command == "run" || line->command == "srun") return Run(line->run);
  if (absl::StartsWith(line->command, "resolve ")) return Resolve(line->resolve);
  UnblockTerminationSignals();
  if (line->command == "status") return ShowStatus(line->view);
  if (line->command == "nodes") return ShowNodes(line->view);
  if (line->command == "events") return ShowEvents(line->view);
  if (line->command == "logs") return ShowLogs(line->view);
  if (line->command == "clusters") return ShowClusters(line->view);
  if (line->command == "top") return Top(line->top);
  if (line->command == "metrics") return Metrics(line->metrics);
  if (line->command == "kv get") return KvGet(line->control);
  if (line->command == "kv set") return KvSet(line->control);
  if (line->command == "kv list") return KvList(line->control);
  if (line->command == "kv delete") return KvDelete(line->control);
  if (line->command == "stop") return StopCluster(line->control);
  if (line->command == "restart") return RestartNode(line->control);
  if (line->command == "doctor") return Doctor(line->doctor);
  if (line->command == "agent-secret") return MakeSecret(line->secret);
  if (line->command == "completion") {
    return ReportError(WriteAnswer(CompletionScript(line->shell, OptionNames)));
  }
  if (line->command == "version") {
    return ReportError(WriteAnswer(
        absl::StrCat(VersionLine("millrace", "coordinator protocol 2, agent protocol 1"), "\n")));
  }
  return ReportError(WriteAnswer(HelpText(line->topic)));
}

}  // namespace
}  // namespace millrace::cli

int main(int argc, char** argv) { return millrace::cli::Main({argv + 1, argv + argc}); }
