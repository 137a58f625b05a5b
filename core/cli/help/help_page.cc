#include "core/cli/help/help_page.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace millrace::cli {
namespace {

// Options and words are indented by less, their descriptions by more.
constexpr size_t kDescriptionIndent = 16;

size_t IndentOf(absl::string_view line) {
  const size_t indent = line.find_first_not_of(' ');
  return indent == absl::string_view::npos ? 0 : indent;
}

// What stands before the first two spaces, and what behind.
struct Columns {
  absl::string_view left;
  absl::string_view right;
};

Columns ColumnsOf(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  const size_t gap = line.find("  ");
  if (gap == absl::string_view::npos) return {line, ""};
  return {line.substr(0, gap), absl::StripLeadingAsciiWhitespace(line.substr(gap))};
}

// The options of "-n, --lines N" or "--ca FILE --identity FILE", without descriptions.
std::vector<HelpOption> OptionsOf(absl::string_view left) {
  std::vector<HelpOption> options;
  std::string short_name;
  for (absl::string_view word : absl::StrSplit(left, ' ', absl::SkipEmpty())) {
    word = absl::StripSuffix(word, ",");
    if (absl::StartsWith(word, "--")) {
      options.push_back({std::string(word), short_name, "", ""});
      short_name.clear();
    } else if (absl::StartsWith(word, "-")) {
      short_name = std::string(word);
    } else if (!options.empty() && options.back().argument.empty()) {
      options.back().argument = std::string(word);
    }
  }
  return options;
}

void Add(std::vector<HelpOption> found, absl::string_view description,
         std::vector<HelpOption>* options) {
  for (HelpOption& option : found) {
    option.description = std::string(description);
    const auto known = std::find_if(options->begin(), options->end(), [&](const HelpOption& other) {
      return other.name == option.name;
    });
    if (known == options->end()) {
      options->push_back(std::move(option));
    } else if (known->description.empty()) {
      *known = std::move(option);  // the first was an example's
    }
  }
}

}  // namespace

std::vector<HelpOption> OptionsOfHelp(absl::string_view help) {
  std::vector<HelpOption> options;
  std::vector<HelpOption> found;
  std::string description;
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    const size_t indent = IndentOf(line);
    const Columns columns = ColumnsOf(line);
    const bool example = absl::StrContains(columns.left, "'");
    const bool begins = indent >= 2 && indent < kDescriptionIndent &&
                        absl::StartsWith(columns.left, "-") && !example;
    if (!begins && !found.empty() && indent >= kDescriptionIndent) {
      absl::StrAppend(&description, description.empty() ? "" : " ",
                      absl::StripAsciiWhitespace(line));
      continue;
    }
    // Options that share a description stand in lines of their own: "--kubeconfig FILE,".
    if (begins && !found.empty() && description.empty()) {
      for (HelpOption& option : OptionsOf(columns.left)) found.push_back(std::move(option));
      description = std::string(columns.right);
      continue;
    }
    Add(std::move(found), description, &options);
    found = begins ? OptionsOf(columns.left) : std::vector<HelpOption>();
    description = begins ? std::string(columns.right) : "";
  }
  Add(std::move(found), description, &options);
  return options;
}

std::string SummaryInHelp(absl::string_view help, absl::string_view word) {
  std::string summary;
  bool found = false;
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    const size_t indent = IndentOf(line);
    const Columns columns = ColumnsOf(line);
    if (found) {
      if (indent < 8 || absl::StartsWith(columns.left, "-")) break;
      absl::StrAppend(&summary, " ", absl::StripAsciiWhitespace(line));
    } else if (indent == 2 && !columns.right.empty() &&
               (columns.left == word || absl::StartsWith(columns.left, absl::StrCat(word, " ")))) {
      found = true;
      summary = std::string(columns.right);
    }
  }
  return summary;
}

}  // namespace millrace::cli
