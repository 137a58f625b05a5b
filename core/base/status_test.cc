#include "core/base/status.h"

#include "absl/strings/cord.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using testing::Not;

TEST(AnnotateTest, PutsThePrefixBeforeTheMessageAndKeepsCodeAndPayloads) {
  absl::Status status = absl::NotFoundError("no file");
  status.SetPayload("type/a", absl::Cord("payload"));
  const absl::Status annotated = Annotate(status, "node worker:3");
  EXPECT_THAT(annotated, StatusIs(absl::StatusCode::kNotFound, "node worker:3: no file"));
  EXPECT_EQ(annotated.GetPayload("type/a"), absl::Cord("payload"));
}

TEST(AnnotateTest, LeavesOkAndEmptyPrefixesAlone) {
  EXPECT_THAT(Annotate(absl::OkStatus(), "x"), IsOk());
  EXPECT_THAT(Annotate(absl::AbortedError("why"), ""), StatusIs(absl::StatusCode::kAborted, "why"));
}

TEST(AnnotateTest, AnEmptyMessageBecomesThePrefix) {
  EXPECT_THAT(Annotate(absl::AbortedError(""), "x"), StatusIs(absl::StatusCode::kAborted, "x"));
}

TEST(StatusCodeTest, EveryErrorCodeComesBackFromItsName) {
  for (int value = 1; value <= 16; ++value) {
    const absl::StatusCode code = static_cast<absl::StatusCode>(value);
    EXPECT_EQ(StatusCodeFromName(absl::StatusCodeToString(code)), code) << value;
  }
}

TEST(StatusCodeTest, WhatIsNoErrorNameIsUnknown) {
  for (const char* name : {"", "OK", "data_loss", "DATA LOSS", "17"}) {
    EXPECT_EQ(StatusCodeFromName(name), absl::StatusCode::kUnknown) << name;
  }
}

TEST(StatusMatchersTest, TellStatusesApart) {
  EXPECT_THAT(absl::AbortedError("a"), Not(IsOk()));
  EXPECT_THAT(absl::AbortedError("a"), Not(StatusIs(absl::StatusCode::kInternal)));
  EXPECT_THAT(absl::AbortedError("a"), Not(StatusIs(absl::StatusCode::kAborted, "b")));
  EXPECT_THAT(absl::StatusOr<int>(3), IsOkAndHolds(3));
  EXPECT_THAT(absl::StatusOr<int>(3), IsOkAndHolds(testing::Gt(2)));
  EXPECT_THAT(absl::StatusOr<int>(3), Not(IsOkAndHolds(4)));
  EXPECT_THAT(absl::StatusOr<int>(absl::AbortedError("a")), Not(IsOkAndHolds(3)));
  EXPECT_THAT(absl::StatusOr<std::string>("x"), IsOkAndHolds("x"));
}

}  // namespace
}  // namespace millrace
