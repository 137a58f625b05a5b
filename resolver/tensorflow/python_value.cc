#include "resolver/tensorflow/python_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/status_macros.h"
#include "millrace/tensorflow_error.h"

namespace millrace {
namespace {

constexpr int64_t kSaturated = int64_t{1} << 40;  // as PythonInt()
constexpr int kMaxDepth = 64;                     // as JsonOptions::max_depth

// Finds what Python's json module would say about a text, by its own order of checks: json.loads()
// names other places and other causes than our parser.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  // OK, or the JSONDecodeError.
  absl::Status Check() {
    if (absl::StartsWith(text_, "\xEF\xBB\xBF")) {
      return ErrorAt("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0);
    }
    SkipSpace();
    const absl::Status value = Value(0);
    if (absl::IsResourceExhausted(value)) return absl::OkStatus();  // our parser will say so
    MILLRACE_RETURN_IF_ERROR(value);
    SkipSpace();
    if (at_ < text_.size()) return ErrorAt("Extra data", at_);
    return absl::OkStatus();
  }

 private:
  // Positions are counted in characters, though kept in bytes.
  absl::Status ErrorAt(absl::string_view what, size_t byte) const {
    size_t position = 0;
    size_t line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < std::min(byte, text_.size()); ++i) {
      if ((static_cast<unsigned char>(text_[i]) & 0xC0) == 0x80) continue;
      ++position;
      if (text_[i] == '\n') {
        ++line;
        line_start = position;
      }
    }
    return PythonError("JSONDecodeError",
                       absl::StrCat(what, ": line ", line, " column ", position - line_start + 1,
                                    " (char ", position, ")"));
  }

  bool At(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool AtDigit() const {
    return at_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]));
  }
  void SkipSpace() {
    while (At(' ') || At('\t') || At('\n') || At('\r')) ++at_;
  }
  bool Skip(absl::string_view word) {
    if (!absl::StartsWith(text_.substr(std::min(at_, text_.size())), word)) return false;
    at_ += word.size();
    return true;
  }

  absl::Status Value(int depth) {
    if (depth > kMaxDepth) return absl::ResourceExhaustedError("nested too deep");
    const size_t start = at_;
    if (Skip("\"")) return String();
    if (Skip("{")) return Object(depth);
    if (Skip("[")) return Array(depth);
    for (const absl::string_view word : {"null", "true", "false", "NaN", "Infinity", "-Infinity"}) {
      if (Skip(word)) return absl::OkStatus();
    }
    if (Number()) return absl::OkStatus();
    return ErrorAt("Expecting value", start);
  }

  bool Number() {
    Skip("-");
    if (!AtDigit()) return false;
    if (!Skip("0")) Digits();
    const size_t integer_end = at_;
    if (Skip(".") && !Digits()) at_ = integer_end;
    const size_t fraction_end = at_;
    if (At('e') || At('E')) {
      ++at_;
      if (At('+') || At('-')) ++at_;
      if (!Digits()) at_ = fraction_end;
    }
    return true;
  }
  bool Digits() {
    const size_t start = at_;
    while (AtDigit()) ++at_;
    return at_ > start;
  }

  absl::Status Object(int depth) {
    SkipSpace();
    if (Skip("}")) return absl::OkStatus();
    while (true) {
      if (!Skip("\"")) {
        return ErrorAt("Expecting property name enclosed in double quotes", at_);
      }
      MILLRACE_RETURN_IF_ERROR(String());
      SkipSpace();
      if (!Skip(":")) return ErrorAt("Expecting ':' delimiter", at_);
      SkipSpace();
      MILLRACE_RETURN_IF_ERROR(Value(depth + 1));
      SkipSpace();
      if (Skip("}")) return absl::OkStatus();
      if (!Skip(",")) return ErrorAt("Expecting ',' delimiter", at_);
      SkipSpace();
    }
  }

  absl::Status Array(int depth) {
    SkipSpace();
    if (Skip("]")) return absl::OkStatus();
    while (true) {
      MILLRACE_RETURN_IF_ERROR(Value(depth + 1));
      SkipSpace();
      if (Skip("]")) return absl::OkStatus();
      if (!Skip(",")) return ErrorAt("Expecting ',' delimiter", at_);
      SkipSpace();
    }
  }

  // After the opening quote.
  absl::Status String() {
    const size_t quote = at_ - 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return absl::OkStatus();
      }
      if (static_cast<unsigned char>(c) <= 0x1F) {
        return ErrorAt("Invalid control character at", at_);
      }
      if (c == '\\') {
        MILLRACE_RETURN_IF_ERROR(Escape(quote));
      } else {
        ++at_;
      }
    }
    return ErrorAt("Unterminated string starting at", quote);
  }

  // At the backslash.
  absl::Status Escape(size_t quote) {
    const size_t backslash = at_++;
    if (at_ >= text_.size()) return ErrorAt("Unterminated string starting at", quote);
    const char c = text_[at_++];
    if (c != 'u') {
      if (absl::string_view("\"\\/bfnrt").find(c) != absl::string_view::npos) {
        return absl::OkStatus();
      }
      return ErrorAt("Invalid \\escape", backslash);
    }
    // Python wants a character behind the four digits, the closing quote, before it looks at them.
    if (at_ + 4 >= text_.size()) return ErrorAt("Invalid \\uXXXX escape", at_ - 1);
    for (int digit = 0; digit < 4; ++digit, ++at_) {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(text_[at_]))) {
        return ErrorAt("Invalid \\uXXXX escape", backslash + 1);
      }
    }
    return absl::OkStatus();
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

// The shortest digits that read back as `value`, laid out as Python does: with an exponent from
// 1e+16 on and below 1e-4.
std::string FloatRepr(double value) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const absl::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  absl::string_view exponent_text = text.substr(e + 1);
  if (absl::StartsWith(exponent_text, "+")) exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (exponent >= 16 || exponent < -4) return std::string(text);
  char fixed[64];
  const auto fixed_end =
      std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed);
  std::string out(fixed, static_cast<size_t>(fixed_end.ptr - fixed));
  if (out.find('.') == std::string::npos) out.append(".0");
  return out;
}

absl::Status NotIterable(const OrderedJson& value) {
  return PythonError(
      "TypeError", absl::StrCat("argument of type '", PythonTypeName(value), "' is not iterable"));
}

}  // namespace

absl::Status PythonError(absl::string_view python_class, absl::string_view message) {
  return TensorFlowError(absl::StatusCode::kInvalidArgument, python_class, message);
}

absl::StatusOr<OrderedJson> ParsePythonJson(absl::string_view text) {
  MILLRACE_RETURN_IF_ERROR(Scanner(text).Check());
  return ParseOrderedJson(text);
}

absl::string_view PythonTypeName(const OrderedJson& value) {
  if (value.is_null()) return "NoneType";
  if (value.is_boolean()) return "bool";
  if (value.is_number_integer()) return "int";
  if (value.is_number()) return "float";
  if (value.is_string()) return "str";
  return value.is_array() ? "list" : "dict";
}

std::string PythonReprOf(const OrderedJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_unsigned()) return absl::StrCat(value.get<uint64_t>());
  if (value.is_number_integer()) return absl::StrCat(value.get<int64_t>());
  if (value.is_number()) return FloatRepr(value.get<double>());
  if (value.is_string()) return PythonRepr(value.get_ref<const std::string&>());
  if (value.is_array()) {
    return absl::StrCat("[",
                        absl::StrJoin(value.get_ref<const OrderedJson::array_t&>(), ", ",
                                      [](std::string* out, const OrderedJson& item) {
                                        out->append(PythonReprOf(item));
                                      }),
                        "]");
  }
  return absl::StrCat("{",
                      absl::StrJoin(value.get_ref<const OrderedJson::object_t&>(), ", ",
                                    [](std::string* out, const auto& member) {
                                      absl::StrAppend(out, PythonRepr(member.first), ": ",
                                                      PythonReprOf(member.second));
                                    }),
                      "}");
}

std::string PythonStrOf(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : PythonReprOf(value);
}

absl::StatusOr<int64_t> PythonIntOf(const OrderedJson& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned()) {
    return static_cast<int64_t>(std::min(value.get<uint64_t>(), uint64_t{kSaturated}));
  }
  if (value.is_number_integer()) {
    return std::clamp(value.get<int64_t>(), -kSaturated, kSaturated);
  }
  if (value.is_number()) {
    return static_cast<int64_t>(std::clamp(std::trunc(value.get<double>()),
                                           -static_cast<double>(kSaturated),
                                           static_cast<double>(kSaturated)));
  }
  if (!value.is_string()) {
    return PythonError("TypeError",
                       absl::StrCat("int() argument must be a string, a bytes-like object or a "
                                    "real number, not '",
                                    PythonTypeName(value), "'"));
  }
  const std::optional<int64_t> number = PythonInt(value.get_ref<const std::string&>());
  if (number.has_value()) return *number;
  return PythonError("ValueError",
                     absl::StrCat("invalid literal for int() with base 10: ", PythonReprOf(value)));
}

absl::StatusOr<const OrderedJson*> PythonItem(const OrderedJson& holder, absl::string_view key) {
  if (holder.is_object()) {
    const auto found = holder.find(std::string(key));
    return found == holder.end() ? nullptr : &*found;
  }
  if (holder.is_string()) {
    if (!absl::StrContains(holder.get_ref<const std::string&>(), key)) return nullptr;
    return PythonError("TypeError", "string indices must be integers, not 'str'");
  }
  if (!holder.is_array()) return NotIterable(holder);
  const bool contains = std::any_of(holder.begin(), holder.end(), [key](const OrderedJson& item) {
    return item.is_string() && item.get_ref<const std::string&>() == key;
  });
  if (!contains) return nullptr;
  return PythonError("TypeError", "list indices must be integers or slices, not str");
}

bool PythonTruth(const OrderedJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

}  // namespace millrace
