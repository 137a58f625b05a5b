#include "testing/eventually.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(EventuallyTest, LooksUntilItIsSo) {
  int looks = 0;
  EXPECT_TRUE(Eventually([&] { return ++looks == 3; }));
  EXPECT_EQ(looks, 3);
}

TEST(EventuallyTest, LooksOnceWithoutPatience) {
  int looks = 0;
  EXPECT_FALSE(Eventually([&] { return ++looks > 1; }, absl::ZeroDuration()));
  EXPECT_EQ(looks, 1);
}

TEST(EventuallyTest, GivesUp) {
  EXPECT_FALSE(Eventually([] { return false; }, absl::Milliseconds(20)));
}

}  // namespace
}  // namespace millrace
