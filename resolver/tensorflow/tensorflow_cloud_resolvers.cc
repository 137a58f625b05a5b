#include "resolver/tensorflow/tensorflow_cloud_resolvers.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "millrace/tensorflow_error.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_config_base.h"

namespace millrace {
namespace {

// Whether Python has an order of these: numbers (True is one) among themselves, texts, lists.
bool Comparable(const OrderedJson& a, const OrderedJson& b) {
  const auto is_number = [](const OrderedJson& value) {
    return value.is_number() || value.is_boolean();
  };
  return (is_number(a) && is_number(b)) || (a.is_string() && b.is_string()) ||
         (a.is_array() && b.is_array());
}

// sorted(value) as far as texts go: empty where nothing in it is a text. Returns the TypeErrors of
// what cannot be iterated or sorted.
absl::StatusOr<std::vector<std::string>> SortedTexts(const OrderedJson& value) {
  std::vector<std::string> texts;
  if (value.is_string()) {
    for (absl::string_view rest = value.get_ref<const std::string&>(); !rest.empty();) {
      const size_t size = std::max<size_t>(1, Utf8SequenceLength(rest));
      texts.emplace_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
  } else if (value.is_object()) {
    for (const auto& [key, unused] : value.items()) texts.push_back(key);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0 && !Comparable(value[i], value[i - 1])) {
        return PythonError("TypeError", absl::StrCat("'<' not supported between instances of '",
                                                     PythonTypeName(value[i]), "' and '",
                                                     PythonTypeName(value[i - 1]), "'"));
      }
      if (value[i].is_string()) texts.push_back(value[i].get<std::string>());
    }
  } else {
    return PythonError("TypeError",
                       absl::StrCat("'", PythonTypeName(value), "' object is not iterable"));
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

class TensorFlowSageMakerResolver final
    : public AsTensorFlowConfig<SageMakerResolver, SageMakerResolverOptions> {
 public:
  explicit TensorFlowSageMakerResolver(const SageMakerResolverOptions& options)
      : AsTensorFlowConfig(options),
        port_(options.port_text.value_or(absl::StrCat(options.port))),
        read_(options.read) {}

 protected:
  // The object that it makes of the variables.
  absl::StatusOr<TensorFlowConfig> Load() const override {
    const std::optional<std::string> text = read_("SM_HOSTS");
    const std::optional<std::string> current = read_("SM_CURRENT_HOST");
    if (!text.has_value() || !current.has_value()) {
      return TensorFlowError(absl::StatusCode::kFailedPrecondition, "AssertionError",
                             "Not a SageMaker Environment");
    }
    std::vector<std::string> hosts;
    if (!text->empty()) {
      MILLRACE_ASSIGN_OR_RETURN(const OrderedJson value, ParsePythonJson(*text));
      MILLRACE_ASSIGN_OR_RETURN(hosts, SortedTexts(value));
    }
    const auto found = std::find(hosts.begin(), hosts.end(), *current);
    if (found == hosts.end()) return TensorFlowConfig{OrderedJson::object()};
    const auto index = found - hosts.begin();
    for (std::string& host : hosts) absl::StrAppend(&host, ":", port_);
    return TensorFlowConfig{OrderedJson{{"cluster", {{"worker", std::move(hosts)}}},
                                        {"task", {{"type", "worker"}, {"index", index}}}}};
  }

 private:
  const std::string port_;
  const SageMakerResolverOptions::Reader read_;
};

}  // namespace

std::unique_ptr<SageMakerResolver> MakeTensorFlowSageMakerResolver(
    const SageMakerResolverOptions& options) {
  return std::make_unique<TensorFlowSageMakerResolver>(options);
}

}  // namespace millrace
