#include "examples/digits/equal_parameters.h"

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::examples {
namespace {

using ::testing::HasSubstr;

TEST(EqualParametersTest, ShowsALineOnceAllRanksHaveSaidIt) {
  EqualParameters equal(2);
  EXPECT_EQ(equal.Take("chief:0", "epoch 1: loss 0.5, parameters aa"), "");
  EXPECT_EQ(equal.Take("worker:0", "epoch 1: loss 0.5, parameters aa"),
            "all 2 ranks: epoch 1: loss 0.5, parameters aa");
  EXPECT_THAT(equal.Check(1), IsOk());
}

TEST(EqualParametersTest, OtherLinesAreShownAsTheyCome) {
  EqualParameters equal(2);
  EXPECT_EQ(equal.Take("chief:0", "epoch of steam"), "chief:0: epoch of steam");
  EXPECT_EQ(equal.Take("evaluator:0", "accuracy 0.97"), "evaluator:0: accuracy 0.97");
}

TEST(EqualParametersTest, DifferentParametersAreDataLoss) {
  EqualParameters equal(2);
  equal.Take("chief:0", "epoch 1: loss 0.5, parameters aa");
  equal.Take("worker:0", "epoch 1: loss 0.5, parameters ab");
  const absl::Status status = equal.Check(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("parameters ab' (1)"));
}

TEST(EqualParametersTest, ARankThatSaidNothingIsDataLoss) {
  EqualParameters equal(2);
  equal.Take("chief:0", "epoch 1: loss 0.5, parameters aa");
  EXPECT_EQ(equal.Check(1).code(), absl::StatusCode::kDataLoss);
}

TEST(EqualParametersTest, AnEpochThatNobodySpokeOfIsDataLoss) {
  EqualParameters equal(1);
  EXPECT_EQ(equal.Check(1).code(), absl::StatusCode::kDataLoss);
  equal.Take("chief:0", "epoch 1: loss 0.5, parameters aa");
  EXPECT_EQ(equal.Check(2).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::examples
