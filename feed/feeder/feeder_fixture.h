// File: feed/feeder/feeder_fixture.h
//
// What the tests of Feeder's sessions share: a feeder, and sessions of its with one partition. Test
// only.
//
// Defines: FeederTest.

#ifndef FEED_FEEDER_FEEDER_FIXTURE_H_
#define FEED_FEEDER_FEEDER_FIXTURE_H_

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {

class FeederTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto feeder = Feeder::Start({.open_timeout = absl::Seconds(5)});
    ASSERT_THAT(feeder, IsOk());
    feeder_ = *std::move(feeder);
  }

  static SessionOptions Options(FeedMode mode = FeedMode::kTrain) {
    return {.feed_id = "f1",
            .queue = "input",
            .mode = mode,
            .partition = 3,
            .feed_timeout = absl::Seconds(20)};
  }

  std::shared_ptr<FeedSession> Open(const FeedTarget& target, const SessionOptions& options) {
    auto session = feeder_->OpenSession(target, options);
    EXPECT_THAT(session, IsOk());
    return *session;
  }

  std::unique_ptr<Feeder> feeder_;
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_FIXTURE_H_
