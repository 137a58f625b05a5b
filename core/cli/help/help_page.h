// File: core/cli/help/help_page.h
//
// The options and words of a help text, which is written for people: what completions of shells are
// made of, so that there is one text of each.
//
// Defines: HelpOption, OptionsOfHelp(), SummaryInHelp().

#ifndef CORE_CLI_HELP_HELP_PAGE_H_
#define CORE_CLI_HELP_HELP_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::cli {

struct HelpOption {
  std::string name;         // "--num-executors"
  std::string short_name;   // "-n", or empty
  std::string argument;     // "N", "prefixed|raw|none"; empty for a flag
  std::string description;  // one line
};

// In the text's order, each once. These lines introduce options:
//   "  -n, --lines N                 how many to begin with"
//   "      --kubeconfig FILE, --context NAME"
[[nodiscard]] std::vector<HelpOption> OptionsOfHelp(absl::string_view help);

// What a text says of a word that it lists, a command or a source: "  stop       end a cluster".
// Empty if it lists no such word.
[[nodiscard]] std::string SummaryInHelp(absl::string_view help, absl::string_view word);

}  // namespace millrace::cli

#endif  // CORE_CLI_HELP_HELP_PAGE_H_
