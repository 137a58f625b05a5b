#include "core/base/json.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace millrace {
namespace {

// Builds a JsonType from nlohmann's SAX events. Written out rather than json::parse(), because that
// has neither a depth limit nor, without exceptions, an error text; and because ordered_json looks
// each key up linearly.
template <typename JsonType>
class Builder {
 public:
  using number_integer_t = typename JsonType::number_integer_t;
  using number_unsigned_t = typename JsonType::number_unsigned_t;
  using number_float_t = typename JsonType::number_float_t;
  using string_t = typename JsonType::string_t;
  using binary_t = typename JsonType::binary_t;

  explicit Builder(int max_depth) : max_depth_(max_depth) {}

  bool null() { return Add(JsonType(nullptr)) != nullptr; }
  bool boolean(bool value) { return Add(JsonType(value)) != nullptr; }
  bool number_integer(number_integer_t value) { return Add(JsonType(value)) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return Add(JsonType(value)) != nullptr; }
  bool number_float(number_float_t value, const string_t&) {
    return Add(JsonType(value)) != nullptr;
  }
  bool string(string_t& value) { return Add(JsonType(std::move(value))) != nullptr; }
  bool binary(binary_t&) { return Fail("binary value"); }  // never sent by the text parser

  bool start_object(size_t) { return Open(JsonType::object()); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(JsonType::array()); }
  bool end_array() { return Close(); }
  bool key(string_t& name) {
    frames_.back().key = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": what
    // stands after the place says the same without the library's name.
    absl::string_view what = error.what();
    const size_t colon = what.find(": ");
    if (colon != absl::string_view::npos) {
      what.remove_prefix(colon + 2);
    } else if (const size_t bracket = what.find("] "); bracket != absl::string_view::npos) {
      what.remove_prefix(bracket + 2);
    }
    return Fail(
        absl::StrCat("not JSON at offset ", position, ": ", Ellipsize(EscapeControls(what), 200)));
  }

  const std::string& error() const { return error_; }
  JsonType& root() { return root_; }

 private:
  struct Frame {
    JsonType* container = nullptr;
    std::string key;                                      // of the member that comes next
    absl::flat_hash_map<std::string, size_t> known_keys;  // ordered objects only
  };

  bool Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }

  bool Open(JsonType container) {
    if (static_cast<int>(frames_.size()) >= max_depth_) {
      return Fail(absl::StrCat("JSON nested deeper than ", max_depth_));
    }
    JsonType* added = Add(std::move(container));
    frames_.push_back({.container = added, .key = "", .known_keys = {}});
    return true;
  }

  bool Close() {
    frames_.pop_back();
    return true;
  }

  JsonType* Add(JsonType value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (frame.container->is_array()) {
      auto& items = frame.container->template get_ref<typename JsonType::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    auto& members = frame.container->template get_ref<typename JsonType::object_t&>();
    if constexpr (std::is_same_v<JsonType, OrderedJson>) {
      const auto [known, is_new] = frame.known_keys.try_emplace(frame.key, members.size());
      if (is_new) {
        members.emplace_back(std::move(frame.key), std::move(value));
        return &members.back().second;
      }
      JsonType& slot = (members.begin() + static_cast<std::ptrdiff_t>(known->second))->second;
      slot = std::move(value);
      return &slot;
    } else {
      JsonType& slot = members[std::move(frame.key)];
      slot = std::move(value);
      return &slot;
    }
  }

  const int max_depth_;
  JsonType root_;
  std::vector<Frame> frames_;  // containers that are open, outermost first
  std::string error_;
};

template <typename JsonType>
absl::StatusOr<JsonType> Parse(absl::string_view text, const JsonOptions& options) {
  if (text.size() > options.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "JSON text of ", text.size(), " bytes is over the limit of ", options.max_bytes));
  }
  // The library takes a NUL for the end of its input and would accept anything behind it.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON at offset ", nul, ": NUL byte"));
  }
  Builder<JsonType> builder(options.max_depth);
  const bool parsed = JsonType::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed || !builder.error().empty()) return absl::InvalidArgumentError(builder.error());
  return std::move(builder.root());
}

template <typename JsonType>
absl::string_view TypeName(const JsonType& value) {
  switch (value.type()) {
    case nlohmann::detail::value_t::null:
      return "null";
    case nlohmann::detail::value_t::object:
      return "object";
    case nlohmann::detail::value_t::array:
      return "array";
    case nlohmann::detail::value_t::string:
      return "string";
    case nlohmann::detail::value_t::boolean:
      return "boolean";
    case nlohmann::detail::value_t::number_integer:
    case nlohmann::detail::value_t::number_unsigned:
      return "integer";
    case nlohmann::detail::value_t::number_float:
      return "number";
    default:
      return "binary";
  }
}

std::string FieldName(absl::string_view where, absl::string_view key) {
  return where.empty() ? absl::StrCat("field \"", key, "\"")
                       : absl::StrCat("field \"", where, ".", key, "\"");
}

// The member, or nullptr if it is absent or null. Fails only if `object` is no object.
absl::StatusOr<const Json*> FindField(const Json& object, absl::string_view key,
                                      absl::string_view where) {
  if (!object.is_object()) {
    const std::string holder =
        where.empty() ? "the document" : absl::StrCat("field \"", where, "\"");
    return absl::InvalidArgumentError(
        absl::StrCat(holder, " must be an object, found ", JsonTypeName(object)));
  }
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  return &*found;
}

absl::Status Missing(absl::string_view key, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(FieldName(where, key), " is missing"));
}

absl::Status WrongType(const Json& value, absl::string_view key, absl::string_view where,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(FieldName(where, key), " must be ", wanted, ", found ", JsonTypeName(value)));
}

absl::StatusOr<const Json*> RequireField(const Json& object, absl::string_view key,
                                         absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, FindField(object, key, where));
  if (value == nullptr) return Missing(key, where);
  return value;
}

absl::StatusOr<std::string> AsString(const Json& value, absl::string_view key,
                                     absl::string_view where) {
  if (!value.is_string()) return WrongType(value, key, where, "a string");
  return value.get_ref<const std::string&>();
}

absl::StatusOr<int64_t> AsInt(const Json& value, absl::string_view key, absl::string_view where) {
  if (!value.is_number_integer()) return WrongType(value, key, where, "an integer");
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(FieldName(where, key), " is ",
                                                   value.get<uint64_t>(),
                                                   ", which does not fit 64 bits with a sign"));
  }
  return value.get<int64_t>();
}

absl::StatusOr<double> AsDouble(const Json& value, absl::string_view key, absl::string_view where) {
  if (!value.is_number()) return WrongType(value, key, where, "a number");
  return value.get<double>();
}

absl::StatusOr<bool> AsBool(const Json& value, absl::string_view key, absl::string_view where) {
  if (!value.is_boolean()) return WrongType(value, key, where, "a boolean");
  return value.get<bool>();
}

template <typename JsonType>
std::string Dump(const JsonType& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, JsonType::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text, const JsonOptions& options) {
  return Parse<Json>(text, options);
}

absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text, const JsonOptions& options) {
  return Parse<OrderedJson>(text, options);
}

std::string DumpJson(const Json& value, int indent) { return Dump(value, indent); }
std::string DumpJson(const OrderedJson& value, int indent) { return Dump(value, indent); }

absl::string_view JsonTypeName(const Json& value) { return TypeName(value); }
absl::string_view JsonTypeName(const OrderedJson& value) { return TypeName(value); }

absl::StatusOr<std::string> GetString(const Json& object, absl::string_view key,
                                      absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, RequireField(object, key, where));
  return AsString(*value, key, where);
}

absl::StatusOr<int64_t> GetInt(const Json& object, absl::string_view key, absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, RequireField(object, key, where));
  return AsInt(*value, key, where);
}

absl::StatusOr<double> GetDouble(const Json& object, absl::string_view key,
                                 absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, RequireField(object, key, where));
  return AsDouble(*value, key, where);
}

absl::StatusOr<bool> GetBool(const Json& object, absl::string_view key, absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, RequireField(object, key, where));
  return AsBool(*value, key, where);
}

absl::StatusOr<const Json*> GetObject(const Json& object, absl::string_view key,
                                      absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, RequireField(object, key, where));
  if (!value->is_object()) return WrongType(*value, key, where, "an object");
  return value;
}

absl::StatusOr<const Json*> GetArray(const Json& object, absl::string_view key,
                                     absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, RequireField(object, key, where));
  if (!value->is_array()) return WrongType(*value, key, where, "an array");
  return value;
}

absl::StatusOr<std::vector<std::string>> GetStringList(const Json& object, absl::string_view key,
                                                       absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* array, GetArray(object, key, where));
  std::vector<std::string> strings;
  strings.reserve(array->size());
  for (const Json& item : *array) {
    MILLRACE_ASSIGN_OR_RETURN(std::string text,
                              AsString(item, absl::StrCat(key, "[", strings.size(), "]"), where));
    strings.push_back(std::move(text));
  }
  return strings;
}

absl::StatusOr<int64_t> GetIntInRange(const Json& object, absl::string_view key, int64_t min,
                                      int64_t max, absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t value, GetInt(object, key, where));
  if (value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat(FieldName(where, key), " must be in ", min, "..", max, ", found ", value));
  }
  return value;
}

absl::StatusOr<std::string> GetStringOr(const Json& object, absl::string_view key,
                                        absl::string_view fallback, absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, FindField(object, key, where));
  if (value == nullptr) return std::string(fallback);
  return AsString(*value, key, where);
}

absl::StatusOr<int64_t> GetIntOr(const Json& object, absl::string_view key, int64_t fallback,
                                 absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, FindField(object, key, where));
  if (value == nullptr) return fallback;
  return AsInt(*value, key, where);
}

absl::StatusOr<double> GetDoubleOr(const Json& object, absl::string_view key, double fallback,
                                   absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, FindField(object, key, where));
  if (value == nullptr) return fallback;
  return AsDouble(*value, key, where);
}

absl::StatusOr<bool> GetBoolOr(const Json& object, absl::string_view key, bool fallback,
                               absl::string_view where) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* value, FindField(object, key, where));
  if (value == nullptr) return fallback;
  return AsBool(*value, key, where);
}

}  // namespace millrace
