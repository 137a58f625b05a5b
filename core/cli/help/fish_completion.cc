#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/cli/help/completion.h"

namespace millrace::cli {
namespace {

constexpr char kBegin[] =
    R"fish(# fish completion of millrace; `millrace completion fish` prints it.

# Whether the words so far begin with a command: its options and arguments follow.
function __millrace_is
    set -l words (commandline -opc)[2..-1]
    set -l count (count $argv)
    test (count $words) -ge $count; or return 1
    contains -- -- $words; and return 1
    test $count -eq 0; or test "$words[1..$count]" = "$argv"
end

# Whether a command is all that there is: another word of it follows.
function __millrace_at
    set -l words (commandline -opc)[2..-1]
    test (count $words) -eq (count $argv); and __millrace_is $argv
end

complete -c millrace -f
complete -c millrace -n "__millrace_is run" -F
complete -c millrace -n "contains -- -- (commandline -opc)" -F
)fish";

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string Argument(const HelpOption& option) {
  switch (KindOf(option)) {
    case ArgumentKind::kNone:
      return "";
    case ArgumentKind::kAnything:
      return " -x";
    case ArgumentKind::kFile:
      return " -r -F";
    case ArgumentKind::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case ArgumentKind::kChoice:
      return absl::StrCat(" -x -a '", absl::StrJoin(ChoicesOf(option), " "), "'");
  }
  return "";
}

}  // namespace

std::string FishCompletion(const std::vector<CommandWords>& commands) {
  std::string script = kBegin;
  for (const CommandWords& command : commands) {
    const std::string is = command.command.empty()
                               ? " -n __millrace_at"
                               : absl::StrCat(" -n \"__millrace_is ", command.command, "\"");
    const std::string at = command.command.empty()
                               ? " -n __millrace_at"
                               : absl::StrCat(" -n \"__millrace_at ", command.command, "\"");
    for (const CommandWords::Word& word : command.words) {
      absl::StrAppend(&script, "complete -c millrace", at, " -a ", word.word, " -d ",
                      Quoted(word.description), "\n");
    }
    for (const HelpOption& option : command.options) {
      absl::StrAppend(&script, "complete -c millrace", is, " -l ",
                      absl::StripPrefix(option.name, "--"));
      if (!option.short_name.empty()) {
        absl::StrAppend(&script, " -s ", absl::StripPrefix(option.short_name, "-"));
      }
      absl::StrAppend(&script, Argument(option), " -d ", Quoted(option.description), "\n");
    }
    if (command.takes_files) absl::StrAppend(&script, "complete -c millrace", is, " -F\n");
  }
  return script;
}

}  // namespace millrace::cli
