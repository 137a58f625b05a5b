// A partition between today's feeder or node and one that was recorded.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_matchers.h"
#include "feed/wire/frame.h"
#include "gtest/gtest.h"
#include "testing/compatibility/conversation.h"
#include "testing/compatibility/feed_conversation.h"

namespace millrace::compatibility {
namespace {

class FeedTest : public ::testing::TestWithParam<FeedMode> {
 protected:
  static RecordedCall Recorded() {
    const auto calls = ReadCalls(RootFile("testing/compatibility/0.2/feed.txt"));
    EXPECT_THAT(calls, IsOk());
    const std::vector<RecordedCall> found =
        CallsOf(calls.value_or(std::vector<RecordedCall>()), FeedModeName(GetParam()));
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? RecordedCall() : found.front();
  }
};

TEST_P(FeedTest, ANodeTakesTheRowsOfAnOlderFeeder) {
  const RecordedCall then = Recorded();
  std::vector<std::string> feeder;
  for (const RecordedMessage& message : then.messages) {
    if (message.from_client) feeder.push_back(message.bytes);
  }
  const absl::StatusOr<RecordedCall> now = NodeMessages(GetParam(), feeder);
  ASSERT_THAT(now, IsOk());
  EXPECT_EQ(WhatItSaid(*now), WhatItSaid(then));
}

TEST_P(FeedTest, AFeederFeedsAnOlderNode) {
  EXPECT_THAT(FeedRecordedNode(GetParam(), Recorded()), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Modes, FeedTest, ::testing::Values(FeedMode::kTrain, FeedMode::kInference),
                         [](const auto& mode) { return std::string(FeedModeName(mode.param)); });

}  // namespace
}  // namespace millrace::compatibility
