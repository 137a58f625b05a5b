#include "core/agent/node/node_requests.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/node/feed_sample.h"
#include "core/proto/sample.pb.h"
#include "feed/receiver/receiver_core.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

class NodeRequestsTest : public ::testing::Test {
 protected:
  NodeRequestsTest()
      : requests_({.reply = [this](const Json& frame) { replies_.push_back(frame); },
                   .send =
                       [this](v1::AgentMessage message, bool) {
                         if (connected_) sent_.push_back(std::move(message));
                         return connected_;
                       },
                   .on_hello = [] {},
                   .on_ready = [this](v1::NodeEndpoints endpoints) { endpoints_ = endpoints; },
                   .on_log = [](absl::string_view, absl::string_view) {},
                   .on_release_port = [] {},
                   .on_sample = [this](const v1::NodeSample& feed) { sample_ = feed; },
                   .on_step = [this](int64_t step) { step_ = step; },
                   .on_exit = [](const absl::Status&) {}}) {}

  void Ask(const std::string& text) {
    const auto frame = ParseJson(text);
    ASSERT_THAT(frame, IsOk()) << text;
    requests_.HandleFrame(*frame);
  }
  void Hello() { Ask(R"({"id":0,"method":"hello","params":{"protocol":1}})"); }
  std::string LastCode() const {
    if (replies_.empty()) return "none";
    const auto error = replies_.back().find("error");
    return error == replies_.back().end() ? "OK" : error->value("code", "none");
  }

  bool connected_ = true;
  std::vector<Json> replies_;
  std::vector<v1::AgentMessage> sent_;
  v1::NodeEndpoints endpoints_;
  v1::NodeSample sample_;
  int64_t step_ = 0;
  NodeRequests requests_;
};

TEST_F(NodeRequestsTest, GarbageIsAnsweredWithInvalidArgument) {
  Hello();
  for (const char* frame :
       {R"({"id":1})", R"({"id":1,"method":7})", R"({"id":1,"method":"kv.get","params":[]})",
        R"({"id":1,"method":"kv.get","params":{"key":"a"}})",
        R"({"id":1,"method":"kv.get","params":{"key":"a","timeout_ms":-1}})",
        R"({"id":1,"method":"kv.get","params":{"key":"","timeout_ms":1}})",
        R"({"id":1,"method":"kv.set","params":{"key":"a","value":1}})",
        R"({"id":1,"method":"kv.add","params":{"key":"a","delta":0.5}})",
        R"({"id":1,"method":"barrier","params":{"name":"b"}})",
        R"({"id":1,"method":"ready","params":{"feed":{"key":"k"}}})",
        R"({"id":1,"method":"ready","params":{"other":{"a":1}}})",
        R"({"id":1,"method":"metric","params":{"name":"m","step":"x","value":1}})",
        R"({"id":1,"method":"sample","params":{"budget_bytes":1,"held_bytes":-1,"queues":[]}})",
        R"({"id":1,"method":"sample","params":{"budget_bytes":1,"held_bytes":1,"queues":[7]}})",
        R"({"id":1,"method":"sample","params":{"budget_bytes":1,"held_bytes":1,"queues":[{}]}})",
        R"({"id":1,"method":"exit","params":{}})"}) {
    replies_.clear();
    Ask(frame);
    EXPECT_EQ(LastCode(), "INVALID_ARGUMENT") << frame;
  }
  Ask(R"({"id":[1],"method":"hello"})");
  EXPECT_EQ(LastCode(), "INVALID_ARGUMENT");
  Ask(absl::StrCat(R"({"id":1,"method":"kv.get","params":{"timeout_ms":1,"key":")",
                   std::string(1025, 'k'), "\"}}"));
  EXPECT_EQ(LastCode(), "INVALID_ARGUMENT");
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(NodeRequestsTest, ASampleHasEveryCounterOfEachQueue) {
  Hello();
  Ask(R"({"method":"sample","params":{"budget_bytes":1000,"held_bytes":700,
      "why_not_shared":"feeder/1: another user","queues":[
      {"queue":"input","rows_received":1,"rows_acked":2,"rows_returned":3,"bytes_received":4,
       "batches_received":5,"batches_placed":17,"credit_outstanding_bytes":6,"queued_rows":7,"queued_bytes":8,
       "open_sessions":9,"waiting_sessions":10,"partitions_received":11,"wait_us":12,
       "compute_us":13,"decode_us":14,"full_us":15,"queued_us":16,"program_done":true}]}})");
  EXPECT_EQ(sample_.feed_budget_bytes(), 1000u);
  EXPECT_EQ(sample_.feed_held_bytes(), 700u);
  EXPECT_EQ(sample_.why_not_shared(), "feeder/1: another user");
  ASSERT_EQ(sample_.queues_size(), 1);
  const v1::QueueSample& queue = sample_.queues(0);
  EXPECT_EQ(queue.queue(), "input");
  EXPECT_THAT(
      (std::vector<uint64_t>{
          queue.rows_received(), queue.rows_acked(), queue.rows_returned(), queue.bytes_received(),
          queue.batches_received(), queue.credit_outstanding_bytes(), queue.queued_rows(),
          queue.queued_bytes(), queue.open_sessions(), queue.waiting_sessions(),
          queue.partitions_received(), queue.wait_us(), queue.compute_us(), queue.decode_us(),
          queue.full_us(), queue.queued_us(), queue.batches_placed()}),
      ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
  EXPECT_TRUE(queue.program_done());
}

TEST_F(NodeRequestsTest, WhatANodeSendsHasEveryFieldOfTheMessage) {
  FeedReceiverStats stats;
  stats.queues.push_back({.queue = "input", .sessions_opened = 1});
  const Json sample = FeedSampleJson(stats);
  ASSERT_EQ(sample["queues"].size(), 1u);
  std::vector<std::string> fields;
  for (int i = 0; i < v1::QueueSample::descriptor()->field_count(); ++i) {
    fields.push_back(v1::QueueSample::descriptor()->field(i)->name());
  }
  std::vector<std::string> sent;
  for (const auto& [name, value] : sample["queues"][0].items()) sent.push_back(name);
  EXPECT_THAT(sent, UnorderedElementsAreArray(fields));
}

TEST_F(NodeRequestsTest, AMetricTellsTheStep) {
  Hello();
  Ask(R"({"method":"metric","params":{"name":"loss","step":41,"value":0.5}})");
  EXPECT_EQ(step_, 41);
  EXPECT_EQ(sent_.size(), 1u);
}

TEST_F(NodeRequestsTest, HelloComesFirstOnceAndWithThisProtocol) {
  Ask(R"({"id":1,"method":"ready"})");
  EXPECT_EQ(LastCode(), "FAILED_PRECONDITION");
  Ask(R"({"id":1,"method":"hello","params":{"protocol":2}})");
  EXPECT_EQ(LastCode(), "FAILED_PRECONDITION");
  Ask(R"({"id":1,"method":"hello","params":{"protocol":1,"version":"9.9.9"}})");
  EXPECT_EQ(LastCode(), "FAILED_PRECONDITION");
  EXPECT_FALSE(requests_.said_hello());
  Hello();
  EXPECT_EQ(LastCode(), "OK");
  Hello();
  EXPECT_EQ(LastCode(), "FAILED_PRECONDITION");
}

TEST_F(NodeRequestsTest, TheAnswerToHelloSaysHowOftenToSample) {
  requests_.set_sample_interval(absl::Seconds(4));
  Hello();
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0]["result"], (Json{{"sample_interval_ms", 4000}}));
}

TEST_F(NodeRequestsTest, RequestsWithoutIdGetNoReply) {
  Hello();
  replies_.clear();
  Ask(R"({"method":"fly"})");
  Ask(R"({"method":"kv.add","params":{"key":"n","delta":1}})");
  ASSERT_EQ(sent_.size(), 1u);
  v1::KvReply reply;
  reply.set_request_id(sent_[0].kv().request_id());
  reply.set_value("1");
  requests_.HandleKvReply(reply);
  EXPECT_THAT(replies_, IsEmpty());
}

TEST_F(NodeRequestsTest, RepeatableRequestsAreSentAgainAfterALoss) {
  Hello();
  replies_.clear();
  Ask(R"({"id":1,"method":"kv.get","params":{"key":"a","timeout_ms":1000}})");
  Ask(R"({"id":2,"method":"kv.delete","params":{"key":"b"}})");
  Ask(R"({"id":3,"method":"barrier","params":{"name":"x","timeout_ms":1000}})");
  connected_ = false;
  requests_.OnLost();
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_EQ(replies_[0]["id"], 2);
  EXPECT_EQ(LastCode(), "UNAVAILABLE");
  Ask(R"({"id":4,"method":"kv.delete","params":{"key":"c"}})");  // waits
  sent_.clear();
  connected_ = true;
  requests_.OnRegistered();
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(sent_[0].kv().key(), "a");
  EXPECT_EQ(sent_[1].barrier().name(), "x");
  EXPECT_EQ(sent_[2].kv().key(), "c");
}

TEST_F(NodeRequestsTest, RepliesToNobodyAreIgnoredAndBadErrorsAreUnknown) {
  Hello();
  replies_.clear();
  v1::KvReply reply;
  reply.set_request_id(99);
  requests_.HandleKvReply(reply);
  EXPECT_THAT(replies_, IsEmpty());
  Ask(R"({"id":1,"method":"kv.get","params":{"key":"a","timeout_ms":0}})");
  reply.set_request_id(sent_[0].kv().request_id());
  reply.mutable_error()->set_code(77);
  requests_.HandleKvReply(reply);
  EXPECT_EQ(LastCode(), "UNKNOWN");
  requests_.HandleKvReply(reply);
  EXPECT_EQ(replies_.size(), 1u);
}

TEST_F(NodeRequestsTest, TooManyWaitingRequestsAreResourceExhausted) {
  Hello();
  for (size_t i = 0; i < NodeRequests::kMaxPending; ++i) {
    Ask(R"({"id":1,"method":"barrier","params":{"name":"x","timeout_ms":1000}})");
  }
  EXPECT_EQ(LastCode(), "OK");
  Ask(R"({"id":1,"method":"barrier","params":{"name":"x","timeout_ms":1000}})");
  EXPECT_EQ(LastCode(), "RESOURCE_EXHAUSTED");
  requests_.Forget();
  sent_.clear();
  Ask(R"({"id":1,"method":"barrier","params":{"name":"x","timeout_ms":1000}})");
  EXPECT_EQ(sent_.size(), 1u);
}

}  // namespace
}  // namespace millrace
