#include "resolver/tensorflow/tensorflow_hostlist.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/json.h"
#include "millrace/status_macros.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {
namespace {

// A number is written with no more digits than this; a name is prefix and number.
constexpr size_t kMaxDigits = 18;
constexpr size_t kMaxNameBytes = 510;

// What its code raises within, to be put into the ValueError; an assertion has no text.
absl::Status Assertion() { return PythonError("AssertionError", ""); }

absl::StatusOr<int64_t> Number(absl::string_view digits) {
  return PythonIntOf(OrderedJson(std::string(digits)));
}

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// Its split at the commas outside brackets: the next part, or nullopt at the end.
absl::StatusOr<std::optional<absl::string_view>> NextPart(absl::string_view* rest) {
  bool in_brackets = false;
  for (size_t i = 0; i < rest->size(); ++i) {
    const char c = (*rest)[i];
    if (in_brackets) {
      if (c == '[') return Assertion();
      in_brackets = c != ']';
    } else if (c == '[') {
      in_brackets = true;
    } else if (c == ',') {
      if (i == 0) return Assertion();
      const absl::string_view part = rest->substr(0, i);
      rest->remove_prefix(i + 1);
      return part;
    }
  }
  const absl::string_view part = std::exchange(*rest, absl::string_view());
  if (part.empty()) return std::nullopt;
  return part;
}

absl::Status AppendRange(absl::string_view prefix, absl::string_view range, size_t max_names,
                         std::vector<std::string>* names) {
  const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
  if (ends.size() > 2) return Assertion();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t first, Number(ends.front()));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t last, Number(ends.back()));
  const size_t width = ends.front().size();
  const uint64_t size = last < first ? 0 : static_cast<uint64_t>(last - first) + 1;
  if (size > max_names - names->size() ||
      prefix.size() + std::max(width, kMaxDigits) > kMaxNameBytes) {
    return TooManyHostlistEntries("node list", range, max_names);
  }
  for (int64_t number = first; number <= last; ++number) {
    names->push_back(absl::StrFormat("%s%0*d", prefix, static_cast<int>(width), number));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Hostlist(absl::string_view rest, size_t max_names) {
  std::vector<std::string> names;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<absl::string_view> part, NextPart(&rest));
    if (!part.has_value()) return names;
    if (names.size() >= max_names) return TooManyHostlistEntries("node list", *part, max_names);
    // ([^,[\]]*)(\[([^\]]+)\])?$
    const size_t open = part->find_first_of("[]");
    if (open == absl::string_view::npos) {
      names.emplace_back(*part);
      continue;
    }
    absl::string_view group = part->substr(open);
    const absl::string_view whole = *part;
    if (!absl::ConsumeSuffix(&group, "]")) absl::ConsumeSuffix(&group, "]\n");
    const bool closed = group.size() < whole.size() - open;
    if (!closed || !absl::ConsumePrefix(&group, "[") || group.empty() ||
        absl::StrContains(group, ']')) {
      return PythonError("ValueError", absl::StrCat("Invalid part: ", whole));
    }
    for (const absl::string_view range : absl::StrSplit(group, ',')) {
      MILLRACE_RETURN_IF_ERROR(AppendRange(whole.substr(0, open), range, max_names, &names));
    }
  }
}

absl::StatusOr<std::vector<int>> TasksPerNode(absl::string_view text, size_t max_counts) {
  std::vector<int> counts;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    absl::ConsumeSuffix(&part, "\n");  // as $ does
    absl::string_view digits = part;
    absl::string_view times = "1";
    if (const size_t open = part.find('('); open != absl::string_view::npos) {
      digits = part.substr(0, open);
      times = part.substr(open);
      if (!absl::ConsumePrefix(&times, "(x") || !absl::ConsumeSuffix(&times, ")")) {
        return Assertion();
      }
    }
    if (!IsDigits(digits) || !IsDigits(times)) return Assertion();
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count, Number(digits));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t repeated, Number(times));
    if (static_cast<uint64_t>(repeated) > max_counts - counts.size() ||
        count > std::numeric_limits<int>::max()) {
      return TooManyHostlistEntries("list of tasks per node", text, max_counts);
    }
    counts.insert(counts.end(), static_cast<size_t>(repeated), static_cast<int>(count));
  }
  return counts;
}

// The ValueError in which TensorFlow wraps every exception. Our own limits stay what they are.
absl::Status Wrapped(const absl::Status& status, absl::string_view what, absl::string_view text) {
  if (absl::IsResourceExhausted(status)) return status;
  return PythonError("ValueError",
                     absl::StrCat("Invalid ", what, " format \"", text, "\": ", status.message()));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHostlistAsTensorFlow(absl::string_view hostlist,
                                                                    size_t max_names) {
  absl::StatusOr<std::vector<std::string>> names = Hostlist(hostlist, max_names);
  if (!names.ok()) return Wrapped(names.status(), "hostlist", hostlist);
  return names;
}

absl::StatusOr<std::vector<int>> ExpandTasksPerNodeAsTensorFlow(absl::string_view tasks_per_node,
                                                                size_t max_counts) {
  absl::StatusOr<std::vector<int>> counts = TasksPerNode(tasks_per_node, max_counts);
  if (!counts.ok()) return Wrapped(counts.status(), "tasks-per-node list", tasks_per_node);
  return counts;
}

}  // namespace millrace
