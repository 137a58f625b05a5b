// TF_CONFIG: the input is the variable's value. It is asked for all that it may say, as we read it
// and as TensorFlow does, and a spec that it gives is written and read again.

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/tf_config_resolver.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {

void Fuzz(absl::string_view input) {
  for (const ResolverBehavior behavior :
       {ResolverBehavior::kCorrect, ResolverBehavior::kTensorFlow}) {
    TfConfigResolverOptions options;
    options.behavior = behavior;
    options.read = [input] { return std::optional<std::string>(input); };
    const absl::StatusOr<std::unique_ptr<TfConfigResolver>> resolver =
        TfConfigResolver::Create(std::move(options));
    FUZZ_CHECK(resolver.ok());
    (*resolver)->task_type().IgnoreError();
    (*resolver)->task_id().IgnoreError();
    (*resolver)->rpc_layer().IgnoreError();
    (*resolver)->environment().IgnoreError();
    (*resolver)->master().IgnoreError();
    const absl::StatusOr<ClusterSpec> spec = (*resolver)->cluster_spec();
    if (!spec.ok() || behavior == ResolverBehavior::kTensorFlow) continue;
    const absl::StatusOr<ClusterSpec> again = ClusterSpec::FromJsonText(spec->ToJson());
    FUZZ_CHECK(again.ok() && again->ToJson() == spec->ToJson());
  }
}

}  // namespace millrace
