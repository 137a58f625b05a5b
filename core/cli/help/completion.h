// File: core/cli/help/completion.h
//
// Scripts with which shells complete command lines of millrace. They are made of the help texts and
// of the options that are really parsed, and cannot fall behind either.
//
// Defines: OptionsParsed, CompletionShells(), CompletionScript(); for those who write scripts:
// CommandWords, CommandsToComplete(), ArgumentKind, KindOf().

#ifndef CORE_CLI_HELP_COMPLETION_H_
#define CORE_CLI_HELP_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/help/help_page.h"

namespace millrace::cli {

// The long options of a command ("kv get").
using OptionsParsed = std::vector<std::string> (*)(const std::string& command);

// "bash", "fish", "zsh", and "commands": the commands' names, one a line, for other tools.
[[nodiscard]] std::vector<std::string> CompletionShells();

// For one of CompletionShells().
[[nodiscard]] std::string CompletionScript(absl::string_view shell, OptionsParsed options_parsed);

// A command as it is completed: what may follow its name.
struct CommandWords {
  struct Word {
    std::string word;
    std::string description;
  };

  std::string command;              // "kv get"; "" for millrace itself
  std::vector<HelpOption> options;  // of its own
  std::vector<Word> words;          // commands or sources
  bool takes_program = false;       // run: what follows is another program's command line
  bool takes_files = false;
};

// All commands, millrace itself first.
[[nodiscard]] std::vector<CommandWords> CommandsToComplete(OptionsParsed options_parsed);

// What an option's argument is completed to.
enum class ArgumentKind { kNone, kAnything, kFile, kFolder, kChoice };
[[nodiscard]] ArgumentKind KindOf(const HelpOption& option);
// Those of kChoice.
[[nodiscard]] std::vector<std::string> ChoicesOf(const HelpOption& option);

// One for each shell.
[[nodiscard]] std::string BashCompletion(const std::vector<CommandWords>& commands);
[[nodiscard]] std::string FishCompletion(const std::vector<CommandWords>& commands);
[[nodiscard]] std::string ZshCompletion(const std::vector<CommandWords>& commands);

}  // namespace millrace::cli

#endif  // CORE_CLI_HELP_COMPLETION_H_
