// File: core/cli/help/suggestion.h
//
// What somebody may have meant.
//
// Defines: Suggestion().
#ifndef CORE_CLI_HELP_SUGGESTION_H_
#define CORE_CLI_HELP_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::cli {

// "; did you mean --num-ps?" for "--num-pss", of the one of `known` that is nearest to `word`;
// empty if none is near: a third of its letters, but two at most, are wrong, missing, too many, or
// have changed places with the next.
[[nodiscard]] std::string Suggestion(absl::string_view word, const std::vector<std::string>& known);

}  // namespace millrace::cli

#endif  // CORE_CLI_HELP_SUGGESTION_H_
