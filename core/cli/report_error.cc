#include "core/cli/report_error.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/cli/exit_code.h"
#include "core/cli/terminal.h"

namespace millrace::cli {

int ReportError(const absl::Status& status) {
  if (!status.ok()) {
    const Styler style = Styler::ForFd(STDERR_FILENO);
    WriteAll(STDERR_FILENO,
             absl::StrCat(style(Style::kRed, "millrace:"), " ", status.message(), "\n"));
  }
  return ExitCodeOfStatus(status);
}

}  // namespace millrace::cli
