#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/cli/help/completion.h"

namespace millrace::cli {
namespace {

constexpr char kBegin[] = R"(# bash completion of millrace; `millrace completion bash` prints it.

# Offers files or folders, as the shell itself does: compgen's options are the arguments.
_millrace_paths() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen "$@" -- "$current"))
}

# Offers what an option takes. Fails if it takes nothing.
_millrace_argument() {
  case "$1" in
)";

constexpr char kEnd[] = R"(
_millrace() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local command="" words="" word at=1
  COMPREPLY=()
  # "--output=raw" is three words to bash.
  if [[ "$current" == "=" ]]; then
    current=""
  elif [[ "$previous" == "=" ]]; then
    previous="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for (( ; at < COMP_CWORD; ++at)); do
    word="${COMP_WORDS[at]}"
    if [[ -z "$command" ]] && _millrace_words "$word"; then
      command="$word"
    elif [[ "$at" == 2 ]] && _millrace_words "$command $word"; then
      command="$command $word"
    elif [[ "$command" == run && "$word" == -- ]]; then
      _millrace_paths -f -c
      return
    fi
  done
  _millrace_argument "$command $previous" && return
  _millrace_words "$command"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$command" in
    run|"resolve static"|"resolve union")
      [[ "$current" == -* ]] || _millrace_paths -f -c
      ;;
  esac
}
complete -F _millrace millrace
)";

std::string Pattern(const std::string& command, const HelpOption& option) {
  std::string pattern = absl::StrCat("\"", command, " ", option.name, "\"");
  if (!option.short_name.empty()) {
    absl::StrAppend(&pattern, "|\"", command, " ", option.short_name, "\"");
  }
  return pattern;
}

std::string Offer(const HelpOption& option) {
  switch (KindOf(option)) {
    case ArgumentKind::kNone:
    case ArgumentKind::kAnything:
      return ":";
    case ArgumentKind::kFile:
      return "_millrace_paths -f";
    case ArgumentKind::kFolder:
      return "_millrace_paths -d";
    case ArgumentKind::kChoice:
      return absl::StrCat("COMPREPLY=($(compgen -W \"", absl::StrJoin(ChoicesOf(option), " "),
                          "\" -- \"$current\"))");
  }
  return ":";
}

std::string Words(const CommandWords& command) {
  std::vector<std::string> words;
  for (const CommandWords::Word& word : command.words) words.push_back(word.word);
  for (const HelpOption& option : command.options) {
    words.push_back(option.name);
    if (!option.short_name.empty()) words.push_back(option.short_name);
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

std::string BashCompletion(const std::vector<CommandWords>& commands) {
  std::string script = kBegin;
  for (const CommandWords& command : commands) {
    for (const HelpOption& option : command.options) {
      if (KindOf(option) == ArgumentKind::kNone) continue;
      absl::StrAppend(&script, "    ", Pattern(command.command, option), ") ", Offer(option),
                      " ;;\n");
    }
  }
  absl::StrAppend(&script,
                  "    *) return 1 ;;\n  esac\n}\n\n"
                  "# Sets `words` to what may follow a command. Fails if there is no such one.\n"
                  "_millrace_words() {\n  case \"$1\" in\n");
  for (const CommandWords& command : commands) {
    absl::StrAppend(&script, "    \"", command.command, "\") words=\"", Words(command), "\" ;;\n");
  }
  absl::StrAppend(&script, "    *) return 1 ;;\n  esac\n}\n", kEnd);
  return script;
}

}  // namespace millrace::cli
