#include "resolver/kubernetes/client/pruned_json.h"

#include <simdjson.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

const JsonKeep* Find(const JsonKeep& keep, absl::string_view name) {
  if (keep.members.empty()) return &keep;
  for (const JsonKeep& member : keep.members) {
    if (member.name == name) return &member;
  }
  return nullptr;
}

// As deep as the parser went, which has a limit.
Json Kept(const element& value, const JsonKeep& keep) {
  switch (value.type()) {
    case element_type::OBJECT: {
      Json::object_t members;
      for (const auto& [name, member] : simdjson::dom::object(value)) {
        const JsonKeep* const kept = Find(keep, {name.data(), name.size()});
        if (kept != nullptr) members[std::string(name)] = Kept(member, *kept);
      }
      return members;
    }
    case element_type::ARRAY: {
      Json::array_t items;
      for (const element& item : simdjson::dom::array(value)) items.push_back(Kept(item, keep));
      return items;
    }
    case element_type::STRING:
      return std::string(std::string_view(value));
    case element_type::INT64:
      // Json tells the two apart by the sign, as its own parser does.
      if (int64_t(value) >= 0) return static_cast<uint64_t>(int64_t(value));
      return int64_t(value);
    case element_type::UINT64:
      return uint64_t(value);
    case element_type::DOUBLE:
      return double(value);
    case element_type::BOOL:
      return bool(value);
    case element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Json> ParsePrunedJson(absl::string_view text, const JsonKeep& keep,
                                     const JsonOptions& options) {
  if (text.size() > options.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "JSON text of ", text.size(), " bytes is over the limit of ", options.max_bytes));
  }
  simdjson::dom::parser parser;
  simdjson::error_code error =
      parser.allocate(text.size(), static_cast<size_t>(options.max_depth) + 1);
  element root;
  if (!error) error = parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::DEPTH_ERROR) {
    return absl::InvalidArgumentError(absl::StrCat("JSON nested deeper than ", options.max_depth));
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON: ", simdjson::error_message(error)));
  }
  return Kept(root, keep);
}

}  // namespace millrace
