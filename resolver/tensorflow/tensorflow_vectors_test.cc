// Holds the resolvers' kTensorFlow to the cases of a file, by default those that TensorFlow 2.21.0
// was seen to do: one test per case. Another file of the same schema: --vectors=FILE.

#include "resolver/tensorflow/tensorflow_vectors.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

class VectorTest : public testing::Test {
 public:
  explicit VectorTest(OrderedJson vector) : vector_(std::move(vector)) {}

  void TestBody() override {
    SCOPED_TRACE(DumpJson(vector_));
    const absl::StatusOr<VectorOutcome> outcome = RunVector(vector_);
    ASSERT_THAT(outcome, IsOk());
    if (!outcome->skipped.empty()) GTEST_SKIP() << outcome->skipped;
    EXPECT_THAT(CompareOutcome(outcome->result, vector_["expect"]), IsOk());
  }

 private:
  OrderedJson vector_;
};

// As Bazel runs a test: from the runfiles. `bazel run` tells where the user is.
std::string Locate(const std::string& path) {
  const char* user = std::getenv("BUILD_WORKING_DIRECTORY");
  if (absl::StartsWith(path, "/") || user == nullptr) return path;
  return absl::StrCat(user, "/", path);
}

absl::StatusOr<OrderedJson> Load(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  MILLRACE_ASSIGN_OR_RETURN(OrderedJson file, ParseOrderedJson(text));
  if (!file.is_object() || !file.contains("cases") || !file["cases"].is_array() ||
      file["cases"].empty()) {
    return absl::InvalidArgumentError("it has no list of cases");
  }
  if (file["mode"] != "tensorflow") {
    return absl::InvalidArgumentError("its mode is not tensorflow");
  }
  for (const OrderedJson& vector : file["cases"]) {
    if (!vector.is_object() || !vector.contains("name") || !vector.contains("expect")) {
      return absl::InvalidArgumentError(
          absl::StrCat("a case has no name or no expect: ", DumpJson(vector)));
    }
  }
  return file;
}

// "case 007 k8s_zero_pods": gtest filters by it.
std::string TestName(size_t number, const OrderedJson& name) {
  std::string text = absl::StrFormat("%03d_", number);
  for (const char c : name.is_string() ? name.get<std::string>() : DumpJson(name)) {
    text.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  }
  return text;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string path = "resolver/tensorflow/testdata/resolver_vectors.json";
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--vectors=")) {
      std::fprintf(stderr, "unknown argument %s; there is --vectors=FILE\n", argv[i]);
      return 2;
    }
    path = millrace::Locate(std::string(argument));
  }
  const auto file = millrace::Load(path);
  if (!file.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), file.status().ToString().c_str());
    return 2;
  }
  size_t number = 0;
  for (const millrace::OrderedJson& vector : *file->find("cases")) {
    testing::RegisterTest(
        "TensorFlowVectors", millrace::TestName(++number, *vector.find("name")).c_str(), nullptr,
        nullptr, __FILE__, __LINE__,
        [vector]() -> testing::Test* { return new millrace::VectorTest(vector); });
  }
  return RUN_ALL_TESTS();
}
