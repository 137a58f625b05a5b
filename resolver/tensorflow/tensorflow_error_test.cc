#include "millrace/tensorflow_error.h"

#include "core/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::Optional;

TEST(TensorFlowErrorTest, CarriesTheClassBesideCodeAndMessage) {
  const absl::Status status =
      TensorFlowError(absl::StatusCode::kFailedPrecondition, "RuntimeError", "not running");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "not running");
  EXPECT_THAT(TensorFlowErrorClass(status), Optional(std::string("RuntimeError")));
}

TEST(TensorFlowErrorTest, AnnotateKeepsTheClass) {
  const absl::Status status = Annotate(
      TensorFlowError(absl::StatusCode::kInvalidArgument, "ValueError", "bad"), "resolver 1 of 2");
  EXPECT_EQ(status.message(), "resolver 1 of 2: bad");
  EXPECT_THAT(TensorFlowErrorClass(status), Optional(std::string("ValueError")));
}

TEST(TensorFlowErrorTest, OtherStatusesHaveNoClass) {
  EXPECT_EQ(TensorFlowErrorClass(absl::InvalidArgumentError("bad")), std::nullopt);
  EXPECT_EQ(TensorFlowErrorClass(absl::OkStatus()), std::nullopt);
}

}  // namespace
}  // namespace millrace
