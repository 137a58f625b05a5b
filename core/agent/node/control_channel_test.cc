#include "core/agent/node/control_channel.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

class ControlChannelTest : public ::testing::Test {
 protected:
  ControlChannelTest()
      : loop_(*EventLoop::Create()),
        channel_(*ControlChannel::Create(
            loop_.get(), {.on_frame = [this](const Json& frame) { frames_.push_back(frame); },
                          .on_closed = [this] { ++closed_; }})),
        node_(channel_->TakeNodeEnd()) {}

  void Write(const std::string& bytes) {
    ASSERT_EQ(send(node_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  bool Wait(absl::AnyInvocable<bool()> done) {
    return loop_->RunUntil(std::move(done), absl::Seconds(40));
  }

  std::unique_ptr<EventLoop> loop_;
  std::vector<Json> frames_;
  int closed_ = 0;
  std::unique_ptr<ControlChannel> channel_;
  UniqueFd node_;
};

TEST_F(ControlChannelTest, FramesMayComeByteByByteOrTogether) {
  const std::string frame = EncodeFrame(Json{{"a", 1}});
  for (const char byte : frame) {
    Write(std::string(1, byte));
    loop_->RunUntil([] { return false; }, absl::Milliseconds(1));
  }
  EXPECT_TRUE(Wait([&] { return frames_.size() == 1; }));
  Write(frame + frame + frame.substr(0, 3));
  EXPECT_TRUE(Wait([&] { return frames_.size() == 3; }));
  EXPECT_EQ(frames_[2]["a"], 1);
}

TEST_F(ControlChannelTest, FramesThatAreNoObjectsCloseTheChannelOnce) {
  for (const char* body : {"[1]", "nonsense", ""}) {
    std::string frame = EncodeFrame(Json());
    frame = std::string(1, static_cast<char>(std::string(body).size())) + frame.substr(1, 3) + body;
    frames_.clear();
    closed_ = 0;
    channel_ = *ControlChannel::Create(
        loop_.get(), {.on_frame = [this](const Json& got) { frames_.push_back(got); },
                      .on_closed = [this] { ++closed_; }});
    node_ = channel_->TakeNodeEnd();
    Write(frame);
    EXPECT_TRUE(Wait([&] { return closed_ == 1; })) << body;
    EXPECT_TRUE(channel_->closed());
    channel_->Send(Json{{"late", 1}});
  }
}

TEST_F(ControlChannelTest, NodeThatDoesNotReadLosesItsChannel) {
  const std::string big(size_t{1} << 20, 'x');
  for (int i = 0; i < 40 && closed_ == 0; ++i) channel_->Send(Json{{"push", big}});
  EXPECT_EQ(closed_, 0);  // never from Send()
  EXPECT_TRUE(Wait([&] { return closed_ == 1; }));
}

TEST_F(ControlChannelTest, WhatTheNodeWroteBeforeItsEndIsRead) {
  Write(EncodeFrame(Json{{"method", "exit"}}));
  node_.reset();
  channel_->Drain();
  EXPECT_EQ(frames_.size(), 1u);
  EXPECT_TRUE(channel_->closed());
  EXPECT_EQ(closed_, 1);
}

TEST_F(ControlChannelTest, SlowReaderGetsEverything) {
  const std::string big(size_t{1} << 20, 'x');
  for (int i = 0; i < 4; ++i) channel_->Send(Json{{"push", big}});
  size_t got = 0;
  std::vector<char> buffer(100000);
  const size_t want = 4 * EncodeFrame(Json{{"push", big}}).size();
  const absl::Time deadline = absl::Now() + absl::Seconds(40);
  while (got < want && absl::Now() < deadline) {
    const ssize_t n = recv(node_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) got += static_cast<size_t>(n);
    loop_->RunUntil([] { return false; }, absl::Milliseconds(1));
  }
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace millrace
