// Writes the seeds of the corpora: one folder per target below the folder that is the argument.
//
//   make_seeds testing/fuzz/corpus
//
// Frames and malformed frames come from testing/golden/feed_frames.json, batches are made here: of
// many types, and with each number of their metadata replaced by lengths whose products overflow.
// Equal on every machine. What libFuzzer finds lies beside the seeds and is left alone.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "feed/arrow/record_batch_testing.h"
#include "feed/ipc/ipc.h"
#include "feed/source/tfrecord/example_encoder.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/tf_record.h"
#include "millrace/types.h"

namespace millrace {
namespace {

constexpr size_t kMaxSeedBytes = 4096;
constexpr int64_t kHugeLengths[] = {int64_t{1} << 60, int64_t{1} << 61, (int64_t{1} << 61) + 1};

class Seeds {
 public:
  explicit Seeds(std::string folder) : folder_(std::move(folder)) {}

  void Add(absl::string_view target, absl::string_view name, absl::string_view bytes) {
    if (bytes.size() > kMaxSeedBytes) return;  // mutations of short inputs find more
    const std::string folder = JoinPath(folder_, target);
    std::filesystem::create_directories(folder);
    const absl::Status written =
        WriteFileAtomic(JoinPath(folder, absl::StrCat("seed_", name)), bytes);
    MILLRACE_CHECK(written.ok()) << written;
    ++count_;
  }

  [[nodiscard]] int count() const { return count_; }

 private:
  const std::string folder_;
  int count_ = 0;
};

std::string Sized(absl::string_view bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  absl::StrAppend(&out, bytes);
  return out;
}

std::string Number(uint32_t value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

absl::string_view Bytes(const BodyPart& part) {
  return {reinterpret_cast<const char*>(part.data), part.size};
}

// The layout that batch_fuzz.cc describes.
std::string BatchInput(const std::string& schema, uint32_t rows, const std::string& metadata,
                       const std::vector<BodyPart>& parts) {
  std::string input = absl::StrCat(Sized(schema), Number(rows), Sized(metadata));
  for (const BodyPart& part : parts) absl::StrAppend(&input, Sized(Bytes(part)));
  return input;
}

std::string ArrowStream(const std::string& schema, const EncodedBatch& batch) {
  std::string stream = absl::StrCat(schema, batch.metadata);
  for (const BodyPart& part : batch.parts) {
    absl::StrAppend(&stream, Bytes(part), std::string((8 - part.size % 8) % 8, '\0'));
  }
  return absl::StrCat(stream, absl::string_view("\xff\xff\xff\xff\0\0\0\0", 8));
}

void AddBatch(absl::string_view name, const RecordBatch& batch, Seeds* seeds) {
  const std::string schema = *EncodeSchema(batch.schema());
  const EncodedBatch encoded = *EncodeBatch(batch);
  const auto rows = static_cast<uint32_t>(batch.num_rows());
  seeds->Add("schema", name, schema);
  seeds->Add("batch", name, BatchInput(schema, rows, encoded.metadata, encoded.parts));
  const std::string stream = ArrowStream(schema, encoded);
  seeds->Add("arrow_file", absl::StrCat(name, "_stream"), stream);
  seeds->Add("arrow_file", absl::StrCat(name, "_file"),
             absl::StrCat(absl::string_view("ARROW1\0\0", 8), stream));
}

// Each number of the metadata that may be a length, an offset or a count, replaced by huge ones.
void AddHugeLengths(absl::string_view name, const RecordBatch& batch, Seeds* seeds) {
  const std::string schema = *EncodeSchema(batch.schema());
  const EncodedBatch encoded = *EncodeBatch(batch);
  const auto rows = static_cast<uint32_t>(batch.num_rows());
  for (size_t at = 0; at + 8 <= encoded.metadata.size(); at += 8) {
    int64_t found = 0;
    std::memcpy(&found, encoded.metadata.data() + at, sizeof found);
    if (found <= 0 || found > 4096) continue;
    for (const int64_t huge : kHugeLengths) {
      std::string metadata = encoded.metadata;
      std::memcpy(metadata.data() + at, &huge, sizeof huge);
      const std::string which = absl::StrCat(name, "_", at, "_", absl::Hex(huge));
      seeds->Add("batch", which, BatchInput(schema, rows, metadata, encoded.parts));
      if (huge == kHugeLengths[0]) {
        seeds->Add("arrow_file", which,
                   ArrowStream(schema, EncodedBatch{std::move(metadata), encoded.parts}));
      }
    }
  }
}

void AddGolden(const Json& file, const char* member, Seeds* seeds) {
  for (const Json& entry : file.at(member)) {
    std::vector<std::string> parts;
    for (const Json& part : entry.at("parts")) {
      parts.push_back(absl::HexStringToBytes(part.get<std::string>()));
    }
    if (parts.empty()) continue;
    const std::string name = entry.at("name");
    seeds->Add("frame", name, absl::StrCat(parts[0], parts.size() > 1 ? parts[1] : ""));
    if (parts.size() > 1 && parts[0].size() == 32 && parts[0][5] == 2) {
      seeds->Add("schema", name, parts[1]);
    }
  }
}

void AddCsv(Seeds* seeds) {
  const absl::string_view texts[] = {
      "a,b,c\n1,2,3\n4,5,6\n7,8,9\n",
      "a,b,c\r\n\"x,\"\"y\"\"\",2,\r\n\"two\nlines\",-1,nan\r\n",
      "\xef\xbb\xbf"
      "a;b;c\n\n1;1e308;0x10\n;;\n9223372036854775808;inf;-0\n",
      "a\tb\tc\ntrue\t1\t0\nfalse\t0\t1",
      "a\n\"unfinished\n",
      "a,b\n1\n",
      "a,a\n1,2\n",
  };
  int index = 0;
  for (const absl::string_view text : texts) {
    for (const char* options : {"\x01\x00\x07", "\x16\x06\xff", "\x09\x03\x01"}) {
      seeds->Add("csv", absl::StrCat(index++), absl::StrCat(absl::string_view(options, 3), text));
    }
  }
}

// Trees of c_schema_fuzz.cc: a root of one column each, and what only looks like a format.
void AddFormats(Seeds* seeds) {
  const char* formats[] = {"b",
                           "c",
                           "S",
                           "i",
                           "L",
                           "e",
                           "f",
                           "g",
                           "u",
                           "U",
                           "z",
                           "Z",
                           "tdD",
                           "tdm",
                           "tss:",
                           "tsm:UTC",
                           "tsu:Europe/Berlin",
                           "tsn:+05:30",
                           "n",
                           "w:4",
                           "d:9,2",
                           "d:38,10,256",
                           "ttm",
                           "tDs",
                           "tiM",
                           "vu",
                           "vz",
                           "+r",
                           "w:",
                           "w:-1",
                           "d:",
                           "tsx:",
                           "+w:",
                           "+w:x",
                           "+w:2147483648",
                           "+ud:",
                           "",
                           "+"};
  int index = 0;
  for (const char* format : formats) {
    seeds->Add("c_schema", absl::StrCat("format_", index++),
               absl::StrCat("\x05+s\n\n", "\x04", format, "\nx\n"));
  }
  for (const char* list : {"+l", "+L", "+w:3", "+w:1152921504606846976", "+m", "+s", "+vl"}) {
    seeds->Add("c_schema", absl::StrCat("nested_", index++),
               absl::StrCat("\x05+s\n\n", "\x05", list, "\nx\n", "\x04i\nitem\n"));
  }
  seeds->Add("c_schema", "dictionary", "\x05+s\n\n\x14i\nx\n\x04u\n\n");
  seeds->Add("c_schema", "twice", "\x06+s\n\n\x04i\nx\n\x04i\nx\n");
}

void AddTexts(absl::string_view target, const std::vector<std::string>& texts, Seeds* seeds) {
  int index = 0;
  for (const std::string& text : texts) seeds->Add(target, absl::StrCat(index++), text);
}

void AddForeignFiles(Seeds* seeds) {
  AddTexts(
      "hostlist",
      {"n1", "n[1-3]", "n[01-03,7],m", "a[1-2]b[3-4]", "2(x3),1", "4", "n[1-1000000000]", "n[3-1]",
       "n[", "n]", "n[1-2", "2(x1000000000)", "2(x", "n[1-2],,n3", "n[00000000000000000001]"},
      seeds);
  AddTexts(
      "tf_config",
      {R"({"cluster": {"ps": ["h:1"], "worker": ["h:2", "h:3"]},)"
       R"( "task": {"type": "ps", "index": 0}})",
       R"({"cluster": {"worker": {"1": "h:2"}}, "task": {"type": "worker", "index": "1"}})",
       R"({"cluster": {}, "environment": "cloud", "rpc_layer": "grpc"})", "{}", "[]", "",
       R"({"cluster": {"worker": "h:1"}, "task": {"index": -1}})", R"({"cluster": 7, "task": []})",
       R"({"cluster": {"a": ["h:1"]}, "task": {"type": "\u001b]0;x\u0007", "index": 1e99}})"},
      seeds);
  AddTexts(
      "gpu_lines",
      {R"({"type":"ready","protocol":1,"driver_version":"550","nvml_version":"12","gpus":[)"
       R"({"index":0,"uuid":"GPU-a","name":"A"}]})",
       R"({"type":"sample","time_ms":1,"gpus":[{"index":0,"uuid":"GPU-a","memory_used_bytes":1}]})",
       R"({"type":"stuck","gpu":3,"call":"nvmlDeviceGetName"})",
       R"({"type":"error","message":"no\nNVML"})", "{", "[]",
       "0, GPU-a, A, 00000000:01:00.0, 550.1, 7, 8, 100, 200, 33.5, 70, 40, 1, 2, 3, 4, 16, "
       "[N/A]\n",
       "0, GPU-a\n"},
      seeds);
  AddTexts("json_lines",
           {"\xff{\"id\":1,\"method\":\"start\",\"params\":{}}\n",
            "\x02{\"coordinator\":{\"address\":\"h:1\",\"token\":\"t\",\"ca_pem\":\"p\"},"
            "\"executor_id\":0,\"env\":{\"A\":\"b\"},\"gpus\":{\"count\":1}}\r\n\n[1e308,-0]\n",
            "\x01" + std::string(1200, '['), "\x10{\"a\":\"\\ud800\"}\n{\"a\":1,\"a\":2}\n"},
           seeds);
  const std::string cluster =
      R"({"format": 1, "cluster_id": "c1", "address": "127.0.0.1:4000", "viewer_token": "v",)"
      R"( "ca_pem": "-----BEGIN CERTIFICATE-----",)"
      R"( "identity_pem": "-----BEGIN CERTIFICATE-----", "pid": 7, "pid_started": 9,)"
      R"( "started": "2026-01-01T00:00:00+00:00", "program": "p", "log_dir": "l"})";
  AddTexts("cluster_file",
           {cluster,
            absl::StrCat(cluster, std::string(1, '\0'), R"({"format": 1, "operator_token": "o"})"),
            "{}", R"({"format": 2})", R"({"format": 1, "cluster_id": "../x", "address": ""})",
            absl::StrCat(cluster, std::string(1, '\0'), "[]")},
           seeds);
  AddTexts(
      "kube_config",
      {"apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n"
       "    server: https://h:6443\n    certificate-authority-data: LS0t\ncontexts:\n- name: c\n"
       "  context:\n    cluster: k\n    user: u\n    namespace: n\nusers:\n- name: u\n  user:\n"
       "    token: t\n",
       "{\"current-context\": \"c\", \"clusters\": [{\"name\": \"k\", \"cluster\": {\"server\": "
       "\"https://h\", \"insecure-skip-tls-verify\": true}}], \"contexts\": [{\"name\": \"c\", "
       "\"context\": {\"cluster\": \"k\", \"user\": \"u\"}}], \"users\": [{\"name\": \"u\", "
       "\"user\": "
       "{\"exec\": {\"command\": \"get-token\", \"apiVersion\": "
       "\"client.authentication.k8s.io/v1\"}}}]}",
       "a: &a [*a, *a]\n", "clusters: 7\n", "- -\n", "? \n",
       "current-context: [c]\nclusters: {}\n"},
      seeds);
}

// A file of every compression, and each row alone. The options of tf_example_fuzz.cc are the types
// of what the columns are.
void AddTfRecords(Seeds* seeds) {
  int options = 0;
  for (const Type& type : {Type::Bool(), Type::Int8(), Type::Int64(), Type::Uint64(),
                           Type::Float32(), Type::Float64(), Type::Utf8(), Type::LargeBinary()}) {
    const int which = options++;
    if (type.id() == TypeId::kUint64) continue;  // half of them are more than an Example holds
    const int flags[] = {0, 8, 16};
    const Type types[] = {type, Type::List(type), Type::FixedSizeList(type, 2)};
    for (size_t i = 0; i < 3; ++i) {
      const Schema schema = *SchemaBuilder().Add("a", types[i]).Add("b", types[i]).Build();
      ExampleEncoder encoder(schema);
      const RecordBatch batch = RandomBatchOf(schema, 2, Nulls::kNone, static_cast<uint64_t>(i));
      encoder.Begin(batch);
      std::string example;
      MILLRACE_CHECK(encoder.Encode(0, &example).ok());
      seeds->Add("tf_example", absl::StrCat(which, "_", flags[i]),
                 absl::StrCat(std::string(1, static_cast<char>(which + flags[i])), example));
      seeds->Add("tf_record", absl::StrCat("records_", which, "_", flags[i]),
                 absl::StrCat("\x01", std::string(1, static_cast<char>(example.size())), example));
    }
  }
  const RecordBatch batch = RandomBatchOf(
      *SchemaBuilder().Add("a", Type::Int8()).Add("b", Type::Utf8()).Build(), 3, Nulls::kSome, 1);
  const TempDir dir = *TempDir::Create("seeds");
  const std::string path = JoinPath(dir.path(), "file");
  for (const TfRecordCompression compression :
       {TfRecordCompression::kNone, TfRecordCompression::kGzip, TfRecordCompression::kZlib}) {
    auto writer = TfRecordWriter::Create(path, batch.schema(), {.compression = compression});
    MILLRACE_CHECK(writer.ok() && (*writer)->Write(batch).ok() && (*writer)->Finish().ok());
    seeds->Add("tf_record", absl::StrCat("file_", static_cast<int>(compression)),
               absl::StrCat(std::string(1, '\0'), *ReadFile(path)));
  }
}

int Run(const std::string& folder) {
  Seeds seeds(folder);
  const Json golden = *ParseJson(*ReadFile("testing/golden/feed_frames.json"));
  AddGolden(golden, "frames", &seeds);
  AddGolden(golden, "malformed", &seeds);

  std::mt19937_64 random(1);
  for (int i = 0; i < 12; ++i) {
    const Schema schema = *Schema::FromFields({{"x", RandomType(/*depth=*/i % 4, &random)}});
    AddBatch(absl::StrCat("type_", i), RandomBatchOf(schema, 3, Nulls::kSome, i), &seeds);
  }
  AddBatch("flat", RandomBatch(2, Nulls::kSome, 1), &seeds);
  AddBatch("flat_no_nulls", RandomBatch(2, Nulls::kNone, 1), &seeds);
  AddBatch("nested", RandomNestedBatch(2, Nulls::kSome, 1), &seeds);
  AddHugeLengths("numbers",
                 RandomBatchOf(*Schema::FromFields({{"x", Type::Int64()}}), 3, Nulls::kSome, 1),
                 &seeds);
  AddHugeLengths(
      "list",
      RandomBatchOf(*Schema::FromFields({{"x", Type::List(Type::Utf8())}}), 5, Nulls::kSome, 1),
      &seeds);
  AddHugeLengths("fixed",
                 RandomBatchOf(*Schema::FromFields({{"x", Type::FixedSizeList(Type::Int32(), 3)}}),
                               5, Nulls::kSome, 1),
                 &seeds);
  AddCsv(&seeds);
  AddFormats(&seeds);
  AddForeignFiles(&seeds);
  AddTfRecords(&seeds);
  std::printf("%d seeds\n", seeds.count());
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 1;
  }
  return millrace::Run(argv[1]);
}
