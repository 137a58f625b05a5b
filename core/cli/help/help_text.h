// File: core/cli/help/help_text.h
//
// What `millrace --help` and its commands print: written by hand, for people; a test holds it
// against the options that are really parsed.
#ifndef CORE_CLI_HELP_HELP_TEXT_H_
#define CORE_CLI_HELP_HELP_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::cli {

// Of a command ("run", "kv get"), or of all ("").
[[nodiscard]] absl::string_view HelpText(absl::string_view command);

// The commands that HelpText knows.
[[nodiscard]] std::vector<std::string> HelpTopics();

}  // namespace millrace::cli

#endif  // CORE_CLI_HELP_HELP_TEXT_H_
