#include "core/base/text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace millrace {
namespace {

unsigned char ByteAt(absl::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool IsContinuation(absl::string_view text, size_t i) {
  return i < text.size() && (ByteAt(text, i) & 0xC0) == 0x80;
}

void AppendEscape(std::string* out, unsigned char byte) {
  switch (byte) {
    case '\n':
      out->append("\\n");
      break;
    case '\r':
      out->append("\\r");
      break;
    case '\t':
      out->append("\\t");
      break;
    default: {
      constexpr absl::string_view kDigits = "0123456789abcdef";
      out->append("\\x");
      out->push_back(kDigits[byte >> 4]);
      out->push_back(kDigits[byte & 15]);
    }
  }
}

}  // namespace

std::string FirstLine(absl::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find_first_of("\r\n");
    const absl::string_view line = absl::StripAsciiWhitespace(text.substr(0, end));
    if (!line.empty()) return std::string(line);
    if (end == absl::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return "";
}

std::string Ellipsize(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  constexpr absl::string_view kDots = "...";
  if (max_bytes <= kDots.size()) return std::string(kDots.substr(0, max_bytes));
  size_t keep = max_bytes - kDots.size();
  // At most three continuation bytes belong to one character; more is not UTF-8 and may be cut.
  for (int i = 0; i < 3 && keep > 0 && IsContinuation(text, keep); ++i) --keep;
  return absl::StrCat(text.substr(0, keep), kDots);
}

size_t Utf8SequenceLength(absl::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = ByteAt(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text, i)) return 0;
  }
  const unsigned char second = ByteAt(text, 1);
  if (first == 0xE0 && second < 0xA0) return 0;  // overlong
  if (first == 0xED && second > 0x9F) return 0;  // surrogates
  if (first == 0xF0 && second < 0x90) return 0;  // overlong
  if (first == 0xF4 && second > 0x8F) return 0;  // above U+10FFFF
  return length;
}

std::string EscapeControls(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const unsigned char first = ByteAt(text, 0);
    const size_t length = Utf8SequenceLength(text);
    const bool control =
        first < 0x20 || first == 0x7F || (length == 2 && first == 0xC2 && ByteAt(text, 1) < 0xA0);
    if (length == 0 || control) {
      const size_t bytes = length == 0 ? 1 : length;
      for (size_t i = 0; i < bytes; ++i) AppendEscape(&out, ByteAt(text, i));
      text.remove_prefix(bytes);
    } else {
      out.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string CommandText(absl::string_view program, const std::vector<std::string>& args,
                        size_t max_bytes) {
  const auto quoted = [](absl::string_view word) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_isalnum(c) ||
             absl::string_view("%+,-./:=@_^").find(c) != absl::string_view::npos || (c & 0x80) != 0;
    });
    return plain ? std::string(word)
                 : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
  };
  std::string text = quoted(program.substr(program.rfind('/') + 1));
  for (const std::string& arg : args) {
    if (text.size() > max_bytes) break;
    absl::StrAppend(&text, " ", quoted(absl::string_view(arg).substr(0, max_bytes + 1)));
  }
  return Ellipsize(EscapeControls(text), max_bytes);
}

}  // namespace millrace
