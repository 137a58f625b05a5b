#include "millrace/status_macros.h"

#include <map>
#include <memory>
#include <utility>

#include "core/base/status_matchers.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

absl::StatusOr<int> Value(int value) {
  if (value < 0) return absl::OutOfRangeError("negative");
  return value;
}

absl::StatusOr<int> Sum(int a, int b, int* evaluations) {
  MILLRACE_RETURN_IF_ERROR(Value(a));  // a StatusOr
  MILLRACE_RETURN_IF_ERROR(((*evaluations)++, absl::OkStatus()));
  MILLRACE_ASSIGN_OR_RETURN(const int x, Value(a));
  int y = 0;
  MILLRACE_ASSIGN_OR_RETURN(y, Value(b));
  return x + y;
}

absl::Status CheckUnbraced(bool check) {
  if (check)
    MILLRACE_RETURN_IF_ERROR(absl::AbortedError("checked"));
  else
    MILLRACE_RETURN_IF_ERROR(absl::InternalError("else"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<int>> MoveOnly() { return std::make_unique<int>(7); }

absl::StatusOr<int> TakeMoveOnly() {
  MILLRACE_ASSIGN_OR_RETURN(auto pointer, MoveOnly());
  MILLRACE_ASSIGN_OR_RETURN(auto map, (absl::StatusOr<std::map<int, int>>(std::map<int, int>{})));
  return *pointer + static_cast<int>(map.size());
}

TEST(StatusMacrosTest, PassValuesThrough) {
  int evaluations = 0;
  EXPECT_THAT(Sum(1, 2, &evaluations), IsOkAndHolds(3));
  EXPECT_EQ(evaluations, 1);
  EXPECT_THAT(TakeMoveOnly(), IsOkAndHolds(7));
}

TEST(StatusMacrosTest, ReturnTheFirstError) {
  int evaluations = 0;
  EXPECT_THAT(Sum(-1, 2, &evaluations), StatusIs(absl::StatusCode::kOutOfRange, "negative"));
  EXPECT_EQ(evaluations, 0);
  EXPECT_THAT(Sum(1, -2, &evaluations), StatusIs(absl::StatusCode::kOutOfRange, "negative"));
}

TEST(StatusMacrosTest, ReturnIfErrorIsOneStatement) {
  EXPECT_THAT(CheckUnbraced(true), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(CheckUnbraced(false), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace millrace
