#include "core/cli/secret_command.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/report_error.h"
#include "core/launch/agent_secret.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

// Clusters would stop finding their agents.
absl::Status CheckNew(const SecretOptions& options) {
  const std::string path = options.dir.empty() ? options.file : JoinPath(options.dir, "token");
  std::error_code error;
  if (options.replace || path.empty() || !std::filesystem::exists(path, error)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat(path,
                   " is there already; --replace makes another secret, and agents and drivers "
                   "that keep the old one refuse each other"));
}

absl::Status Make(const SecretOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckNew(options));
  MILLRACE_ASSIGN_OR_RETURN(const AgentSecret secret, MakeAgentSecret(options.valid));
  if (!options.file.empty()) return WriteAgentSecretFile(options.file, secret);
  if (!options.dir.empty()) return WriteAgentSecretDir(options.dir, secret);
  MILLRACE_ASSIGN_OR_RETURN(const std::string manifest,
                            AgentSecretManifest(secret, options.kubernetes, options.name_space));
  return WriteAnswer(manifest);
}

}  // namespace

int MakeSecret(const SecretOptions& options) { return ReportError(Make(options)); }

}  // namespace millrace::cli
