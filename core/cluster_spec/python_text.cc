#include "core/cluster_spec/python_text.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace millrace {
namespace {

uint32_t DecodeUtf8(absl::string_view sequence) {
  const auto byte = [sequence](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(sequence[i]));
  };
  switch (sequence.size()) {
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
             (byte(3) & 0x3F);
    default:
      return byte(0);
  }
}

// str.isprintable() without the table of unassigned code points: controls, separators other than
// the space, format characters, private use and noncharacters are escaped.
bool IsPrintable(uint32_t c) {
  struct Range {
    uint32_t first;
    uint32_t last;
  };
  static constexpr Range kHidden[] = {
      {0x0, 0x1F},        {0x7F, 0xA0},       {0xAD, 0xAD},        {0x600, 0x605},
      {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},      {0x890, 0x891},
      {0x8E2, 0x8E2},     {0x1680, 0x1680},   {0x180E, 0x180E},    {0x2000, 0x200F},
      {0x2028, 0x202F},   {0x205F, 0x206F},   {0x3000, 0x3000},    {0xD800, 0xF8FF},
      {0xFDD0, 0xFDEF},   {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},    {0xFFFE, 0xFFFF},
      {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x13438},  {0x1BCA0, 0x1BCA3},
      {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF},
  };
  return std::none_of(std::begin(kHidden), std::end(kHidden),
                      [c](const Range& range) { return range.first <= c && c <= range.last; });
}

}  // namespace

std::string PythonRepr(absl::string_view text) {
  const bool double_quotes =
      text.find('\'') != absl::string_view::npos && text.find('"') == absl::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) {
      absl::StrAppendFormat(&out, "\\udc%02x", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    const absl::string_view sequence = text.substr(0, length);
    const uint32_t c = DecodeUtf8(sequence);
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      absl::StrAppend(&out, "\\", sequence);
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (IsPrintable(c)) {
      absl::StrAppend(&out, sequence);
    } else if (c <= 0xFF) {
      absl::StrAppendFormat(&out, "\\x%02x", c);
    } else if (c <= 0xFFFF) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      absl::StrAppendFormat(&out, "\\U%08x", c);
    }
    text.remove_prefix(length);
  }
  out.push_back(quote);
  return out;
}

std::optional<int64_t> PythonInt(absl::string_view text) {
  // What str.strip() removes: ASCII white space and the four information separators.
  const auto is_space = [](char c) {
    return absl::ascii_isspace(static_cast<unsigned char>(c)) || (c >= '\x1c' && c <= '\x1f');
  };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  constexpr int64_t kSaturated = int64_t{1} << 40;
  int64_t value = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_') {
      if (!after_digit) return std::nullopt;
      after_digit = false;
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      value = std::min(value * 10 + (c - '0'), kSaturated);
      after_digit = true;
    } else {
      return std::nullopt;
    }
  }
  if (!after_digit) return std::nullopt;  // empty, or ends with an underscore
  return negative ? -value : value;
}

}  // namespace millrace
