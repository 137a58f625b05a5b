#include "core/node/run_node.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/unique_fd.h"
#include "core/node/node_config.h"

namespace millrace {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitNoContext = 2;

absl::StatusOr<UniqueFd> ControlFdFromEnvironment() {
  const char* text = std::getenv("MILLRACE_CONTROL_FD");
  int fd = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &fd) || fd < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "MILLRACE_CONTROL_FD must be the number of an open descriptor, found \"",
        text == nullptr ? "" : text, "\""));
  }
  return UniqueFd(fd);
}

absl::StatusOr<std::unique_ptr<NodeContext>> CreateContext() {
  MILLRACE_ASSIGN_OR_RETURN(NodeConfig config, ReadNodeConfigFromEnvironment());
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd control, ControlFdFromEnvironment());
  return NodeContext::Create(std::move(config), std::move(control));
}

void PrintError(absl::string_view who, const absl::Status& status) {
  std::fprintf(stderr, "millrace: %s: %s: %s\n", std::string(who).c_str(),
               absl::StatusCodeToString(status.code()).c_str(),
               std::string(status.message()).c_str());
}

}  // namespace

int RunNode(int argc, char** argv, const std::function<absl::Status(NodeContext&)>& body) {
  ::signal(SIGPIPE, SIG_IGN);
  absl::StatusOr<std::unique_ptr<NodeContext>> context = CreateContext();
  if (!context.ok()) {
    PrintError(argc > 0 ? argv[0] : "node", context.status());
    return kExitNoContext;
  }
  const absl::Status outcome = body(**context);
  (*context)->Finish(outcome);
  if (outcome.ok()) return EXIT_SUCCESS;
  PrintError((*context)->name(), outcome);
  return kExitFailed;
}

}  // namespace millrace
