#include "resolver/kubernetes/pruned_json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighs = 0x8080808080808080;

// The first byte of [at, end) that does not stand for itself in a string: a quote, a backslash, a
// control, or not ASCII. Eight at a time.
const char* PlainEnd(const char* at, const char* end) {
  static_assert(std::endian::native == std::endian::little);
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    const uint64_t quote = word ^ (kOnes * '"');
    const uint64_t backslash = word ^ (kOnes * '\\');
    const uint64_t found = ((word - kOnes * 0x20) & ~word) | ((quote - kOnes) & ~quote) |
                           ((backslash - kOnes) & ~backslash) | word;
    // Above the lowest that is found there may be false ones, from a borrow; below there are none.
    if ((found & kHighs) != 0) return at + std::countr_zero(found & kHighs) / 8;
  }
  while (at != end && *at != '"' && *at != '\\' && static_cast<signed char>(*at) >= 0x20) ++at;
  return at;
}

void AppendUtf8(uint32_t code, std::string* text) {
  if (code < 0x80) {
    text->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text->push_back(static_cast<char>(0xc0 | (code >> 6)));
    text->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | (code >> 12)));
    text->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    text->push_back(static_cast<char>(0xf0 | (code >> 18)));
    text->push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3f)));
    text->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

// Recursive descent over the text. Written out, since nlohmann's parser copies every byte, also of
// what nobody wants, and that is most of the CPU time of a large list. Its functions return false
// at an error, with at_ where it is.
class PrunedParser {
 public:
  PrunedParser(absl::string_view text, int max_depth)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), max_depth_(max_depth) {}

  absl::StatusOr<Json> Parse(const JsonKeep& keep) {
    Json root;
    bool good = Value(keep, &root, 0);
    if (good) {
      SkipBlanks();
      good = at_ == end_;
    }
    if (good) return root;
    if (too_deep_) {
      return absl::InvalidArgumentError(absl::StrCat("JSON nested deeper than ", max_depth_));
    }
    return absl::InvalidArgumentError(absl::StrCat("not JSON at offset ", at_ - begin_));
  }

 private:
  void SkipBlanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool Take(char wanted) {
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }

  bool Literal(absl::string_view word) {
    for (const char c : word) {
      if (!Take(c)) return false;
    }
    return true;
  }

  // `out` null: the value is not kept. So in all that follows.
  bool Value(const JsonKeep& keep, Json* out, int depth) {
    SkipBlanks();
    if (at_ == end_) return false;
    switch (*at_) {
      case '{':
        return Object(keep, out, depth + 1);
      case '[':
        return Array(keep, out, depth + 1);
      case '"': {
        if (out == nullptr) return String(nullptr);
        std::string text;
        if (!String(&text)) return false;
        *out = std::move(text);
        return true;
      }
      case 't':
        if (out != nullptr) *out = true;
        return Literal("true");
      case 'f':
        if (out != nullptr) *out = false;
        return Literal("false");
      case 'n':
        if (out != nullptr) *out = nullptr;
        return Literal("null");
      default:
        return Number(out);
    }
  }

  bool Object(const JsonKeep& keep, Json* out, int depth) {
    if (depth > max_depth_) return TooDeep();
    ++at_;
    Json::object_t* members = nullptr;
    if (out != nullptr) {
      *out = Json::object();
      members = &out->get_ref<Json::object_t&>();
    }
    SkipBlanks();
    if (Take('}')) return true;
    std::string name;
    do {
      SkipBlanks();
      if (at_ == end_ || *at_ != '"') return false;
      if (!String(members != nullptr ? &name : nullptr)) return false;
      SkipBlanks();
      if (!Take(':')) return false;
      const JsonKeep* const kept = members != nullptr ? Find(keep, name) : nullptr;
      Json* slot = nullptr;
      if (kept != nullptr) slot = &(*members)[std::exchange(name, "")];
      if (!Value(kept != nullptr ? *kept : keep, slot, depth)) return false;
      SkipBlanks();
    } while (Take(','));
    return Take('}');
  }

  bool Array(const JsonKeep& keep, Json* out, int depth) {
    if (depth > max_depth_) return TooDeep();
    ++at_;
    Json::array_t* items = nullptr;
    if (out != nullptr) {
      *out = Json::array();
      items = &out->get_ref<Json::array_t&>();
    }
    SkipBlanks();
    if (Take(']')) return true;
    do {
      Json* slot = nullptr;
      if (items != nullptr) slot = &items->emplace_back();
      if (!Value(keep, slot, depth)) return false;
      SkipBlanks();
    } while (Take(','));
    return Take(']');
  }

  static const JsonKeep* Find(const JsonKeep& keep, absl::string_view name) {
    if (keep.members.empty()) return &keep;
    for (const JsonKeep& member : keep.members) {
      if (member.name == name) return &member;
    }
    return nullptr;
  }

  bool String(std::string* out) {
    ++at_;
    if (out != nullptr) out->clear();
    for (;;) {
      const char* const from = at_;
      at_ = PlainEnd(at_, end_);
      if (out != nullptr) out->append(from, at_);
      if (at_ == end_) return false;
      if (Take('"')) return true;
      if (*at_ == '\\') {
        if (!Escape(out)) return false;
        continue;
      }
      const size_t length = static_cast<unsigned char>(*at_) < 0x80
                                ? 0  // a control
                                : Utf8SequenceLength({at_, static_cast<size_t>(end_ - at_)});
      if (length == 0) return false;
      if (out != nullptr) out->append(at_, length);
      at_ += length;
    }
  }

  bool Escape(std::string* out) {
    ++at_;
    if (at_ == end_) return false;
    constexpr absl::string_view kNames = "\"\\/bfnrt";
    constexpr absl::string_view kMeant = "\"\\/\b\f\n\r\t";
    const size_t known = kNames.find(*at_);
    if (known != absl::string_view::npos) {
      ++at_;
      if (out != nullptr) out->push_back(kMeant[known]);
      return true;
    }
    uint32_t code = 0;
    if (!Take('u') || !FourDigits(&code)) return false;
    if (code >= 0xdc00 && code < 0xe000) return false;
    if (code >= 0xd800 && code < 0xdc00) {
      uint32_t low = 0;
      if (!Take('\\') || !Take('u') || !FourDigits(&low) || low < 0xdc00 || low >= 0xe000) {
        return false;
      }
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (out != nullptr) AppendUtf8(code, out);
    return true;
  }

  bool FourDigits(uint32_t* code) {
    if (end_ - at_ < 4) return false;
    const auto [last, error] = std::from_chars(at_, at_ + 4, *code, 16);
    if (error != std::errc() || last != at_ + 4) return false;
    at_ += 4;
    return true;
  }

  bool Digits() {
    const char* const from = at_;
    while (at_ != end_ && absl::ascii_isdigit(static_cast<unsigned char>(*at_))) ++at_;
    return at_ != from;
  }

  bool Number(Json* out) {
    const char* const from = at_;
    const bool negative = Take('-');
    if (!Take('0') && !Digits()) return false;
    bool integer = true;
    if (Take('.')) {
      integer = false;
      if (!Digits()) return false;
    }
    if (Take('e') || Take('E')) {
      integer = false;
      if (!Take('+')) (void)Take('-');
      if (!Digits()) return false;
    }
    if (out == nullptr) return true;
    if (integer) {
      uint64_t number = 0;
      int64_t below_zero = 0;
      if (!negative && std::from_chars(from, at_, number).ec == std::errc()) {
        *out = number;
        return true;
      }
      if (negative && std::from_chars(from, at_, below_zero).ec == std::errc()) {
        *out = below_zero;
        return true;
      }
    }
    double number = 0;
    if (std::from_chars(from, at_, number).ec != std::errc()) {
      number = std::strtod(std::string(from, at_).c_str(), nullptr);  // nearly 0, or infinite
    }
    *out = number;
    return std::isfinite(number);
  }

  bool TooDeep() {
    too_deep_ = true;
    return false;
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  const int max_depth_;
  bool too_deep_ = false;
};

}  // namespace

absl::StatusOr<Json> ParsePrunedJson(absl::string_view text, const JsonKeep& keep,
                                     const JsonOptions& options) {
  if (text.size() > options.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "JSON text of ", text.size(), " bytes is over the limit of ", options.max_bytes));
  }
  return PrunedParser(text, options.max_depth).Parse(keep);
}

}  // namespace millrace
