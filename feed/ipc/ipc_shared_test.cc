// Batches whose bytes another process may change after they were checked.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_matchers.h"
#include "feed/arrow/record_batch_testing.h"
#include "feed/ipc/ipc.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/column.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

// A batch in memory that this test writes to, as a feeder could.
struct Shared {
  std::shared_ptr<std::vector<uint64_t>> body;
  absl::StatusOr<RecordBatch> decoded;
};

Shared DecodeShared(const RecordBatch& batch) {
  const EncodedBatch encoded = *EncodeBatch(batch);
  size_t size = 0;
  for (const BodyPart& part : encoded.parts) size = ((size + 7) & ~size_t{7}) + part.size;
  auto body = std::make_shared<std::vector<uint64_t>>(size / 8 + 1);
  auto* const bytes = reinterpret_cast<uint8_t*>(body->data());
  size_t at = 0;
  for (const BodyPart& part : encoded.parts) {
    at = (at + 7) & ~size_t{7};
    std::memcpy(bytes + at, part.data, part.size);
    at += part.size;
  }
  absl::StatusOr<RecordBatch> decoded =
      BatchDecoder(batch.schema())
          .Decode(encoded.metadata, static_cast<uint32_t>(batch.num_rows()),
                  {{.data = bytes, .size = size, .owner = body, .shared = true}});
  return {std::move(body), std::move(decoded)};
}

std::vector<RecordBatch> Samples() {
  std::vector<RecordBatch> samples;
  for (const Nulls nulls : {Nulls::kNone, Nulls::kSome, Nulls::kAll}) {
    samples.push_back(RandomBatch(200, nulls, 1));
    for (uint64_t seed = 0; seed < 10; ++seed) {
      samples.push_back(RandomNestedBatch(200, nulls, seed));
    }
  }
  return samples;
}

// Lengths of the lists and texts of every row, and which of them are null, all levels down.
void DescribeShape(const ColumnView& column, std::string* out) {
  for (int64_t row = 0; row < column.length(); ++row) {
    out->push_back(column.IsNull(row) ? 'n' : '.');
    if (column.type().is_variable() || column.type().is_variable_list()) {
      out->append(std::to_string(column.OffsetAt(row + 1) - column.OffsetAt(row))).push_back(' ');
    }
  }
  if (column.type().is_list()) {
    DescribeShape(column.Elements(), out);
  } else if (column.type().is_struct()) {
    for (size_t i = 0; i < column.type().children().size(); ++i) {
      DescribeShape(column.Child(i), out);
    }
  }
}

std::string ShapeOf(const RecordBatch& batch) {
  std::string out;
  for (int i = 0; i < batch.num_columns(); ++i) DescribeShape(batch.column(i), &out);
  return out;
}

TEST(IpcSharedTest, SharedBodiesDecodeAsOthersDo) {
  for (const RecordBatch& batch : Samples()) {
    const Shared shared = DecodeShared(batch);
    ASSERT_THAT(shared.decoded, IsOk());
    EXPECT_TRUE(shared.decoded->Equals(batch));
  }
}

// Whatever a feeder writes there later, every row lies where it was found to lie: with the
// sanitizer also that nothing else is read.
TEST(IpcSharedTest, WhatSaysWhereThingsLieStaysAsItWasChecked) {
  for (const RecordBatch& batch : Samples()) {
    for (const int fill : {0xff, 0x7f, 0x00, 0x55}) {
      const Shared shared = DecodeShared(batch);
      ASSERT_THAT(shared.decoded, IsOk());
      const std::string before = ShapeOf(*shared.decoded);
      std::memset(shared.body->data(), fill, shared.body->size() * 8);
      EXPECT_EQ(ShapeOf(*shared.decoded), before);
      EXPECT_THAT(EncodeBatch(*shared.decoded), IsOk()) << "reads all of it";
    }
  }
}

}  // namespace
}  // namespace millrace
