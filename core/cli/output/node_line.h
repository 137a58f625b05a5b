// File: core/cli/output/node_line.h
//
// A line that a node wrote, on its way to a person.
#ifndef CORE_CLI_OUTPUT_NODE_LINE_H_
#define CORE_CLI_OUTPUT_NODE_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace::cli {

// `line` with its control characters escaped, except tabs: what a node writes cannot set a
// terminal's title or clipboard, or write over other lines. Thread safety: a pure function.
[[nodiscard]] std::string HarmlessLine(absl::string_view line);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_NODE_LINE_H_
