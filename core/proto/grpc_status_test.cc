#include "core/proto/grpc_status.h"

#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(GrpcStatusTest, KeepsCodeAndMessageBothWays) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "node worker:1: gone");
    const grpc::Status sent = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(sent.error_code()), code);
    EXPECT_EQ(FromGrpcStatus(sent), status);
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_THAT(FromGrpcStatus(grpc::Status::OK), IsOk());
}

TEST(GrpcStatusTest, CutsAMessageThatMetadataCannotCarry) {
  const grpc::Status sent = ToGrpcStatus(absl::InternalError(std::string(100'000, 'x')));
  EXPECT_EQ(sent.error_message().size(), 4096u);
  EXPECT_THAT(sent.error_message(), HasSubstr("..."));
}

}  // namespace
}  // namespace millrace
