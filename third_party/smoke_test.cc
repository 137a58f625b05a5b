// Sees that every dependency compiles, links and does the one thing Millrace needs it for.

#include <benchmark/benchmark.h>
#include <curl/curl.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <yaml-cpp/yaml.h>
#include <zmq.h>

#include <CLI/CLI.hpp>
#include <Eigen/Dense>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "isa-l/crc.h"
#include "nanoarrow/nanoarrow.hpp"
#include "nanoarrow/nanoarrow_ipc.hpp"
#include "third_party/smoke.grpc.pb.h"
#include "third_party/smoke.pb.h"

namespace {

using ::testing::ElementsAre;

TEST(SmokeTest, AbseilLinks) {
  absl::flat_hash_map<std::string, int> map = {{"a", 1}};
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  absl::BitGen gen;
  absl::AnyInvocable<absl::StatusOr<int>()> call = [&]() -> absl::StatusOr<int> {
    return map["a"] + static_cast<int>(absl::Uniform(gen, 0, 1));
  };
  EXPECT_EQ(call().value(), 1);
  EXPECT_EQ(absl::StrFormat("%s", absl::FormatDuration(absl::Seconds(90))), "1m30s");
}

TEST(SmokeTest, ProtobufAndGrpcLinkDynamically) {
  millrace::smoke::EchoReply reply;
  reply.mutable_answered()->set_seconds(5);
  millrace::smoke::EchoReply copy;
  ASSERT_TRUE(copy.ParseFromString(reply.SerializeAsString()));
  EXPECT_EQ(copy.answered().seconds(), 5);
  const auto stub = millrace::smoke::Echo::NewStub(
      grpc::CreateChannel("127.0.0.1:1", grpc::SslCredentials(grpc::SslCredentialsOptions())));
  EXPECT_NE(stub, nullptr);
}

// The server and the client of smoke_static.cc speak TLS with each other.
TEST(SmokeTest, FullyStaticGrpcWithTlsRuns) {
  const std::string source_dir = std::getenv("TEST_SRCDIR");
  const std::string command =
      source_dir + "/millrace/third_party/smoke_static --text 'over TLS' 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char line[512] = {};
  EXPECT_NE(std::fgets(line, sizeof(line), pipe), nullptr);
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << line;
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json.value("text", ""), "over TLS");
}

TEST(SmokeTest, ZeroMqHasCurveAndIpc) {
  EXPECT_EQ(zmq_has("curve"), 1);
  EXPECT_EQ(zmq_has("ipc"), 1);
  void* const context = zmq_ctx_new();
  void* const pull = zmq_socket(context, ZMQ_PULL);
  ASSERT_EQ(zmq_bind(pull, "tcp://127.0.0.1:*"), 0);
  char endpoint[64];
  size_t size = sizeof(endpoint);
  ASSERT_EQ(zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
  void* const push = zmq_socket(context, ZMQ_PUSH);
  ASSERT_EQ(zmq_connect(push, endpoint), 0);
  ASSERT_EQ(zmq_send(push, "grain", 5, 0), 5);
  char text[16];
  EXPECT_EQ(std::string(text, static_cast<size_t>(zmq_recv(pull, text, sizeof(text), 0))), "grain");
  zmq_close(push);
  zmq_close(pull);
  zmq_ctx_term(context);
}

TEST(SmokeTest, GlooSumsOverOneRank) {
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(/*rank=*/0, /*size=*/1);
  gloo::rendezvous::HashStore store;
  context->connectFullMesh(store, device);
  float value = 7;
  gloo::AllreduceOptions options(context);
  options.setOutput(&value, 1);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
  EXPECT_EQ(value, 7);
}

TEST(SmokeTest, NanoarrowDecodesWhatItEncodes) {
  nanoarrow::UniqueSchema schema;
  ASSERT_EQ(ArrowSchemaInitFromType(schema.get(), NANOARROW_TYPE_STRUCT), NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaAllocateChildren(schema.get(), 1), NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaInitFromType(schema->children[0], NANOARROW_TYPE_INT64), NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaSetName(schema->children[0], "x"), NANOARROW_OK);
  nanoarrow::UniqueArray array;
  ASSERT_EQ(ArrowArrayInitFromSchema(array.get(), schema.get(), nullptr), NANOARROW_OK);
  ASSERT_EQ(ArrowArrayStartAppending(array.get()), NANOARROW_OK);
  for (int64_t value : {7, 8, 9}) {
    ASSERT_EQ(ArrowArrayAppendInt(array->children[0], value), NANOARROW_OK);
    ASSERT_EQ(ArrowArrayFinishElement(array.get()), NANOARROW_OK);
  }
  ASSERT_EQ(ArrowArrayFinishBuildingDefault(array.get(), nullptr), NANOARROW_OK);

  nanoarrow::UniqueArrayView view;
  ASSERT_EQ(ArrowArrayViewInitFromSchema(view.get(), schema.get(), nullptr), NANOARROW_OK);
  ASSERT_EQ(ArrowArrayViewSetArray(view.get(), array.get(), nullptr), NANOARROW_OK);
  nanoarrow::UniqueBuffer buffer;
  nanoarrow::ipc::UniqueOutputStream output;
  ASSERT_EQ(ArrowIpcOutputStreamInitBuffer(output.get(), buffer.get()), NANOARROW_OK);
  nanoarrow::ipc::UniqueWriter writer;
  ASSERT_EQ(ArrowIpcWriterInit(writer.get(), output.get()), NANOARROW_OK);
  ASSERT_EQ(ArrowIpcWriterWriteSchema(writer.get(), schema.get(), nullptr), NANOARROW_OK);
  ASSERT_EQ(ArrowIpcWriterWriteArrayView(writer.get(), view.get(), nullptr), NANOARROW_OK);
  ASSERT_EQ(ArrowIpcWriterWriteArrayView(writer.get(), nullptr, nullptr), NANOARROW_OK);

  nanoarrow::ipc::UniqueInputStream input;
  ASSERT_EQ(ArrowIpcInputStreamInitBuffer(input.get(), buffer.get()), NANOARROW_OK);
  nanoarrow::UniqueArrayStream stream;
  ASSERT_EQ(ArrowIpcArrayStreamReaderInit(stream.get(), input.get(), nullptr), NANOARROW_OK);
  nanoarrow::UniqueArray decoded;
  ASSERT_EQ(ArrowArrayStreamGetNext(stream.get(), decoded.get(), nullptr), NANOARROW_OK);
  ASSERT_EQ(decoded->length, 3);
  const auto* values = static_cast<const int64_t*>(decoded->children[0]->buffers[1]);
  EXPECT_THAT(std::vector<int64_t>(values, values + 3), ElementsAre(7, 8, 9));
}

TEST(SmokeTest, CurlSpeaksTlsThroughOpenSsl) {
  const curl_version_info_data* info = curl_version_info(CURLVERSION_NOW);
  EXPECT_NE(info->features & CURL_VERSION_THREADSAFE, 0) << info->version;
  EXPECT_EQ(std::string(info->ssl_version).rfind("OpenSSL/", 0), 0u) << info->ssl_version;
}

TEST(SmokeTest, IsalHasTheCrcOfIscsi) {
  std::string digits = "123456789";
  auto* const data = reinterpret_cast<unsigned char*>(digits.data());
  EXPECT_EQ(~crc32_iscsi(data, static_cast<int>(digits.size()), ~0u), 0xe3069283u);
}

TEST(SmokeTest, YamlCppReadsYaml) {
  EXPECT_EQ(YAML::Load("{contexts: [{name: prod}]}")["contexts"][0]["name"].as<std::string>(),
            "prod");
}

TEST(SmokeTest, HeaderOnlyLibrariesCompile) {
  const Eigen::Vector2f v(3, 4);
  EXPECT_FLOAT_EQ(v.norm(), 5);
  CLI::App app;
  bool flag = false;
  app.add_flag("--flag", flag);
  const char* argv[] = {"smoke", "--flag"};
  app.parse(2, argv);
  EXPECT_TRUE(flag);
  SPDLOG_INFO("spdlog {}", 1);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  EXPECT_NE(SHA256(reinterpret_cast<const unsigned char*>("a"), 1, digest), nullptr);
  int value = 1;
  benchmark::DoNotOptimize(value);
}

}  // namespace
