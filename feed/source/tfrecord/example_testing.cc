#include "feed/source/tfrecord/example_testing.h"

#include <deque>
#include <string>
#include <vector>

#include "feed/source/tfrecord/example_wire.h"
#include "google/protobuf/stubs/logging.h"
#include "millrace/column_view.h"
#include "millrace/types.h"

namespace millrace {
namespace {

using example_testing::Example;
using example_testing::Feature;

bool FillFeature(const FeatureValues& values, Feature* feature) {
  const std::optional<size_t> count = CountValues(values);
  if (!count.has_value()) return false;
  switch (values.kind) {
    case FeatureKind::kNone:
      return true;
    case FeatureKind::kBytes: {
      auto* const list = feature->mutable_bytes_list();
      return ForEachBytes(values,
                          [list](absl::string_view value) {
                            list->add_value(value.data(), value.size());
                            return true;
                          }) &&
             static_cast<size_t>(list->value_size()) == *count;
    }
    case FeatureKind::kFloat: {
      auto* const list = feature->mutable_float_list()->mutable_value();
      list->Resize(static_cast<int>(*count), 0);
      return CopyFloats(values, list->mutable_data());
    }
    case FeatureKind::kInt64: {
      std::vector<int64_t> numbers(*count);
      auto* const list = feature->mutable_int64_list();
      if (!CopyInt64s(values, numbers.data())) return false;
      for (const int64_t number : numbers) list->add_value(number);
      return true;
    }
  }
  return false;
}

int64_t IntegerAt(const ColumnView& values, int64_t i) {
  switch (values.type().id()) {
    case TypeId::kBool:
      return values.BoolAt(i) ? 1 : 0;
    case TypeId::kInt8:
      return values.values<int8_t>()[i];
    case TypeId::kInt16:
      return values.values<int16_t>()[i];
    case TypeId::kInt32:
      return values.values<int32_t>()[i];
    case TypeId::kUint8:
      return values.values<uint8_t>()[i];
    case TypeId::kUint16:
      return values.values<uint16_t>()[i];
    case TypeId::kUint32:
      return values.values<uint32_t>()[i];
    case TypeId::kUint64:
      return static_cast<int64_t>(values.values<uint64_t>()[i]);
    default:
      return values.values<int64_t>()[i];
  }
}

// The values [begin, end).
Feature FeatureOf(const ColumnView& values, int64_t begin, int64_t end) {
  Feature feature;
  const Type& type = values.type();
  if (type.is_variable()) {
    auto* const list = feature.mutable_bytes_list();
    for (int64_t i = begin; i < end; ++i) {
      const absl::string_view value = values.BytesAt(i);
      list->add_value(value.data(), value.size());
    }
  } else if (type.id() == TypeId::kFloat32 || type.id() == TypeId::kFloat64) {
    auto* const list = feature.mutable_float_list();
    for (int64_t i = begin; i < end; ++i) {
      list->add_value(type.id() == TypeId::kFloat32
                          ? values.values<float>()[i]
                          : static_cast<float>(values.values<double>()[i]));
    }
  } else {
    auto* const list = feature.mutable_int64_list();
    for (int64_t i = begin; i < end; ++i) list->add_value(IntegerAt(values, i));
  }
  return feature;
}

// What it holds, without fields that nobody knows.
std::string BytesOf(Feature feature) {
  feature.DiscardUnknownFields();
  return feature.SerializeAsString();
}

}  // namespace

std::optional<Example> ReadExample(absl::string_view bytes) {
  Example example;
  std::deque<std::string> merged;
  bool ok = true;
  const bool read = ForEachFeature(
      bytes, &merged, [&example, &ok](absl::string_view name, absl::string_view message) {
        FeatureValues values;
        Feature feature;
        ok = ok && ReadFeature(message, &values) && FillFeature(values, &feature);
        (*example.mutable_features()->mutable_feature())[std::string(name)] = feature;
      });
  return read && ok ? std::optional<Example>(example) : std::nullopt;
}

std::optional<Example> ParseExample(absl::string_view bytes) {
  const google::protobuf::LogSilencer silencer;  // names that are not UTF-8
  Example example;
  if (!example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  return example;
}

bool SameExample(const Example& a, const Example& b) {
  const auto& features = a.features().feature();
  const auto& others = b.features().feature();
  if (features.size() != others.size()) return false;
  for (const auto& [name, feature] : features) {
    const auto other = others.find(name);
    if (other == others.end() || feature.kind_case() != other->second.kind_case() ||
        BytesOf(feature) != BytesOf(other->second)) {
      return false;
    }
  }
  return true;
}

Example ExampleOf(const RecordBatch& batch, int64_t row) {
  Example example;
  auto* const features = example.mutable_features()->mutable_feature();
  for (int i = 0; i < batch.num_columns(); ++i) {
    const ColumnView column = batch.column(i);
    if (column.IsNull(row)) continue;
    if (column.type().is_list()) {
      const ColumnView values = column.ListAt(row);
      (*features)[batch.schema().name(i)] = FeatureOf(values, 0, values.length());
    } else {
      (*features)[batch.schema().name(i)] = FeatureOf(column, row, row + 1);
    }
  }
  return example;
}

}  // namespace millrace
