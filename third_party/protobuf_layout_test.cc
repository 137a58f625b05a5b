// Messages are laid out here as the system's Protobuf has them, under each sanitizer too.

#include <google/protobuf/arena.h>
#include <gtest/gtest.h>

#include <string>

#include "third_party/smoke.pb.h"

namespace {

// The library frees the map with the arena: --config=tsan needs third_party/bazel/tsan_include for
// it.
TEST(ProtobufLayoutTest, AMapOnAnArena) {
  google::protobuf::Arena arena;
  auto* const reply = google::protobuf::Arena::CreateMessage<millrace::smoke::EchoReply>(&arena);
  (*reply->mutable_notes())["greeting"] = "good morning";
  auto* const copy = google::protobuf::Arena::CreateMessage<millrace::smoke::EchoReply>(&arena);
  ASSERT_TRUE(copy->ParseFromString(reply->SerializeAsString()));
  EXPECT_EQ(copy->notes().at("greeting"), "good morning");
}

// By reflection the map is a list, which the library makes and keeps beside it.
TEST(ProtobufLayoutTest, AMapByReflection) {
  millrace::smoke::EchoReply reply;
  (*reply.mutable_notes())["greeting"] = "good morning";
  EXPECT_EQ(reply.ShortDebugString(), "notes { key: \"greeting\" value: \"good morning\" }");
}

}  // namespace
