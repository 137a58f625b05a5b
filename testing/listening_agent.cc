#include "testing/listening_agent.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kStartTime = absl::Seconds(60);

}  // namespace

absl::StatusOr<std::unique_ptr<ListeningAgent>> ListeningAgent::Start(const std::string& host,
                                                                      const std::string& secret,
                                                                      int descriptor_limit) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(secret, error);
  const bool port = host.find(':') != std::string::npos;
  std::vector<std::string> argv = {RunfilePath("core/agent/millrace-agent"),
                                   "agent",
                                   "--listen",
                                   port ? host : absl::StrCat(host, ":0"),
                                   folder ? "--secret-dir" : "--secret-file",
                                   secret};
  if (descriptor_limit > 0) {
    const std::string script =
        absl::StrCat("ulimit -n ", descriptor_limit, " && exec \"$0\" \"$@\"");
    argv.insert(argv.begin(), {"/bin/sh", "-c", script});
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process, ChildProcess::Start(argv));
  MILLRACE_ASSIGN_OR_RETURN(const std::string line,
                            process->WaitForLine("millrace-agent: listening on ", kStartTime));
  const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" ,"));
  return std::unique_ptr<ListeningAgent>(new ListeningAgent(std::move(process), words[3]));
}

absl::StatusOr<std::string> ListeningAgent::WaitFor(absl::string_view text,
                                                    absl::Duration timeout) {
  return process_->WaitForLine(absl::StrCat("millrace-agent: ", text), timeout);
}

}  // namespace millrace
