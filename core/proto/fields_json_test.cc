#include "core/proto/fields_json.h"

#include "absl/status/status.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/proto/sample.pb.h"
#include "core/proto/watch.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(FieldsJsonTest, EveryFieldOfAQueueComesBack) {
  v1::QueueSample queue;
  queue.set_queue("input");
  queue.set_rows_received(7);
  queue.set_waiting_sessions(3);
  queue.set_program_done(true);
  const OrderedJson json = FieldsToJson(queue);
  EXPECT_EQ(json.size(), static_cast<size_t>(v1::QueueSample::descriptor()->field_count()));
  EXPECT_EQ(json.begin().key(), "queue");
  v1::QueueSample again;
  ASSERT_THAT(ReadFields(Json(json), "queue", &again), IsOk());
  EXPECT_EQ(again.SerializeAsString(), queue.SerializeAsString());
}

TEST(FieldsJsonTest, ListsAndMessagesAreLeftToTheCaller) {
  v1::FeedInfo feed;
  feed.set_feed_id("f");
  feed.set_done(3);
  feed.add_failed_partitions(7);
  feed.mutable_stages();
  feed.add_refed()->set_executor_id(-1);
  const OrderedJson json = FieldsToJson(feed);
  EXPECT_EQ(json["feed_id"], "f");
  EXPECT_EQ(json["done"], 3);
  EXPECT_EQ(json["closed"], false);
  EXPECT_FALSE(json.contains("failed_partitions"));
  EXPECT_FALSE(json.contains("stages"));
  EXPECT_EQ(FieldsToJson(feed.refed(0))["executor_id"], -1);
}

TEST(FieldsJsonTest, WhatIsMissingStaysAndWhatIsUnknownIsIgnored) {
  v1::QueueSample queue;
  queue.set_rows_acked(5);
  ASSERT_THAT(ReadFields(Json{{"rows_received", 1}, {"newer", "x"}}, "queue", &queue), IsOk());
  EXPECT_EQ(queue.rows_received(), 1u);
  EXPECT_EQ(queue.rows_acked(), 5u);
}

TEST(FieldsJsonTest, WhatIsOfAnotherTypeOrOutOfRangeIsNamed) {
  for (const char* text :
       {R"({"rows_received":-1})", R"({"rows_received":"1"})", R"({"open_sessions":4294967296})",
        R"({"program_done":1})", R"({"queue":7})", R"({"rows_received":1.5})"}) {
    v1::QueueSample queue;
    EXPECT_THAT(ReadFields(*ParseJson(text), "queues[3]", &queue),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queues[3]")))
        << text;
  }
}

}  // namespace
}  // namespace millrace
