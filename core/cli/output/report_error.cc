#include "core/cli/output/report_error.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/exit_code.h"
#include "core/cli/output/terminal.h"

namespace millrace::cli {

int ReportError(const absl::Status& status) {
  if (NobodyReads(status)) return kExitSignalBase + SIGPIPE;
  if (!status.ok()) {
    const Styler style = Styler::ForFd(STDERR_FILENO);
    WriteAll(STDERR_FILENO, absl::StrCat(style(Style::kRed, "millrace:"), " ",
                                         EscapeControls(status.message()), "\n"));
  }
  return ExitCodeOfStatus(status);
}

}  // namespace millrace::cli
