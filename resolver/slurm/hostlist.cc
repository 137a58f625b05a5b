#include "resolver/slurm/hostlist.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxQuotedBytes = 200;
constexpr size_t kMaxNameBytes = 255;  // of a host's name in DNS
constexpr size_t kMaxDigits = 18;      // fits int64_t

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

std::string ZeroPadded(int64_t number, size_t width) {
  std::string digits = absl::StrCat(number);
  return digits.size() < width ? absl::StrCat(std::string(width - digits.size(), '0'), digits)
                               : digits;
}

// first..last, written with at least `width` digits.
struct Range {
  int64_t first = 0;
  int64_t last = 0;
  size_t width = 0;

  uint64_t size() const { return last < first ? 0 : static_cast<uint64_t>(last - first) + 1; }
};

// A piece of a part: literal text, or the ranges of a bracket group.
struct Piece {
  std::string text;
  std::vector<Range> ranges;  // empty: text
};

class HostlistParser {
 public:
  HostlistParser(absl::string_view text, size_t max_names) : text_(text), max_names_(max_names) {}

  absl::StatusOr<std::vector<std::string>> Parse() {
    if (absl::StripAsciiWhitespace(text_).empty()) return Error(0, "it is empty");
    // Everything is checked before the first name is made.
    std::vector<std::vector<Piece>> parts;
    uint64_t count = 0;
    while (true) {
      const size_t start = at_;
      MILLRACE_ASSIGN_OR_RETURN(std::vector<Piece> pieces, ReadPart());
      MILLRACE_ASSIGN_OR_RETURN(const uint64_t more, CountNames(pieces, start));
      if (more > max_names_ - count) return TooManyHostlistEntries("node list", text_, max_names_);
      count += more;
      parts.push_back(std::move(pieces));
      if (at_ == text_.size()) break;
      ++at_;  // the comma
    }
    std::vector<std::string> names;
    names.reserve(count);
    for (const std::vector<Piece>& pieces : parts) AppendNames(pieces, 0, "", &names);
    return names;
  }

 private:
  absl::Status Error(size_t offset, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("node list \"", Ellipsize(EscapeControls(text_), kMaxQuotedBytes),
                     "\" is malformed at offset ", offset, ": ", what));
  }

  // Up to the comma or the end.
  absl::StatusOr<std::vector<Piece>> ReadPart() {
    const size_t start = at_;
    std::vector<Piece> pieces;
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == ']') return Error(at_, "']' closes nothing");
      if (text_[at_] == '[') {
        MILLRACE_ASSIGN_OR_RETURN(Piece group, ReadGroup());
        pieces.push_back(std::move(group));
        continue;
      }
      const size_t end = std::min(text_.find_first_of(",[]", at_), text_.size());
      pieces.push_back({.text = std::string(text_.substr(at_, end - at_)), .ranges = {}});
      at_ = end;
    }
    if (!pieces.empty() && pieces.front().ranges.empty()) {
      absl::StripLeadingAsciiWhitespace(&pieces.front().text);
    }
    if (!pieces.empty() && pieces.back().ranges.empty()) {
      absl::StripTrailingAsciiWhitespace(&pieces.back().text);
    }
    const bool empty = std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
      return piece.ranges.empty() && piece.text.empty();
    });
    if (empty) return Error(start, "a name is missing");
    return pieces;
  }

  // From the opening to behind the closing bracket.
  absl::StatusOr<Piece> ReadGroup() {
    const size_t open = at_++;
    const size_t close = text_.find_first_of("[]", at_);
    if (close == absl::string_view::npos) return Error(open, "'[' is not closed");
    if (text_[close] == '[') return Error(close, "'[' inside brackets");
    Piece group;
    for (const absl::string_view range : absl::StrSplit(text_.substr(at_, close - at_), ',')) {
      MILLRACE_ASSIGN_OR_RETURN(const Range read, ReadRange(range));
      group.ranges.push_back(read);
      at_ += range.size() + 1;
    }
    at_ = close + 1;
    return group;
  }

  absl::StatusOr<Range> ReadRange(absl::string_view text) const {
    const size_t dash = text.find('-');
    const absl::string_view first = text.substr(0, dash);
    const absl::string_view last = dash == absl::string_view::npos ? first : text.substr(dash + 1);
    Range range;
    range.width = first.size();
    for (const auto& [digits, number] : {std::pair(first, &range.first), {last, &range.last}}) {
      if (!IsDigits(digits)) return Error(at_, "a range must be like 3 or 3-5");
      if (digits.size() > kMaxDigits || !absl::SimpleAtoi(digits, number)) {
        return Error(at_, "a number is too large");
      }
    }
    if (range.last < range.first) return Error(at_, "a range runs backwards");
    return range;
  }

  // How many names a part stands for; none of them is too long.
  absl::StatusOr<uint64_t> CountNames(const std::vector<Piece>& pieces, size_t start) const {
    uint64_t count = 1;
    size_t longest = 0;
    for (const Piece& piece : pieces) {
      if (piece.ranges.empty()) {
        longest += piece.text.size();
        continue;
      }
      uint64_t choices = 0;
      size_t widest = 0;
      for (const Range& range : piece.ranges) {
        if (range.size() > max_names_ - std::min<uint64_t>(choices, max_names_)) {
          return TooManyHostlistEntries("node list", text_, max_names_);
        }
        choices += range.size();
        widest = std::max({widest, range.width, absl::StrCat(range.last).size()});
      }
      longest += widest;
      // Both are at most max_names, 2^20 by default: no overflow.
      count *= choices;
      if (count > max_names_) return TooManyHostlistEntries("node list", text_, max_names_);
    }
    if (longest > kMaxNameBytes) {
      return Error(start, absl::StrCat("a name is longer than ", kMaxNameBytes, " bytes"));
    }
    return count;
  }

  // All names of a part, its last group running fastest.
  static void AppendNames(const std::vector<Piece>& pieces, size_t at, const std::string& prefix,
                          std::vector<std::string>* names) {
    if (at == pieces.size()) {
      names->push_back(prefix);
      return;
    }
    const Piece& piece = pieces[at];
    if (piece.ranges.empty()) {
      return AppendNames(pieces, at + 1, absl::StrCat(prefix, piece.text), names);
    }
    for (const Range& range : piece.ranges) {
      for (int64_t number = range.first; number <= range.last; ++number) {
        AppendNames(pieces, at + 1, absl::StrCat(prefix, ZeroPadded(number, range.width)), names);
      }
    }
  }

  const absl::string_view text_;
  const size_t max_names_;
  size_t at_ = 0;
};

absl::StatusOr<std::vector<int>> ParseTasksPerNode(absl::string_view text, size_t max_counts) {
  std::vector<int> counts;
  size_t offset = 0;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t next = offset + part.size() + 1;
    int count = 0;
    int64_t repeated = 1;
    absl::string_view digits = absl::StripAsciiWhitespace(part);
    const size_t open = digits.find("(x");
    bool well_formed = true;
    if (open != absl::string_view::npos) {
      absl::string_view times = digits.substr(open + 2);
      well_formed = absl::ConsumeSuffix(&times, ")") && IsDigits(times) &&
                    times.size() <= kMaxDigits && absl::SimpleAtoi(times, &repeated) &&
                    repeated > 0;
      digits = digits.substr(0, open);
    }
    if (!well_formed || !IsDigits(digits) || !absl::SimpleAtoi(digits, &count)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "list of tasks per node \"", Ellipsize(EscapeControls(text), kMaxQuotedBytes),
          "\" is malformed at offset ", offset, ": a part must be like 3 or 3(x2)"));
    }
    if (static_cast<uint64_t>(repeated) > max_counts - counts.size()) {
      return TooManyHostlistEntries("list of tasks per node", text, max_counts);
    }
    counts.insert(counts.end(), static_cast<size_t>(repeated), count);
    offset = next;
  }
  return counts;
}

}  // namespace

absl::Status TooManyHostlistEntries(absl::string_view what, absl::string_view text, size_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(what, " \"",
                                                   Ellipsize(EscapeControls(text), kMaxQuotedBytes),
                                                   "\" stands for more than ", limit, " entries"));
}

absl::StatusOr<std::vector<std::string>> ExpandHostlist(absl::string_view hostlist,
                                                        size_t max_names) {
  return HostlistParser(hostlist, max_names).Parse();
}

absl::StatusOr<std::vector<int>> ExpandTasksPerNode(absl::string_view tasks_per_node,
                                                    size_t max_counts) {
  return ParseTasksPerNode(tasks_per_node, max_counts);
}

}  // namespace millrace
