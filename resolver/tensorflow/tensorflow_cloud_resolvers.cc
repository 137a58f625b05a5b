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
#include "resolver/gce/gce_client.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_base.h"
#include "resolver/tensorflow/tensorflow_tf_config_resolver.h"

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

// An answer that is an error of the API, or none: what the client library raises.
absl::Status HttpError(const absl::Status& status) {
  return TensorFlowError(status.code(), "HttpError", status.message());
}

class TensorFlowGceResolver final : public AsTensorFlow<GceResolver> {
 public:
  TensorFlowGceResolver(GceResolverOptions options, std::unique_ptr<GceClient> client)
      : AsTensorFlow(options), options_(std::move(options)), client_(std::move(client)) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override {
    const GceGroupName group = {.project = options_.project,
                                .zone = options_.zone,
                                .instance_group = options_.instance_group};
    const absl::StatusOr<std::vector<GceGroupPage>> pages = client_->ListGroup(group, "RUNNING");
    if (!pages.ok()) return HttpError(pages.status());
    std::vector<std::string> addresses;
    for (const GceGroupPage& page : *pages) {
      if (!page.has_items) return PythonError("KeyError", "'items'");
      for (const GceGroupPage::Entry& entry : page.entries) {
        const absl::StatusOr<Json> instance = client_->Instance(group, entry.name);
        if (!instance.ok()) return HttpError(instance.status());
        MILLRACE_ASSIGN_OR_RETURN(const std::string address, AddressOf(*instance));
        addresses.push_back(
            absl::StrCat(address, ":", options_.port_text.value_or(absl::StrCat(options_.port))));
      }
    }
    std::sort(addresses.begin(), addresses.end());
    ClusterSpec spec;
    MILLRACE_RETURN_IF_ERROR(
        spec.AddJob(options_.properties.task_type.value_or("worker"), std::move(addresses)));
    return spec;
  }

  absl::Status set_task_type(std::optional<std::string>) override {
    return TensorFlowError(absl::StatusCode::kFailedPrecondition, "RuntimeError",
                           "You cannot reset the task_type of the GCEClusterResolver after it has "
                           "been created.");
  }

 protected:
  absl::StatusOr<std::optional<int>> SourceTaskId() override { return 0; }

 private:
  // instance["networkInterfaces"][0]["networkIP"]
  static absl::StatusOr<std::string> AddressOf(const Json& instance) {
    const auto interfaces = instance.find("networkInterfaces");
    if (interfaces == instance.end()) return PythonError("KeyError", "'networkInterfaces'");
    if (interfaces->empty()) return PythonError("IndexError", "list index out of range");
    const Json& first = interfaces->front();
    const auto address = first.is_object() ? first.find("networkIP") : first.end();
    if (address == first.end()) return PythonError("KeyError", "'networkIP'");
    return PythonStrOf(*address);
  }

  const GceResolverOptions options_;
  const std::unique_ptr<GceClient> client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GceResolver>> MakeTensorFlowGceResolver(GceResolverOptions options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<GceClient> client, GceClient::Create(options));
  return std::make_unique<TensorFlowGceResolver>(std::move(options), std::move(client));
}

std::unique_ptr<SageMakerResolver> MakeTensorFlowSageMakerResolver(
    const SageMakerResolverOptions& options) {
  return std::make_unique<TensorFlowSageMakerResolver>(options);
}

}  // namespace millrace
