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
