// Bytes that nobody has checked: the golden file's examples, every truncation, huge numbers, and
// random damage. Whatever comes, the outcome is a Status or a batch that can be read; sanitizers
// watch that nothing else happens.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "feed/arrow/record_batch_testing.h"
#include "feed/ipc/ipc.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

namespace millrace {
namespace {

// A frame's metadata and body, each in memory of exactly its size, so that ASan sees every byte
// read behind it.
struct Bytes {
  std::string metadata;
  std::vector<std::string> parts;
};

BodyPart ToPart(absl::string_view bytes) {
  std::shared_ptr<uint8_t[]> memory(new uint8_t[bytes.size()]);
  if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  const uint8_t* data = memory.get();
  return {data, bytes.size(), std::move(memory)};
}

absl::StatusOr<RecordBatch> Decode(const Schema& schema, const Bytes& bytes, uint32_t rows) {
  const BodyPart metadata = ToPart(bytes.metadata);
  std::vector<BodyPart> parts;
  for (const std::string& part : bytes.parts) parts.push_back(ToPart(part));
  return BatchDecoder(schema).Decode({reinterpret_cast<const char*>(metadata.data), metadata.size},
                                     rows, std::move(parts));
}

// Reads every value of a batch that was accepted.
uint64_t Touch(const RecordBatch& batch) {
  absl::StatusOr<RecordBatch> copy = RecordBatch::Concat(std::vector<RecordBatch>{batch, batch});
  EXPECT_THAT(copy, IsOk());
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  EXPECT_THAT(encoded, IsOk());
  uint64_t sum = 0;
  for (const BodyPart& part : encoded->parts) {
    for (size_t i = 0; i < part.size; ++i) sum += part.data[i];
  }
  return sum;
}

Bytes EncodeToBytes(const RecordBatch& batch) {
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  EXPECT_THAT(encoded, IsOk());
  Bytes bytes{encoded->metadata, {}};
  for (const BodyPart& part : encoded->parts) {
    bytes.parts.emplace_back(reinterpret_cast<const char*>(part.data), part.size);
  }
  return bytes;
}

// --- The golden file
// ------------------------------------------------------------------------------

constexpr uint8_t kSchemaType = 2, kBatchType = 3, kResultType = 19;

struct GoldenFrame {
  std::string name;
  std::string schema;   // which a batch belongs to
  std::string outcome;  // of a malformed frame
  uint8_t type = 0;
  std::vector<std::string> parts;
};

std::vector<GoldenFrame> GoldenFrames(const char* member) {
  absl::StatusOr<std::string> text = ReadFile("testing/golden/feed_frames.json");
  EXPECT_THAT(text, IsOk());
  absl::StatusOr<Json> json = ParseJson(*text);
  EXPECT_THAT(json, IsOk());
  std::vector<GoldenFrame> frames;
  for (const Json& entry : *GetArray(*json, member).value()) {
    GoldenFrame frame;
    frame.name = *GetString(entry, "name");
    frame.schema = *GetStringOr(entry, "schema", "");
    frame.outcome = *GetStringOr(entry, "outcome", "");
    const std::vector<std::string> parts = *GetStringList(entry, "parts");
    for (const std::string& hex : parts) frame.parts.push_back(absl::HexStringToBytes(hex));
    if (frame.parts.empty() || frame.parts[0].size() != 32) continue;  // not about this layer
    frame.type = static_cast<uint8_t>(frame.parts[0][5]);
    frames.push_back(std::move(frame));
  }
  EXPECT_FALSE(frames.empty());
  return frames;
}

std::string Metadata(const GoldenFrame& frame) {
  return frame.parts.size() > 1 ? frame.parts[1] : "";
}

const GoldenFrame& GoldenSchemaFrame(absl::string_view name) {
  static const auto* const frames = new std::vector<GoldenFrame>(GoldenFrames("frames"));
  for (const GoldenFrame& frame : *frames) {
    if (frame.name == absl::StrCat("schema_", name)) return frame;
  }
  ADD_FAILURE() << "no schema " << name;
  return frames->front();
}

absl::StatusOr<Schema> GoldenSchema(absl::string_view name) {
  return DecodeSchema(Metadata(GoldenSchemaFrame(name)));
}

// Section 3: first_row u64, rows u32, zero u32, message. The first 16 bytes are the frame layer's.
absl::StatusOr<RecordBatch> DecodeGolden(const Schema& schema, const GoldenFrame& frame) {
  const std::string metadata = Metadata(frame);
  if (metadata.size() < 16) return absl::InvalidArgumentError("metadata size");
  uint32_t rows;
  uint32_t zero;
  std::memcpy(&rows, metadata.data() + 8, 4);
  std::memcpy(&zero, metadata.data() + 12, 4);
  if (zero != 0) return absl::InvalidArgumentError("reserved");
  Bytes bytes{metadata.substr(16), {}};
  if (frame.parts.size() > 2) bytes.parts.assign(frame.parts.begin() + 2, frame.parts.end());
  return Decode(schema, bytes, rows);
}

TEST(IpcGoldenTest, ReadsEveryExampleAndWritesItBack) {
  int batches = 0;
  for (const GoldenFrame& frame : GoldenFrames("frames")) {
    SCOPED_TRACE(frame.name);
    if (frame.type == kSchemaType) {
      absl::StatusOr<Schema> schema = DecodeSchema(Metadata(frame));
      ASSERT_THAT(schema, IsOk());
      EXPECT_THAT(DecodeSchema(*EncodeSchema(*schema)), IsOkAndHolds(*schema));
    }
    if (frame.type == kBatchType || frame.type == kResultType) {
      absl::StatusOr<Schema> schema = GoldenSchema(frame.schema);
      ASSERT_THAT(schema, IsOk());
      absl::StatusOr<RecordBatch> batch = DecodeGolden(*schema, frame);
      ASSERT_THAT(batch, IsOk());
      absl::StatusOr<RecordBatch> back =
          Decode(*schema, EncodeToBytes(*batch), static_cast<uint32_t>(batch->num_rows()));
      ASSERT_THAT(back, IsOk());
      EXPECT_TRUE(back->Equals(*batch));
      ++batches;
    }
  }
  EXPECT_GE(batches, 15);
}

TEST(IpcGoldenTest, ReadsTheValuesOfTheTrainingExample) {
  absl::StatusOr<Schema> schema = GoldenSchema("training");
  ASSERT_THAT(schema, IsOk());
  const bool third[] = {true, true, false, true};
  absl::StatusOr<RecordBatch> expected =
      BatchBuilder()
          .AddColumn("id", std::vector<int64_t>{10, 11, 12, 13})
          .AddBools("label", {true, false, false, true}, third)
          .AddStrings("name", std::vector<std::string>{"a", "bc", "", "def"}, third)
          .Build();
  ASSERT_THAT(expected, IsOk());
  for (const GoldenFrame& frame : GoldenFrames("frames")) {
    if (!absl::StartsWith(frame.name, "batch_training")) continue;
    absl::StatusOr<RecordBatch> batch = DecodeGolden(*schema, frame);
    ASSERT_THAT(batch, IsOk());
    EXPECT_TRUE(batch->Equals(*expected)) << frame.name;
  }
}

TEST(IpcGoldenTest, ReadsTheValuesOfTheNestedExamples) {
  std::map<std::string, RecordBatch> batches;
  for (const GoldenFrame& frame : GoldenFrames("frames")) {
    if (frame.type != kBatchType) continue;
    absl::StatusOr<RecordBatch> batch = DecodeGolden(*GoldenSchema(frame.schema), frame);
    ASSERT_THAT(batch, IsOk());
    batches[frame.name] = *batch;
  }
  EXPECT_EQ(batches["batch_moments"].schema().ToString(),
            "date32: date32, date64: date64, s: timestamp[s], ms: timestamp[ms, UTC], us: "
            "timestamp[us, Europe/Berlin], ns: timestamp[ns, +05:30]");
  EXPECT_EQ(batches["batch_moments"].column(0).values<Date32>()[3], Date32{2932896});
  EXPECT_EQ(batches["batch_moments"].column(5).values<Timestamp>()[3].value, int64_t{1} << 53);
  EXPECT_EQ(batches["batch_structs"].schema().ToString(),
            "point: struct<x: float64 not null, tags: list<utf8>>, pair: struct<left: struct<n: "
            "int8>, right: bool>");
  const ColumnView tags = batches["batch_structs"].column(0).Child(1);
  EXPECT_EQ(tags.ListAt(0).BytesAt(2), "bc");
  EXPECT_TRUE(tags.ListAt(0).IsNull(1));
  EXPECT_TRUE(tags.IsNull(1));
  EXPECT_EQ(tags.ListAt(2).length(), 0);
  EXPECT_TRUE(batches["batch_structs"].column(1).IsNull(1));
  const RecordBatch& nested = batches["batch_nested"];
  EXPECT_EQ(nested.column(0).Elements().Elements().values<float>()[7], 8.0f);
  EXPECT_EQ(nested.column(2).ListAt(2).ListAt(1).values<int32_t>()[1], 3);
  EXPECT_EQ(nested.column(4).ListAt(2).Child(1).BytesAt(0), "\xff");
  EXPECT_TRUE(nested.Equals(batches["batch_nested_in_parts"]));
}

TEST(IpcGoldenTest, RefusesEveryMalformedExample) {
  int refused = 0;
  int unsupported = 0;
  for (const GoldenFrame& frame : GoldenFrames("malformed")) {
    SCOPED_TRACE(frame.name);
    if (frame.type == kSchemaType && absl::StartsWith(frame.name, "schema_")) {
      if (frame.outcome == "unsupported") {
        EXPECT_THAT(DecodeSchema(Metadata(frame)), StatusIs(absl::StatusCode::kUnimplemented));
        ++unsupported;
        continue;
      }
      EXPECT_THAT(DecodeSchema(Metadata(frame)), StatusIs(absl::StatusCode::kInvalidArgument));
      ++refused;
    }
    if (frame.type == kBatchType) {
      absl::StatusOr<Schema> schema = GoldenSchema(frame.schema);
      ASSERT_THAT(schema, IsOk());
      EXPECT_THAT(DecodeGolden(*schema, frame), StatusIs(absl::StatusCode::kInvalidArgument));
      ++refused;
    }
  }
  EXPECT_GE(refused, 130);
  EXPECT_GE(unsupported, 15);
}

// --- Numbers
// --------------------------------------------------------------------------------------

// Sets eight bytes of the metadata.
Bytes WithNumber(Bytes bytes, size_t at, int64_t value) {
  std::memcpy(bytes.metadata.data() + at, &value, sizeof(value));
  return bytes;
}

class IpcHostileNumbersTest : public testing::TestWithParam<RecordBatch> {};

TEST_P(IpcHostileNumbersTest, NoneOfTheMetadataIsBelieved) {
  const RecordBatch& batch = GetParam();
  const Bytes good = EncodeToBytes(batch);
  ASSERT_THAT(Decode(batch.schema(), good, 20), IsOk());
  const int64_t kNumbers[] = {-1,
                              -8,
                              INT64_MIN,
                              INT64_MAX,
                              INT64_MAX - 7,
                              int64_t{1} << 31,
                              (int64_t{1} << 31) - 1,
                              int64_t{1} << 32,
                              int64_t{1} << 60,
                              int64_t{1} << 61,
                              (int64_t{1} << 61) + 1,
                              int64_t{1} << 62};
  int accepted = 0;
  for (size_t at = 0; at + 8 <= good.metadata.size(); at += 4) {
    for (int64_t number : kNumbers) {
      absl::StatusOr<RecordBatch> result = Decode(batch.schema(), WithNumber(good, at, number), 20);
      if (result.ok()) {
        ++accepted;  // padding
        Touch(*result);
      } else {
        EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument));
      }
    }
  }
  EXPECT_LT(accepted, 100);
}

INSTANTIATE_TEST_SUITE_P(FlatAndNested, IpcHostileNumbersTest,
                         testing::Values(RandomBatch(20, Nulls::kSome, 1),
                                         RandomNestedBatch(20, Nulls::kSome, 1)));

TEST(IpcHostileTest, RowsOfTheFrameMustBeThoseOfTheMessage) {
  const RecordBatch batch = RandomBatch(20, Nulls::kNone, 2);
  const Bytes good = EncodeToBytes(batch);
  for (uint32_t rows : {0u, 1u, 19u, 21u, 1u << 31, ~0u}) {
    EXPECT_THAT(Decode(batch.schema(), good, rows), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(IpcHostileTest, EveryTruncationIsRefused) {
  for (const RecordBatch& batch :
       {RandomBatch(9, Nulls::kSome, 3), RandomNestedBatch(9, Nulls::kSome, 3)}) {
    const Bytes good = EncodeToBytes(batch);
    for (size_t size = 0; size < good.metadata.size(); ++size) {
      Bytes cut = good;
      cut.metadata.resize(size);
      EXPECT_THAT(Decode(batch.schema(), cut, 9), StatusIs(absl::StatusCode::kInvalidArgument));
    }
    ASSERT_EQ(good.parts.size(), 1u);
    // Without its padding the part is still whole.
    for (size_t size = 0; size + 8 < good.parts[0].size(); ++size) {
      Bytes cut = good;
      cut.parts[0].resize(size);
      EXPECT_THAT(Decode(batch.schema(), cut, 9), StatusIs(absl::StatusCode::kInvalidArgument));
    }
    const std::string schema = *EncodeSchema(batch.schema());
    for (size_t size = 0; size < schema.size(); ++size) {
      EXPECT_THAT(DecodeSchema(schema.substr(0, size)),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
}

TEST(IpcHostileTest, AnotherSchemaIsRefused) {
  const RecordBatch batch = RandomBatch(9, Nulls::kSome, 4);
  const Schema narrow = *SchemaBuilder().Add("x", Type::Int8()).Build();
  EXPECT_THAT(Decode(narrow, EncodeToBytes(batch), 9),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const RecordBatch few = *BatchBuilder().AddColumn("x", std::vector<int8_t>(9)).Build();
  EXPECT_THAT(Decode(batch.schema(), EncodeToBytes(few), 9),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// --- Damage
// ---------------------------------------------------------------------------------------

// Changes one to eight places: single bits, bytes, or small and huge integers.
void Damage(std::string* bytes, std::mt19937_64* random) {
  if (bytes->empty()) return;
  for (uint64_t n = 1 + (*random)() % 8; n > 0; --n) {
    const size_t at = (*random)() % bytes->size();
    switch ((*random)() % 4) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << ((*random)() % 8)));
        break;
      case 1:
        (*bytes)[at] = static_cast<char>((*random)());
        break;
      default: {
        int64_t value = static_cast<int64_t>((*random)() % 64) - 8;
        if ((*random)() % 2 == 0) value = int64_t{1} << ((*random)() % 63);
        const size_t width = (*random)() % 2 == 0 ? 4 : 8;
        std::memcpy(bytes->data() + at, &value, std::min(width, bytes->size() - at));
      }
    }
  }
}

TEST(IpcHostileTest, RandomDamageToBatchesDoesNoHarm) {
  std::mt19937_64 random(5);
  int accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    const uint32_t rows = 1 + i % 17;
    const Nulls nulls = i % 2 == 0 ? Nulls::kSome : Nulls::kNone;
    const RecordBatch batch = i % 5 < 2 ? RandomBatch(rows, nulls, static_cast<uint64_t>(i % 50))
                                        : RandomNestedBatch(rows, nulls, static_cast<uint64_t>(i));
    Bytes bytes = EncodeToBytes(batch);
    if (i % 3 != 0) Damage(&bytes.metadata, &random);
    if (i % 3 != 1) Damage(&bytes.parts[0], &random);
    absl::StatusOr<RecordBatch> result = Decode(batch.schema(), bytes, rows);
    if (result.ok()) {
      ++accepted;
      Touch(*result);
    } else {
      ASSERT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
  EXPECT_GT(accepted, 0);  // damage to values only
}

TEST(IpcHostileTest, RandomDamageToSchemasDoesNoHarm) {
  std::mt19937_64 random(6);
  std::string good[40];
  for (size_t i = 0; i < std::size(good); ++i) {
    good[i] = *EncodeSchema(i == 0 ? RandomBatch(1, Nulls::kNone, 0).schema()
                                   : RandomNestedBatch(1, Nulls::kNone, i).schema());
  }
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good[i % std::size(good)];
    Damage(&bytes, &random);
    const BodyPart exact = ToPart(bytes);
    absl::StatusOr<Schema> schema =
        DecodeSchema({reinterpret_cast<const char*>(exact.data), exact.size});
    if (!schema.ok() && !absl::IsUnimplemented(schema.status())) {
      ASSERT_THAT(schema, StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
}

TEST(IpcHostileTest, RandomBytesAreRefused) {
  const Schema schema = RandomBatch(1, Nulls::kNone, 0).schema();
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= 8 && i % 2 == 0) {  // past the envelope
      const uint32_t prefix[2] = {0xFFFFFFFF, static_cast<uint32_t>(bytes.size() - 8)};
      std::memcpy(bytes.data(), prefix, sizeof(prefix));
    }
    EXPECT_THAT(Decode(schema, {bytes, {bytes}}, 1), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(DecodeSchema(bytes), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

// --- Amplification
// --------------------------------------------------------------------------------

// A Schema message whose columns vector refers `count` times to one field.
TEST(IpcHostileTest, OneFieldUsedManyTimesIsRefused) {
  const std::string one = *EncodeSchema(*SchemaBuilder().Add("x", Type::Int8()).Build());
  std::string body = one.substr(8);
  // Where the columns vector (of one element) is: Message's header table, its slot 1.
  const auto u32 = [&body](size_t at) {
    uint32_t value;
    std::memcpy(&value, body.data() + at, 4);
    return value;
  };
  const auto u16 = [&body](size_t at) {
    uint16_t value;
    std::memcpy(&value, body.data() + at, 2);
    return value;
  };
  const auto slot = [&](size_t table, size_t i) {
    const size_t vtable = table - static_cast<size_t>(static_cast<int32_t>(u32(table)));
    return table + u16(vtable + 4 + 2 * i);
  };
  const size_t message = u32(0);
  const size_t header_slot = slot(message, 2);
  const size_t schema = header_slot + u32(header_slot);
  const size_t fields_slot = slot(schema, 1);
  const size_t vector = fields_slot + u32(fields_slot);
  ASSERT_EQ(u32(vector), 1u);
  const size_t field = vector + 4 + u32(vector + 4);
  const uint32_t count = 60000;
  std::string rewritten = body.substr(0, vector);
  rewritten.append(reinterpret_cast<const char*>(&count), 4);
  const size_t shift = 4 * (count - 1);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t offset = static_cast<uint32_t>(field + shift - (vector + 4 + 4 * i));
    rewritten.append(reinterpret_cast<const char*>(&offset), 4);
  }
  rewritten += body.substr(vector + 8);
  std::string bytes = one.substr(0, 4);
  const uint32_t length = static_cast<uint32_t>(rewritten.size());
  bytes.append(reinterpret_cast<const char*>(&length), 4);
  bytes += rewritten;
  EXPECT_THAT(DecodeSchema(bytes), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(IpcHostileTest, BuffersDoNotShareBytes) {
  constexpr int kColumns = 2000;
  constexpr uint32_t kRows = 20000;
  SchemaBuilder builder;
  for (int i = 0; i < kColumns; ++i) builder.Add(std::to_string(i), Type::Int64());
  const Schema wide = *builder.Build();
  const RecordBatch one = *BatchBuilder().AddColumn("0", std::vector<int64_t>(kRows, 1)).Build();
  const std::string metadata = EncodeToBytes(one).metadata;
  // The same two buffers for every column: kColumns * 160 KB where rows are joined or sent on.
  std::string message = metadata.substr(8, 68);
  const auto append = [&message](auto value) {
    message.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(uint32_t{kColumns});
  for (int i = 0; i < kColumns; ++i) message += metadata.substr(8 + 72, 16);
  append(uint32_t{0});
  append(uint32_t{2 * kColumns});
  for (int i = 0; i < kColumns; ++i) message += metadata.substr(8 + 72 + 16 + 8, 32);
  const uint32_t buffers = static_cast<uint32_t>(76 + 16 * kColumns - 64);
  std::memcpy(message.data() + 64, &buffers, 4);
  std::string envelope = metadata.substr(0, 4);
  const uint32_t length = static_cast<uint32_t>(message.size());
  envelope.append(reinterpret_cast<const char*>(&length), 4);
  envelope += message;

  auto memory = std::make_shared<std::vector<uint8_t>>(kRows * 8 + 1);
  absl::StatusOr<RecordBatch> batch =
      BatchDecoder(wide).Decode(envelope, kRows, {{memory->data() + 1, kRows * 8, memory}});
  EXPECT_THAT(batch, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(batch.status().message()), testing::HasSubstr("overlap"));
}

}  // namespace
}  // namespace millrace
