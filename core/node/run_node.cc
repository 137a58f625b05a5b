#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadlock_detector.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/node/control_client.h"
#include "core/node/node_config.h"
#include "core/node/node_context.h"
#include "core/node/node_exit.h"
#include "core/process/process.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::StatusOr<UniqueFd> ControlFdFromEnvironment() {
  const std::string text = EnvOr("MILLRACE_CONTROL_FD", "");
  int fd = -1;
  if (!absl::SimpleAtoi(text, &fd) || fd < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("MILLRACE_CONTROL_FD must be the number of an open descriptor, found \"",
                     EscapeControls(Ellipsize(text, 64)), "\""));
  }
  // Before it is ours: it might be somebody else's.
  MILLRACE_RETURN_IF_ERROR(Annotate(CheckControlSocket(fd), "MILLRACE_CONTROL_FD"));
  return UniqueFd(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeContext>> OpenNode() {
  StopDeadlockDetector();
  ::signal(SIGPIPE, SIG_IGN);
  MILLRACE_ASSIGN_OR_RETURN(NodeConfig config, ReadNodeConfigFromEnvironment());
  MILLRACE_ASSIGN_OR_RETURN(UniqueFd control, ControlFdFromEnvironment());
  const std::string who = absl::StrCat(config.job_name, ":", config.task_index);
  return CreateNodeContext(std::move(config), std::move(control), [who](const absl::Status& why) {
    PrintNodeError(who, why);
    ::_exit(kNodeExitAgentGone);
  });
}

int RunNode(int argc, char** argv, const std::function<absl::Status(NodeContext&)>& body) {
  const absl::StatusOr<std::unique_ptr<NodeContext>> context = OpenNode();
  if (!context.ok()) {
    PrintNodeError(argc > 0 ? argv[0] : "node", context.status());
    return kNodeExitNoPlace;
  }
  const absl::Status outcome = FinishNode(**context, body(**context));
  if (outcome.ok()) return EXIT_SUCCESS;
  PrintNodeError((*context)->name(), outcome);
  return kNodeExitFailed;
}

}  // namespace millrace
