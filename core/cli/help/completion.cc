#include "core/cli/help/completion.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/cli/help/help_text.h"

namespace millrace::cli {
namespace {

// What every command takes, and no text of one command says.
HelpOption OptionOfAll() { return {"--help", "-h", "", "what this command does, with examples"}; }

// Of "kv get": "kv", and "get".
std::string ParentOf(const std::string& command) {
  const size_t space = command.rfind(' ');
  return space == std::string::npos ? "" : command.substr(0, space);
}

std::string LastWordOf(const std::string& command) {
  return command.substr(command.rfind(' ') + 1);
}

std::vector<CommandWords::Word> WordsBelow(const std::string& command) {
  std::vector<CommandWords::Word> words;
  for (const std::string& topic : HelpTopics()) {
    if (topic.empty() || ParentOf(topic) != command) continue;
    const std::string word = LastWordOf(topic);
    std::string summary = SummaryInHelp(HelpText(command), word);
    if (summary.empty()) {  // "  delete KEY", which needs no word more
      summary = SummaryInHelp(HelpText(topic), word);
    }
    words.push_back({word, summary});
  }
  return words;
}

CommandWords WordsOf(const std::string& command, const std::vector<std::string>& parsed) {
  CommandWords result = {.command = command};
  for (HelpOption& option : OptionsOfHelp(HelpText(command))) {
    if (std::find(parsed.begin(), parsed.end(), option.name) != parsed.end()) {
      result.options.push_back(std::move(option));
    }
  }
  result.options.push_back(OptionOfAll());
  result.words = WordsBelow(command);
  if (command == "help") {
    for (const CommandWords::Word& word : WordsBelow("")) result.words.push_back(word);
  }
  if (command == "completion") {
    for (const std::string& shell : CompletionShells()) result.words.push_back({shell, ""});
  }
  result.takes_program = command == "run" || command == "srun";
  result.takes_files = command == "resolve static" || command == "resolve union";
  return result;
}

}  // namespace

std::vector<std::string> CompletionShells() { return {"bash", "commands", "fish", "zsh"}; }

std::vector<CommandWords> CommandsToComplete(OptionsParsed options_parsed) {
  std::vector<CommandWords> commands;
  for (const std::string& topic : HelpTopics()) {
    const bool parsed = topic != "help";  // help is none of the parser's
    commands.push_back(WordsOf(topic, parsed ? options_parsed(topic) : std::vector<std::string>()));
  }
  return commands;
}

ArgumentKind KindOf(const HelpOption& option) {
  const std::string& argument = option.argument;
  if (argument.empty()) return ArgumentKind::kNone;
  if (absl::StrContains(argument, "FILE")) return ArgumentKind::kFile;
  if (argument == "DIR") return ArgumentKind::kFolder;
  if (absl::StrContains(argument, "|") &&
      std::none_of(argument.begin(), argument.end(),
                   [](unsigned char c) { return absl::ascii_isupper(c); })) {
    return ArgumentKind::kChoice;
  }
  return ArgumentKind::kAnything;
}

std::vector<std::string> ChoicesOf(const HelpOption& option) {
  return absl::StrSplit(option.argument, '|');
}

std::string CompletionScript(absl::string_view shell, OptionsParsed options_parsed) {
  if (shell == "commands") {
    std::string names;
    for (const std::string& topic : HelpTopics()) {
      if (!topic.empty()) absl::StrAppend(&names, topic, "\n");
    }
    return names;
  }
  const std::vector<CommandWords> commands = CommandsToComplete(options_parsed);
  if (shell == "bash") return BashCompletion(commands);
  if (shell == "fish") return FishCompletion(commands);
  return ZshCompletion(commands);
}

}  // namespace millrace::cli
