#include "core/agent/link/output_sender.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr auto kOut = v1::LogLines::SOURCE_STDOUT;
constexpr auto kErr = v1::LogLines::SOURCE_STDERR;

// A coordinator that takes what it is told to, and drops what it has.
struct Fixture {
  explicit Fixture(int64_t window) : sender(window, 3, Hooks()) {}

  OutputSender::Hooks Hooks() {
    return {.send =
                [this](v1::AgentMessage message) {
                  if (!connected) return false;
                  const v1::OutputData& data = message.output();
                  EXPECT_EQ(data.attempt(), 3u);
                  EXPECT_LE(data.offset(), received);
                  ++messages;
                  if (data.offset() < received) return true;
                  (data.source() == kOut ? out : err) += data.data();
                  received += data.end() ? 1 : data.data().size();
                  ended = ended || data.end();
                  return true;
                },
            .hold = [this](bool hold) { held = hold; },
            .on_done = [this] { ++done; }};
  }

  bool connected = true;
  bool held = false;
  bool ended = false;
  int done = 0;
  int messages = 0;
  uint64_t received = 0;
  std::string out;
  std::string err;
  OutputSender sender;
};

TEST(OutputSenderTest, BytesArriveAsTheyAre) {
  Fixture f(1 << 20);
  const std::string raw("a\r\n\xff\0b", 7);
  f.sender.Add(kOut, raw);
  f.sender.Add(kErr, "complaint\n");
  f.sender.Add(kOut, "rest");
  f.sender.End();
  EXPECT_EQ(f.out, raw + "rest");
  EXPECT_EQ(f.err, "complaint\n");
  EXPECT_TRUE(f.ended);
  EXPECT_EQ(f.done, 0);
  f.sender.OnCredit(f.received);
  EXPECT_EQ(f.done, 1);
  EXPECT_TRUE(f.sender.done());
}

TEST(OutputSenderTest, ASlowDriverHoldsTheNode) {
  Fixture f(1000);
  for (int i = 0; i < 15; ++i) f.sender.Add(kOut, std::string(100, 'x'));
  EXPECT_EQ(f.received, 1000u);
  EXPECT_FALSE(f.held);
  for (int i = 0; i < 5; ++i) f.sender.Add(kOut, std::string(100, 'x'));
  EXPECT_TRUE(f.held);
  f.sender.OnCredit(1000);
  EXPECT_FALSE(f.held);
  EXPECT_EQ(f.received, 2000u);
}

TEST(OutputSenderTest, OneChunkMayAlwaysGo) {
  Fixture f(10);
  f.sender.Add(kOut, std::string(100, 'x'));
  EXPECT_EQ(f.received, 100u);
  EXPECT_TRUE(f.held);
}

TEST(OutputSenderTest, WhatWasNotTakenGoesOverTheNextStream) {
  Fixture f(1000);
  f.sender.Add(kOut, "one ");
  f.sender.Add(kOut, "two ");
  f.sender.OnCredit(4);
  f.connected = false;
  f.sender.Add(kOut, "three ");
  f.sender.End();
  f.connected = true;
  f.sender.OnRegistered();
  EXPECT_EQ(f.out, "one two three ");
  EXPECT_TRUE(f.ended);
  f.sender.OnCredit(4);  // again: nothing new
  EXPECT_EQ(f.done, 0);
  f.sender.OnCredit(f.received);
  EXPECT_EQ(f.done, 1);
}

TEST(OutputSenderTest, CreditForWhatWasNeverSentIsIgnored) {
  Fixture f(1000);
  f.sender.Add(kOut, "one");
  f.sender.OnCredit(1'000'000);
  f.sender.End();
  EXPECT_EQ(f.done, 0);
  f.sender.OnCredit(4);
  EXPECT_EQ(f.done, 1);
}

}  // namespace
}  // namespace millrace
