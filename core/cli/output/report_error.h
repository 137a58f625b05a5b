// File: core/cli/output/report_error.h
#ifndef CORE_CLI_OUTPUT_REPORT_ERROR_H_
#define CORE_CLI_OUTPUT_REPORT_ERROR_H_

#include "absl/status/status.h"

namespace millrace::cli {

// "millrace: what went wrong" on stderr, on one line and with control characters escaped, unless it
// is OK or nobody reads the answer (answer.h); the exit code (exit_code.h).
int ReportError(const absl::Status& status);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_REPORT_ERROR_H_
