#include "resolver/kubernetes/pruned_json.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace millrace {
namespace {

// Takes nlohmann's SAX events.
class PrunedBuilder {
 public:
  PrunedBuilder(const JsonKeep& keep, int max_depth) : root_keep_(&keep), max_depth_(max_depth) {}

  bool null() { return Scalar(nullptr); }
  bool boolean(bool value) { return Scalar(value); }
  bool number_integer(Json::number_integer_t value) { return Scalar(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Scalar(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return Scalar(value); }
  bool string(std::string& value) { return skipped() || Scalar(std::move(value)); }
  bool binary(Json::binary_t&) { return Fail("binary value"); }  // never sent by the text parser

  bool start_object(size_t) { return Open(Json::object_t()); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(Json::array_t()); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    if (skip_depth_ > 0) return true;
    Frame& frame = frames_.back();
    frame.next_keep = frame.keep;
    if (!frame.keep->members.empty()) {
      frame.next_keep = nullptr;
      for (const JsonKeep& member : frame.keep->members) {
        if (member.name == name) frame.next_keep = &member;
      }
    }
    if (frame.next_keep != nullptr) frame.key = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return Fail(absl::StrCat("not JSON at offset ", position));
  }

  const std::string& error() const { return error_; }
  Json& root() { return root_; }

 private:
  struct Frame {
    Json* container;
    const JsonKeep* keep;                 // for the container
    const JsonKeep* next_keep = nullptr;  // for the member that comes next; null: it is not kept
    std::string key;
  };

  bool Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }

  // Whether the value that comes now is not kept.
  [[nodiscard]] bool skipped() const {
    return skip_depth_ > 0 || (!frames_.empty() && frames_.back().container->is_object() &&
                               frames_.back().next_keep == nullptr);
  }

  template <typename Value>
  bool Scalar(Value&& value) {
    if (!skipped()) Add(Json(std::forward<Value>(value)));
    return true;
  }

  template <typename Container>
  bool Open(Container container) {
    if (skip_depth_ + static_cast<int>(frames_.size()) >= max_depth_) {
      return Fail(absl::StrCat("JSON nested deeper than ", max_depth_));
    }
    if (skipped()) {
      ++skip_depth_;
      return true;
    }
    const JsonKeep* keep = root_keep_;
    if (!frames_.empty()) {
      const Frame& frame = frames_.back();
      keep = frame.container->is_object() ? frame.next_keep : frame.keep;
    }
    Json* const added = Add(Json(std::move(container)));
    frames_.push_back({.container = added, .keep = keep});
    return true;
  }

  bool Close() {
    if (skip_depth_ > 0) {
      --skip_depth_;
    } else {
      frames_.pop_back();
    }
    return true;
  }

  Json* Add(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (frame.container->is_array()) {
      auto& items = frame.container->get_ref<Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    Json& slot = frame.container->get_ref<Json::object_t&>()[std::move(frame.key)];
    slot = std::move(value);
    return &slot;
  }

  const JsonKeep* const root_keep_;
  const int max_depth_;
  Json root_;
  std::vector<Frame> frames_;  // containers that are kept and open, outermost first
  int skip_depth_ = 0;         // containers that are not kept and open
  std::string error_;
};

}  // namespace

absl::StatusOr<Json> ParsePrunedJson(absl::string_view text, const JsonKeep& keep,
                                     const JsonOptions& options) {
  if (text.size() > options.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "JSON text of ", text.size(), " bytes is over the limit of ", options.max_bytes));
  }
  // The library takes a NUL for the end of its input and would accept anything behind it.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON at offset ", nul, ": NUL byte"));
  }
  PrunedBuilder builder(keep, options.max_depth);
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed || !builder.error().empty()) return absl::InvalidArgumentError(builder.error());
  return std::move(builder.root());
}

}  // namespace millrace
