// A tensorflow.Example. What Protobuf reads we read, with the same result; what becomes a row
// becomes the same row again.
//
//   byte 0   bits 0-2: the type of the columns a and b; bit 3: they are lists; bit 4: of two values
//   the rest is the Example

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/ipc/ipc.h"
#include "feed/source/tfrecord/example.pb.h"
#include "feed/source/tfrecord/example_batch_builder.h"
#include "feed/source/tfrecord/example_encoder.h"
#include "feed/source/tfrecord/example_testing.h"
#include "feed/source/tfrecord/schema_sample.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

using example_testing::Example;

Schema SchemaOf(uint8_t flags) {
  const std::array<Type, 8> types = {Type::Bool(),   Type::Int8(),       Type::Int64(),
                                     Type::Uint64(), Type::Float32(),    Type::Float64(),
                                     Type::Utf8(),   Type::LargeBinary()};
  Type type = types[flags & 7];
  if ((flags & 16) != 0) {
    type = Type::FixedSizeList(type, 2);
  } else if ((flags & 8) != 0) {
    type = Type::List(type);
  }
  const absl::StatusOr<Schema> schema = SchemaBuilder().Add("a", type).Add("b", type).Build();
  FUZZ_CHECK(schema.ok());
  return *schema;
}

std::optional<RecordBatch> Read(const Schema& schema, absl::string_view example) {
  ExampleBatchBuilder builder(schema);
  if (!builder.Add(example).ok()) return std::nullopt;
  const RecordBatch batch = builder.Finish();
  FUZZ_CHECK(batch.num_rows() == 1);
  FUZZ_CHECK(EncodeBatch(batch).ok());
  return batch;
}

void ReadAndWrite(const Schema& schema, absl::string_view example) {
  const std::optional<RecordBatch> batch = Read(schema, example);
  if (!batch.has_value()) return;
  ExampleEncoder encoder(schema);
  encoder.Begin(*batch);
  std::string written;
  FUZZ_CHECK(encoder.Encode(0, &written).ok());
  const std::optional<Example> protobufs = ParseExample(written);
  FUZZ_CHECK(protobufs.has_value());
  FUZZ_CHECK(SameExample(*protobufs, ExampleOf(*batch, 0)));
  const std::optional<RecordBatch> again = Read(schema, written);
  FUZZ_CHECK(again.has_value());
  // Equals() compares numbers, of which NaN is none.
  FUZZ_CHECK(SameExample(ExampleOf(*again, 0), *protobufs));
}

}  // namespace

void Fuzz(absl::string_view input) {
  if (input.empty()) return;
  const absl::string_view example = input.substr(1);
  if (const std::optional<Example> protobufs = ParseExample(example)) {
    const std::optional<Example> ours = ReadExample(example);
    FUZZ_CHECK(ours.has_value());
    FUZZ_CHECK(SameExample(*ours, *protobufs));
  }
  ReadAndWrite(SchemaOf(static_cast<uint8_t>(input[0])), example);
  SchemaSample sample;
  if (!sample.Add(example).ok()) return;
  const absl::StatusOr<Schema> schema = sample.Infer({});
  if (schema.ok()) ReadAndWrite(*schema, example);
}

}  // namespace millrace
