#include "testing/bench/feed_shapes.h"

#include <cstddef>
#include <span>
#include <utility>

#include "millrace/batch_builder.h"

namespace millrace::bench {
namespace {

constexpr char kColumn[] = "x";
constexpr size_t kBinaryBytes = 3072;

RecordBatch MakeInts(int64_t rows) {
  std::vector<int64_t> values(static_cast<size_t>(rows));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  return *BatchBuilder().AddColumn(kColumn, std::move(values)).Build();
}

template <int kWidth>
RecordBatch MakeFloats(int64_t rows) {
  std::vector<float> values(static_cast<size_t>(rows) * kWidth);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 256);
  return *BatchBuilder().AddFixedSizeList(kColumn, std::move(values), kWidth).Build();
}

RecordBatch MakeBinary(int64_t rows) {
  const std::vector<std::string> values(static_cast<size_t>(rows), std::string(kBinaryBytes, 'b'));
  return *BatchBuilder().AddBinary(kColumn, values).Build();
}

double TouchInts(const Batch& batch) {
  const std::span<const int64_t> values = batch.column<int64_t>(kColumn);
  return static_cast<double>(values.front() + values.back());
}

double TouchFloats(const Batch& batch) {
  const std::span<const float> values = batch.column<float>(kColumn);
  return values.front() + values.back();
}

double TouchBinary(const Batch& batch) {
  const StringColumn values = batch.strings(kColumn);
  return values[0][0] + values[values.size() - 1][kBinaryBytes - 1];
}

}  // namespace

const std::vector<FeedShape>& AllFeedShapes() {
  static const auto* const shapes = new std::vector<FeedShape>{
      {"i64", 8, &MakeInts, &TouchInts},
      {"f32x64", 256, &MakeFloats<64>, &TouchFloats},
      {"f32x784", 3136, &MakeFloats<784>, &TouchFloats},
      {"bin3k", kBinaryBytes + 4, &MakeBinary, &TouchBinary},
  };
  return *shapes;
}

const FeedShape* FindFeedShape(absl::string_view name) {
  for (const FeedShape& shape : AllFeedShapes()) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

}  // namespace millrace::bench
