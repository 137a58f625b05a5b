#include "feed/source/tfrecord/schema_sample.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "feed/arrow/validate.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"

namespace millrace {
namespace {

absl::Status FeatureError(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("feature \"", EscapeControls(Ellipsize(name, 100)), "\" ", what));
}

Type ValueType(FeatureKind kind, bool binary) {
  if (kind == FeatureKind::kInt64) return Type::Int64();
  if (kind == FeatureKind::kFloat) return Type::Float32();
  return binary ? Type::Binary() : Type::Utf8();
}

}  // namespace

absl::Status SchemaSample::Add(absl::string_view example) {
  // The last of a name counts.
  std::map<std::string, absl::string_view> features;
  std::deque<std::string> merged;
  const bool read =
      ForEachFeature(example, &merged, [&features](absl::string_view name, absl::string_view of) {
        features[std::string(name)] = of;
      });
  if (!read) {
    return absl::InvalidArgumentError(
        "it is no tensorflow.Example; other records are read with the option raw");
  }
  for (const auto& [name, feature] : features) {
    MILLRACE_RETURN_IF_ERROR(See(name, feature));
  }
  ++records_;
  return absl::OkStatus();
}

absl::Status SchemaSample::See(const std::string& name, absl::string_view feature) {
  FeatureValues values;
  Seen& seen = features_[name];
  if (!ReadFeature(feature, &values)) return FeatureError(name, "is damaged");
  if (values.kind == FeatureKind::kNone) return absl::OkStatus();
  const std::optional<size_t> count = CountValues(values);
  if (!count.has_value()) return FeatureError(name, "is damaged");
  if (seen.kind != FeatureKind::kNone && seen.kind != values.kind) {
    return FeatureError(name, absl::StrCat("has ", FeatureKindName(values.kind),
                                           ", in earlier records ", FeatureKindName(seen.kind)));
  }
  seen.kind = values.kind;
  seen.list |= *count != 1;
  if (values.kind == FeatureKind::kBytes && !seen.binary) {
    seen.binary = !ForEachBytes(values, IsValidUtf8);
  }
  return absl::OkStatus();
}

absl::StatusOr<Schema> SchemaSample::Infer(const std::vector<std::string>& binary_features) const {
  if (features_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no schema can be inferred: ", records_ == 0 ? "there is no record" : "no record has",
        records_ == 0 ? "" : " a feature", "; give a schema"));
  }
  SchemaBuilder builder;
  for (const auto& [name, seen] : features_) {
    if (seen.kind == FeatureKind::kNone) {
      return FeatureError(name, absl::StrCat("is empty in each of the ", records_,
                                             " records that were looked at; give a schema, or a "
                                             "larger sample_records"));
    }
    const bool named =
        std::find(binary_features.begin(), binary_features.end(), name) != binary_features.end();
    Type value = ValueType(seen.kind, seen.binary || named);
    builder.Add(name, seen.list ? Type::List(std::move(value)) : std::move(value));
  }
  return builder.Build();
}

}  // namespace millrace
