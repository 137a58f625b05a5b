#include "core/agent/node/log_relay.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/fake_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

class LogRelayTest : public ::testing::Test {
 protected:
  LogRelayTest() : loop_(*EventLoop::Create()) {}

  LogRelay Make() {
    return LogRelay(loop_.get(), {.clock = &clock_}, [this](const v1::LogLines& lines) {
      if (accept_) batches_.push_back(lines);
      return accept_;
    });
  }

  FakeClock clock_;
  std::unique_ptr<EventLoop> loop_;
  bool accept_ = true;
  std::vector<v1::LogLines> batches_;
};

TEST_F(LogRelayTest, LinesWaitAMomentForOthers) {
  LogRelay relay = Make();
  relay.Add(v1::LogLines::SOURCE_STDOUT, "a");
  relay.Add(v1::LogLines::SOURCE_STDOUT, "b");
  EXPECT_TRUE(batches_.empty());
  EXPECT_TRUE(loop_->RunUntil([&] { return !batches_.empty(); }, absl::Seconds(40)));
  EXPECT_EQ(batches_[0].lines_size(), 2);
}

TEST_F(LogRelayTest, ABatchHasOneSourceAndAtMost200Lines) {
  LogRelay relay = Make();
  relay.Add(v1::LogLines::SOURCE_STDOUT, "a");
  for (int i = 0; i < 250; ++i) relay.Add(v1::LogLines::SOURCE_STDERR, "b");
  relay.Flush();
  ASSERT_EQ(batches_.size(), 4u);
  EXPECT_EQ(batches_[0].source(), v1::LogLines::SOURCE_STDOUT);
  EXPECT_EQ(batches_[1].lines_size(), 1);  // the first of stderr
  EXPECT_EQ(batches_[2].lines_size(), 200);
  EXPECT_EQ(batches_[3].lines_size(), 49);
}

TEST_F(LogRelayTest, TheFirstLineOfStderrAfterAPauseGoesAtOnce) {
  LogRelay relay = Make();
  relay.Add(v1::LogLines::SOURCE_STDERR, "loading");
  relay.Add(v1::LogLines::SOURCE_STDERR, "loaded");
  EXPECT_EQ(batches_.size(), 1u);
  relay.Flush();
  clock_.Advance(absl::Seconds(1));
  relay.Add(v1::LogLines::SOURCE_STDERR, "the loss is nan");
  ASSERT_EQ(batches_.size(), 3u);
  EXPECT_EQ(batches_[2].lines(0), "the loss is nan");
}

TEST_F(LogRelayTest, WhatIsOverTheRateIsDroppedAndCounted) {
  LogRelay relay = Make();
  const std::string line(1023, 'x');  // 1 KiB with its end
  for (int i = 0; i < 300; ++i) relay.Add(v1::LogLines::SOURCE_STDOUT, line);
  relay.Flush();
  clock_.Advance(absl::Seconds(1));
  for (int i = 0; i < 100; ++i) relay.Add(v1::LogLines::SOURCE_STDOUT, line);
  relay.Flush();
  int lines = 0;
  uint64_t dropped = 0;
  for (const v1::LogLines& batch : batches_) {
    lines += batch.lines_size();
    dropped += batch.dropped();
  }
  EXPECT_EQ(lines, 256 + 64);
  EXPECT_EQ(dropped, 44u + 36u);
}

TEST_F(LogRelayTest, TheAgentsLinesAreNotDroppedForTheNodes) {
  LogRelay relay = Make();
  for (int i = 0; i < 300; ++i) relay.Add(v1::LogLines::SOURCE_STDOUT, std::string(1023, 'x'));
  relay.Add(v1::LogLines::SOURCE_AGENT, "the disk is full");
  relay.Flush();
  EXPECT_EQ(batches_.back().source(), v1::LogLines::SOURCE_AGENT);
  EXPECT_THAT(batches_.back().lines(), testing::ElementsAre("the disk is full"));
}

TEST_F(LogRelayTest, LinesThatCannotBeSentCountAsDropped) {
  LogRelay relay = Make();
  accept_ = false;
  relay.Add(v1::LogLines::SOURCE_STDOUT, "a");
  relay.Flush();
  accept_ = true;
  relay.Add(v1::LogLines::SOURCE_STDOUT, "b");
  relay.Flush();
  ASSERT_EQ(batches_.size(), 1u);
  EXPECT_EQ(batches_[0].dropped(), 1u);
}

}  // namespace
}  // namespace millrace
