#include "testing/compatibility/conversation.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace::compatibility {

std::string RootFile(absl::string_view name) {
  return absl::StrCat(EnvOr("TEST_SRCDIR", ".."), "/millrace/", name);
}

std::string FormatCalls(const std::vector<RecordedCall>& calls) {
  std::string text;
  for (const RecordedCall& call : calls) {
    absl::StrAppend(&text, "call ", call.method, "\n");
    for (const RecordedMessage& message : call.messages) {
      absl::StrAppend(&text, message.from_client ? "> " : "< ", absl::Base64Escape(message.bytes),
                      "\n");
    }
    absl::StrAppend(&text, "end ", call.end.raw_code(), " ", EscapeControls(call.end.message()),
                    "\n");
  }
  return text;
}

absl::StatusOr<std::vector<RecordedCall>> ReadCalls(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 16 << 20));
  std::vector<RecordedCall> calls;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (words.first == "call") {
      calls.push_back({.method = std::string(words.second)});
      continue;
    }
    RecordedMessage message;
    const std::pair<absl::string_view, absl::string_view> end =
        absl::StrSplit(words.second, absl::MaxSplits(' ', 1));
    int code = 0;
    if (!calls.empty() && words.first == "end" && absl::SimpleAtoi(end.first, &code)) {
      calls.back().end = absl::Status(static_cast<absl::StatusCode>(code), end.second);
    } else if (!calls.empty() && (words.first == ">" || words.first == "<") &&
               absl::Base64Unescape(words.second, &message.bytes)) {
      message.from_client = words.first == ">";
      calls.back().messages.push_back(std::move(message));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, " is none of a recording"));
    }
  }
  return calls;
}

std::vector<RecordedCall> CallsOf(const std::vector<RecordedCall>& calls,
                                  absl::string_view method) {
  std::vector<RecordedCall> found;
  for (const RecordedCall& call : calls) {
    if (absl::EndsWith(call.method, method)) found.push_back(call);
  }
  return found;
}

}  // namespace millrace::compatibility
