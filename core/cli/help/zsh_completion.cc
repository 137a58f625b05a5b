#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/cli/help/completion.h"

namespace millrace::cli {
namespace {

constexpr char kBegin[] = R"(#compdef millrace
# zsh completion of millrace; `millrace completion zsh` prints it.
)";

constexpr char kEnd[] = R"(
if [[ "$funcstack[1]" == _millrace ]]; then
  _millrace "$@"
else
  compdef _millrace millrace
fi
)";

std::string FunctionOf(const std::string& command) {
  if (command.empty()) return "_millrace";
  return absl::StrCat("_millrace_", absl::StrReplaceAll(command, {{" ", "_"}, {"-", "_"}}));
}

// Within '...'.
std::string Quoted(absl::string_view text) { return absl::StrReplaceAll(text, {{"'", "'\\''"}}); }

// In [...] of a specification of _arguments, or before its ':'.
std::string Escaped(absl::string_view text) {
  return Quoted(
      absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}}));
}

std::string Action(const HelpOption& option) {
  switch (KindOf(option)) {
    case ArgumentKind::kNone:
      return "";
    case ArgumentKind::kAnything:
      return absl::StrCat(":", Escaped(option.argument), ": ");
    case ArgumentKind::kFile:
      return absl::StrCat(":", Escaped(option.argument), ":_files");
    case ArgumentKind::kFolder:
      return absl::StrCat(":", Escaped(option.argument), ":_files -/");
    case ArgumentKind::kChoice:
      return absl::StrCat(": :(", absl::StrJoin(ChoicesOf(option), " "), ")");
  }
  return "";
}

// One line for each name, since _arguments knows them apart.
std::string Specifications(const HelpOption& option) {
  const std::string rest = absl::StrCat("[", Escaped(option.description), "]", Action(option));
  std::string lines = absl::StrCat(" \\\n    '*", option.name, rest, "'");
  if (!option.short_name.empty()) {
    absl::StrAppend(&lines, " \\\n    '*", option.short_name, rest, "'");
  }
  return lines;
}

std::string Function(const CommandWords& command) {
  const std::string name = FunctionOf(command.command);
  std::string text = absl::StrCat("\n", name, "() {\n");
  std::string positional;
  if (!command.words.empty()) {
    absl::StrAppend(&text, "  local -a words_of=(\n");
    for (const CommandWords::Word& word : command.words) {
      absl::StrAppend(&text, "    '", word.word, ":", Quoted(word.description), "'\n");
    }
    absl::StrAppend(&text, "  )\n");
    positional = " \\\n    '1: :->word' \\\n    '*:: :->rest'";
  } else if (command.takes_program) {
    positional = " \\\n    '*:: :_normal'";
  } else if (command.takes_files) {
    positional = " \\\n    '*: :_files'";
  }
  absl::StrAppend(&text, "  local context state state_descr line\n  typeset -A opt_args\n",
                  "  _arguments -S -s", positional.empty() ? "" : " -C");
  for (const HelpOption& option : command.options) {
    absl::StrAppend(&text, Specifications(option));
  }
  absl::StrAppend(&text, positional, "\n");
  if (!command.words.empty()) {
    absl::StrAppend(&text, "  case \"$state\" in\n",
                    "    word) _describe -t commands word words_of ;;\n",
                    "    rest)\n      local next=", name, "_${line[1]//-/_}\n",
                    "      (( $+functions[$next] )) && $next\n      ;;\n  esac\n");
  }
  absl::StrAppend(&text, "}\n");
  return text;
}

}  // namespace

std::string ZshCompletion(const std::vector<CommandWords>& commands) {
  std::string script = kBegin;
  for (const CommandWords& command : commands) absl::StrAppend(&script, Function(command));
  absl::StrAppend(&script, kEnd);
  return script;
}

}  // namespace millrace::cli
