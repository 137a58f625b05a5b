#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_matchers.h"
#include "feed/source/tfrecord/example.pb.h"
#include "feed/source/tfrecord/example_batch_builder.h"
#include "feed/source/tfrecord/example_encoder.h"
#include "feed/source/tfrecord/example_testing.h"
#include "feed/source/tfrecord/example_wire.h"
#include "feed/source/tfrecord/schema_sample.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.h"

namespace millrace {
namespace {

using example_testing::Example;
using example_testing::Feature;
using ::testing::HasSubstr;

using Random = std::mt19937_64;

// ---- examples -----------------------------------------------------------------------------------

int64_t RandomInteger(const Type& type, Random* random) {
  const int64_t any = static_cast<int64_t>((*random)() >> ((*random)() % 64));
  switch (type.id()) {
    case TypeId::kBool:
      return any & 1;
    case TypeId::kInt8:
      return static_cast<int8_t>(any);
    case TypeId::kInt16:
      return static_cast<int16_t>(any);
    case TypeId::kInt32:
      return static_cast<int32_t>(any);
    case TypeId::kUint8:
      return static_cast<uint8_t>(any);
    case TypeId::kUint16:
      return static_cast<uint16_t>(any);
    case TypeId::kUint32:
      return static_cast<uint32_t>(any);
    case TypeId::kUint64:
      return any & INT64_MAX;
    default:
      return any;
  }
}

void AddRandomValue(const Type& type, Random* random, Feature* feature) {
  static constexpr absl::string_view kWords[] = {"", "text", "\xc3\xbc\xe2\x82\xac",
                                                 "a longer text"};
  static constexpr absl::string_view kBytes[] = {"", "\xff", "\x80\x81"};
  if (type.is_variable()) {
    const absl::string_view value =
        type.is_utf8() ? kWords[(*random)() % 4] : kBytes[(*random)() % 3];
    feature->mutable_bytes_list()->add_value(value.data(), value.size());
  } else if (type.id() == TypeId::kFloat32 || type.id() == TypeId::kFloat64) {
    feature->mutable_float_list()->add_value(static_cast<float>(static_cast<int32_t>((*random)())) /
                                             1024);
  } else {
    feature->mutable_int64_list()->add_value(RandomInteger(type, random));
  }
}

void SetKind(const Type& type, Feature* feature) {
  if (type.is_variable()) {
    feature->mutable_bytes_list();
  } else if (type.id() == TypeId::kFloat32 || type.id() == TypeId::kFloat64) {
    feature->mutable_float_list();
  } else {
    feature->mutable_int64_list();
  }
}

// A row of the schema; sometimes a column is missing.
Example RandomExample(const Schema& schema, Random* random) {
  Example example;
  auto* const features = example.mutable_features()->mutable_feature();
  for (const Field& field : schema.fields()) {
    if ((*random)() % 5 == 0) continue;
    const Type& value = field.type.is_list() ? field.type.element().type : field.type;
    Feature& feature = (*features)[field.name];
    size_t count = 1;
    if (field.type.is_fixed_size_list()) count = static_cast<size_t>(field.type.list_size());
    if (field.type.is_variable_list()) count = (*random)() % 4;
    SetKind(value, &feature);
    for (size_t i = 0; i < count; ++i) AddRandomValue(value, random, &feature);
  }
  return example;
}

// As Protobuf writes it, in the same order every time.
std::string Serialize(const Example& example) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    EXPECT_TRUE(example.SerializeToCodedStream(&coded));
  }
  return bytes;
}

// Every type that a feature can be.
Schema EveryType() {
  SchemaBuilder builder;
  for (const Type& type :
       {Type::Bool(), Type::Int8(), Type::Int16(), Type::Int32(), Type::Int64(), Type::Uint8(),
        Type::Uint16(), Type::Uint32(), Type::Uint64(), Type::Float32(), Type::Float64(),
        Type::Utf8(), Type::LargeUtf8(), Type::Binary(), Type::LargeBinary()}) {
    const std::string name = type.ToString();
    builder.Add(name, type);
    builder.Add(absl::StrCat(name, " list"), Type::List(type));
    builder.Add(absl::StrCat(name, " large"), Type::LargeList(type));
    builder.Add(absl::StrCat(name, " fixed"), Type::FixedSizeList(type, 3));
  }
  return *builder.Build();
}

// Some of them.
Schema FewTypes(Random* random) {
  static const Schema every = EveryType();
  std::vector<Field> fields = every.fields();
  std::shuffle(fields.begin(), fields.end(), *random);
  fields.resize(4);
  return *Schema::FromFields(std::move(fields));
}

absl::StatusOr<RecordBatch> Read(const Schema& schema, const std::vector<std::string>& examples) {
  ExampleBatchBuilder builder(schema);
  for (const std::string& example : examples) {
    if (absl::Status status = builder.Add(example); !status.ok()) return status;
  }
  return builder.Finish();
}

// ---- as Protobuf has it -------------------------------------------------------------------------

TEST(ExampleTest, RowsOfEveryTypeAreThoseOfProtobufBothWays) {
  Random random(1);
  const Schema schema = EveryType();
  ExampleBatchBuilder builder(schema);
  ExampleEncoder encoder(schema);
  for (int round = 0; round < 8; ++round) {
    std::vector<Example> examples;
    for (int row = 0; row < 30; ++row) {
      examples.push_back(RandomExample(schema, &random));
      ASSERT_THAT(builder.Add(Serialize(examples.back())), IsOk());
    }
    const RecordBatch batch = builder.Finish();
    ASSERT_EQ(batch.num_rows(), 30);
    // What another reader of Arrow checks of it.
    ArrowArray array;
    batch.Export(&array);
    ASSERT_THAT(RecordBatch::FromArrowArray(schema, &array), IsOk());
    // In slices, which begin anywhere.
    for (int64_t first = 0; first < 30; first += 7) {
      const RecordBatch slice = batch.Slice(first, std::min<int64_t>(7, 30 - first));
      encoder.Begin(slice);
      for (int64_t row = 0; row < slice.num_rows(); ++row) {
        const Example& expected = examples[static_cast<size_t>(first + row)];
        EXPECT_TRUE(SameExample(ExampleOf(slice, row), expected));
        std::string bytes;
        ASSERT_THAT(encoder.Encode(row, &bytes), IsOk());
        const std::optional<Example> written = ParseExample(bytes);
        ASSERT_TRUE(written.has_value());
        EXPECT_TRUE(SameExample(*written, expected));
      }
    }
  }
}

// Writes messages in all the ways that Protobuf allows.
class OddWriter {
 public:
  explicit OddWriter(Random* random) : random_(*random) {}

  std::string Write(const Example& example) {
    std::string first, second;
    const auto& features = example.features().feature();
    // In the same order every time.
    for (const auto& [name, feature] :
         std::map<std::string, Feature>(features.begin(), features.end())) {
      std::string* const part = Sometimes() ? &first : &second;
      if (Sometimes()) Field(1, Entry(name, Decoy()), part);  // the next one counts
      Field(1, Entry(name, feature), part);
      Unknown(part);
    }
    std::string bytes;
    Unknown(&bytes);
    Field(1, first, &bytes);
    Unknown(&bytes);
    if (!second.empty()) Field(1, second, &bytes);
    return bytes;
  }

 private:
  bool Sometimes() { return random_() % 3 == 0; }

  static void Varint(uint64_t value, std::string* to) {
    while (value >= 0x80) {
      to->push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    to->push_back(static_cast<char>(value));
  }
  static void Tag(uint32_t field, WireCursor::WireType type, std::string* to) {
    Varint(WireCursor::Tag(field, type), to);
  }
  static void Field(uint32_t field, absl::string_view bytes, std::string* to) {
    Tag(field, WireCursor::kLength, to);
    Varint(bytes.size(), to);
    to->append(bytes.data(), bytes.size());
  }

  void Unknown(std::string* to) {
    if (!Sometimes()) return;
    const auto field = static_cast<uint32_t>(4 + random_() % 100000);
    switch (random_() % 5) {
      case 0:
        Tag(field, WireCursor::kVarint, to);
        return Varint(random_(), to);
      case 1:
        Tag(field, WireCursor::kFixed64, to);
        to->append(8, 'x');
        return;
      case 2:
        return Field(field, "unknown", to);
      case 3:
        Tag(field, WireCursor::kFixed32, to);
        to->append(4, 'y');
        return;
      default:
        Tag(field, WireCursor::kStartGroup, to);
        Unknown(to);
        return Tag(field, WireCursor::kEndGroup, to);
    }
  }

  static Feature Decoy() {
    Feature feature;
    feature.mutable_int64_list()->add_value(4711);
    return feature;
  }

  std::string Entry(absl::string_view name, const Feature& feature) {
    std::string bytes;
    const bool name_last = Sometimes();
    if (Sometimes()) Field(1, "another name", &bytes);
    if (!name_last) Field(1, name, &bytes);
    Unknown(&bytes);
    WriteFeature(feature, &bytes);
    if (name_last) Field(1, name, &bytes);
    return bytes;
  }

  // The value of an entry, in one message or in two.
  void WriteFeature(const Feature& feature, std::string* to) {
    std::string first, second;
    if (Sometimes()) first += Decoy().SerializeAsString();
    if (feature.kind_case() == Feature::kInt64List) first = "";  // they would be one list
    std::string* part = &first;
    const auto list = [&](uint32_t field, const auto& values, auto write) {
      std::string bytes;
      for (const auto& value : values) {
        write(value, &bytes);
        Unknown(&bytes);
        if (Sometimes()) {
          Field(field, bytes, part);
          bytes.clear();
          if (Sometimes()) part = &second;
        }
      }
      Field(field, bytes, part);
    };
    switch (feature.kind_case()) {
      case Feature::kBytesList:
        list(1, feature.bytes_list().value(),
             [](const std::string& value, std::string* bytes) { Field(1, value, bytes); });
        break;
      case Feature::kFloatList:
        list(2, feature.float_list().value(), [this](float value, std::string* bytes) {
          std::string raw(4, '\0');
          std::memcpy(raw.data(), &value, sizeof(value));
          if (Sometimes()) return Field(1, raw, bytes);
          Tag(1, WireCursor::kFixed32, bytes);
          *bytes += raw;
        });
        break;
      case Feature::kInt64List:
        list(3, feature.int64_list().value(), [this](int64_t value, std::string* bytes) {
          std::string raw;
          Varint(static_cast<uint64_t>(value), &raw);
          if (Sometimes()) return Field(1, raw, bytes);
          Tag(1, WireCursor::kVarint, bytes);
          *bytes += raw;
        });
        break;
      default:
        break;
    }
    Field(2, first, to);
    if (!second.empty()) Field(2, second, to);
  }

  Random& random_;
};

TEST(ExampleTest, WhatProtobufAllowsIsReadAsProtobufReadsIt) {
  Random random(2);
  for (int round = 0; round < 400; ++round) {
    const Schema schema = FewTypes(&random);
    const Example example = RandomExample(schema, &random);
    const std::string bytes = OddWriter(&random).Write(example);
    const std::optional<Example> parsed = ParseExample(bytes);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_TRUE(SameExample(*parsed, example));
    const std::optional<Example> ours = ReadExample(bytes);
    ASSERT_TRUE(ours.has_value());
    EXPECT_TRUE(SameExample(*ours, *parsed));
    const absl::StatusOr<RecordBatch> batch = Read(schema, {bytes});
    ASSERT_THAT(batch, IsOk());
    EXPECT_TRUE(SameExample(ExampleOf(*batch, 0), *parsed));
  }
}

TEST(ExampleTest, DamagedBytesAreReadAsProtobufReadsThemOrRefused) {
  Random random(3);
  int parsed = 0;
  for (int round = 0; round < 1500; ++round) {
    const Schema schema = FewTypes(&random);
    const Example example = RandomExample(schema, &random);
    std::string bytes = round % 2 == 0 ? Serialize(example) : OddWriter(&random).Write(example);
    if (bytes.empty()) continue;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    (void)Read(schema, {bytes});
    const std::optional<Example> protobufs = ParseExample(bytes);
    if (!protobufs.has_value()) continue;
    ++parsed;
    const std::optional<Example> ours = ReadExample(bytes);
    ASSERT_TRUE(ours.has_value()) << absl::BytesToHexString(bytes);
    EXPECT_TRUE(SameExample(*ours, *protobufs)) << absl::BytesToHexString(bytes);
  }
  EXPECT_GT(parsed, 150);
}

TEST(ExampleTest, APackedFieldOfNoNumbersIsAnEmptyList) {
  const std::string bytes("\x0a\x0b\x0a\x09\x0a\x01\x66\x12\x04\x1a\x02\x0a\x00", 13);
  const absl::StatusOr<RecordBatch> batch =
      Read(*SchemaBuilder().Add("f", Type::List(Type::Int64())).Build(), {bytes});
  ASSERT_THAT(batch, IsOk());
  EXPECT_FALSE(batch->column(0).IsNull(0));
  EXPECT_EQ(batch->column(0).ListAt(0).length(), 0);
}

TEST(ExampleTest, GroupsThatAreTooDeepAndNumbersThatAreTooLongAreRefused) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "\x23";  // the start of a group, field 4
  EXPECT_FALSE(ReadExample(deep).has_value());
  EXPECT_TRUE(ReadExample("\x0b\x0c").has_value());                // one that is skipped
  EXPECT_FALSE(ReadExample("\x0b\x14").has_value());               // and does not end
  EXPECT_FALSE(ReadExample(std::string("\x20", 1)).has_value());   // no number behind the tag
  EXPECT_FALSE(ReadExample(std::string(11, '\xff')).has_value());  // a tag without an end
  EXPECT_FALSE(ReadExample("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").has_value());
}

// ---- what does not fit --------------------------------------------------------------------------

Feature Integers(std::vector<int64_t> values) {
  Feature feature;
  feature.mutable_int64_list();
  for (const int64_t value : values) feature.mutable_int64_list()->add_value(value);
  return feature;
}

Feature Bytes(std::vector<std::string> values) {
  Feature feature;
  feature.mutable_bytes_list();
  for (const std::string& value : values) feature.mutable_bytes_list()->add_value(value);
  return feature;
}

Feature Floats(std::vector<float> values) {
  Feature feature;
  feature.mutable_float_list();
  for (const float value : values) feature.mutable_float_list()->add_value(value);
  return feature;
}

std::string ExampleWith(const std::vector<std::pair<std::string, Feature>>& features) {
  Example example;
  for (const auto& [name, feature] : features) {
    (*example.mutable_features()->mutable_feature())[name] = feature;
  }
  return Serialize(example);
}

TEST(ExampleTest, WhatDoesNotFitItsColumnIsNamed) {
  const auto message = [](const Type& type, const Feature& feature, bool nullable = true) {
    const Schema schema = *SchemaBuilder().Add("f", type, nullable).Build();
    const absl::Status status = Read(schema, {ExampleWith({{"f", feature}})}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message(Type::Int64(), Integers({1, 2})),
            "feature \"f\": has 2 values, the column is int64");
  EXPECT_EQ(message(Type::FixedSizeList(Type::Int8(), 3), Integers({1, 2})),
            "feature \"f\": has 2 values, the column is fixed_size_list<int8>[3]");
  EXPECT_EQ(message(Type::Int64(), Floats({1})), "feature \"f\": has floats, the column is int64");
  EXPECT_EQ(message(Type::Int8(), Integers({128})), "feature \"f\": has 128, the column is int8");
  EXPECT_EQ(message(Type::Uint64(), Integers({-1})), "feature \"f\": has -1, the column is uint64");
  EXPECT_EQ(message(Type::Bool(), Integers({2})), "feature \"f\": has 2, the column is bool");
  EXPECT_THAT(message(Type::Utf8(), Bytes({"\xff"})), HasSubstr("is not UTF-8"));
  EXPECT_THAT(message(Type::Int64(), Integers({}), /*nullable=*/false), HasSubstr("is missing"));
  EXPECT_THAT(message(Type::Int64(), Feature(), /*nullable=*/false), HasSubstr("is missing"));
  EXPECT_THAT(Read(*SchemaBuilder().Add("f", Type::Int64()).Build(), {"no example"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("option raw")));
}

TEST(ExampleTest, WhatIsMissingIsNullAndWhatIsEmptyIsAnEmptyList) {
  const Schema schema = *SchemaBuilder()
                             .Add("one", Type::Int64())
                             .Add("list", Type::List(Type::Utf8()))
                             .Add("fixed", Type::FixedSizeList(Type::Float32(), 2))
                             .Build();
  const absl::StatusOr<RecordBatch> batch =
      Read(schema, {ExampleWith({}), ExampleWith({{"one", Integers({})},
                                                  {"list", Bytes({})},
                                                  {"fixed", Floats({})},
                                                  {"other", Integers({1})}})});
  ASSERT_THAT(batch, IsOk());
  for (int column = 0; column < 3; ++column) EXPECT_TRUE(batch->column(column).IsNull(0));
  EXPECT_TRUE(batch->column(0).IsNull(1));
  EXPECT_FALSE(batch->column(1).IsNull(1));
  EXPECT_EQ(batch->column(1).ListAt(1).length(), 0);
  EXPECT_TRUE(batch->column(2).IsNull(1));
}

TEST(ExampleTest, ABatchKnowsNothingOfTheOneBefore) {
  ExampleBatchBuilder builder(*SchemaBuilder().Add("f", Type::Int64()).Build());
  ASSERT_THAT(builder.Add(ExampleWith({{"f", Integers({7})}})), IsOk());
  EXPECT_EQ(builder.Finish().column(0).values<int64_t>()[0], 7);
  ASSERT_THAT(builder.Add(ExampleWith({})), IsOk());
  EXPECT_TRUE(builder.Finish().column(0).IsNull(0));
  EXPECT_EQ(builder.Finish().num_rows(), 0);
}

TEST(ExampleTest, ColumnsThatNoFeatureIsAreRefused) {
  for (const Type& type :
       {Type::Float16(), Type::Date32(), Type::Timestamp(TimeUnit::kMicro),
        Type::List(Type::List(Type::Int64())), Type::Struct({{"x", Type::Int64()}})}) {
    EXPECT_THAT(CheckFeatureColumns(*SchemaBuilder().Add("bad", type).Build()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("column \"bad\": a feature of tensorflow.Example "
                                                "holds no ",
                                                type.ToString()))));
  }
  EXPECT_THAT(CheckFeatureColumns(Schema()), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ExampleTest, WhatAnExampleCannotHoldIsNotWritten) {
  const auto encode = [](const RecordBatch& batch) {
    ExampleEncoder encoder(batch.schema());
    encoder.Begin(batch);
    std::string bytes;
    return encoder.Encode(0, &bytes);
  };
  const RecordBatch large =
      *BatchBuilder().AddColumn("big", std::vector<uint64_t>{uint64_t{1} << 63}).Build();
  EXPECT_THAT(encode(large), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("column \"big\" has a uint64 of 2^63")));
  const bool valid[] = {true, false};
  const RecordBatch items =
      *BatchBuilder().AddColumn("item", std::vector<int64_t>{1, 2}, valid).Build();
  const RecordBatch list = *BatchBuilder().AddList("tags", std::vector<int64_t>{2}, items).Build();
  EXPECT_THAT(encode(list), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("column \"tags\" has a null within a list")));
}

// ---- the schema of a sample ---------------------------------------------------------------------

absl::StatusOr<Schema> Sample(const std::vector<std::string>& examples,
                              const std::vector<std::string>& binary_features = {}) {
  SchemaSample sample;
  for (const std::string& example : examples) {
    if (absl::Status status = sample.Add(example); !status.ok()) return status;
  }
  return sample.Infer(binary_features);
}

TEST(SchemaSampleTest, OneValueInEveryRecordIsAValueAndAllElseAList) {
  const absl::StatusOr<Schema> schema =
      Sample({ExampleWith({{"b", Bytes({"x"})}, {"a", Integers({1})}, {"c", Floats({1})}}),
              ExampleWith({{"a", Integers({2})}, {"c", Floats({})}, {"d", Bytes({"x", "y"})}})});
  ASSERT_THAT(schema, IsOk());
  EXPECT_EQ(schema->ToString(), "a: int64, b: utf8, c: list<float32>, d: list<utf8>");
}

TEST(SchemaSampleTest, BytesAreBinaryIfTheyAreNamedOrNotText) {
  const std::string example = ExampleWith({{"image", Bytes({"text"})},
                                           {"jpeg", Bytes({"\xff\xd8"})},
                                           {"name", Bytes({"n", "\xc3\xbc"})}});
  const absl::StatusOr<Schema> schema = Sample({example}, {"image", "nowhere"});
  ASSERT_THAT(schema, IsOk());
  EXPECT_EQ(schema->ToString(), "image: binary, jpeg: binary, name: list<utf8>");
}

TEST(SchemaSampleTest, WhatTellsNoSchemaIsSaid) {
  EXPECT_THAT(Sample({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no record")));
  EXPECT_THAT(Sample({ExampleWith({})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no record has a feature")));
  EXPECT_THAT(Sample({ExampleWith({{"f", Feature()}})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"f\" is empty")));
  EXPECT_THAT(Sample({ExampleWith({{"f", Integers({1})}}), ExampleWith({{"f", Floats({1})}})}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("feature \"f\" has floats, in earlier records integers")));
  EXPECT_THAT(Sample({"no example"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
