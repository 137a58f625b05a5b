#include "millrace/stop_request.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

class StopRequestTest : public ::testing::Test {
 protected:
  StopRequest::Handler Note() {
    return [this](const std::string& reason, bool now) {
      calls_.push_back(absl::StrCat(reason, now ? " now" : ""));
    };
  }
  StopRequest stop_;
  std::vector<std::string> calls_;
};

TEST_F(StopRequestTest, AHarderRequestPassesAndASofterOneDoesNot) {
  stop_.Attach(Note());
  EXPECT_THAT(stop_.status(), IsOk());
  stop_.Request("interrupted");
  stop_.Request("again");
  stop_.Request("terminated", /*now=*/true);
  stop_.Request("terminated", /*now=*/true);
  EXPECT_THAT(calls_, ElementsAre("interrupted", "interrupted now"));
  EXPECT_THAT(stop_.status(), StatusIs(absl::StatusCode::kCancelled, "interrupted"));
}

TEST_F(StopRequestTest, WhatWasRequestedBeforeTheClusterCameIsHeardByIt) {
  stop_.Request("interrupted");
  EXPECT_TRUE(stop_.requested());
  stop_.Attach(Note());
  EXPECT_THAT(calls_, ElementsAre("interrupted"));
}

TEST_F(StopRequestTest, WhatCanBeLeftIsLeftOnceUnlessItWasToldToEndBefore) {
  const auto leave = [this](const std::string& reason) { calls_.push_back("leave: " + reason); };
  stop_.Leave("evicted");
  stop_.Attach(Note(), leave);
  stop_.Leave("evicted again");
  EXPECT_THAT(calls_, ElementsAre("leave: evicted"));
  EXPECT_THAT(stop_.status(), StatusIs(absl::StatusCode::kCancelled, "evicted"));
  stop_.Request("interrupted");  // whoever was left is deaf to it
  EXPECT_THAT(calls_, ElementsAre("leave: evicted", "evicted"));

  StopRequest other;
  other.Request("interrupted");
  other.Leave("evicted");
  calls_.clear();
  other.Attach(Note(), leave);
  EXPECT_THAT(calls_, ElementsAre("interrupted"));
}

TEST_F(StopRequestTest, WhatCannotBeLeftIsToldToEnd) {
  stop_.Attach(Note());
  stop_.Leave("evicted");
  EXPECT_THAT(calls_, ElementsAre("evicted"));
}

TEST_F(StopRequestTest, AClusterThatIsGoneHearsNothing) {
  stop_.Attach(Note());
  stop_.Detach();
  stop_.Request("interrupted", /*now=*/true);
  EXPECT_THAT(calls_, ElementsAre());
}

}  // namespace
}  // namespace millrace
