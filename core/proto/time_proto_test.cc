#include "core/proto/time_proto.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(TimeProtoTest, TimesSurviveTheRoundTripBeforeAndAfterTheEpoch) {
  for (absl::Time time : {absl::UnixEpoch(), absl::FromUnixNanos(1704067200123456789),
                          absl::FromUnixNanos(-1), absl::FromUnixNanos(-1500000000)}) {
    EXPECT_EQ(TimeFromProto(TimeToProto(time)), time);
    EXPECT_GE(TimeToProto(time).nanos(), 0);
  }
}

TEST(TimeProtoTest, InfiniteTimesBecomeTheEndsOfTheRange) {
  EXPECT_EQ(TimeToProto(absl::InfiniteFuture()).seconds(), 253402300799);
  EXPECT_EQ(TimeToProto(absl::InfinitePast()).seconds(), -62135596800);
}

TEST(TimeProtoTest, HostileTimestampsAreDefined) {
  google::protobuf::Timestamp proto;
  proto.set_seconds(std::numeric_limits<int64_t>::max());
  proto.set_nanos(std::numeric_limits<int32_t>::min());
  EXPECT_EQ(TimeFromProto(proto), absl::FromUnixSeconds(253402300799));
}

TEST(TimeProtoTest, DurationsSurviveTheRoundTrip) {
  for (absl::Duration duration : {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Seconds(-1.5),
                                  absl::Hours(72), absl::InfiniteDuration()}) {
    EXPECT_EQ(DurationFromProto(DurationToProto(duration)), duration);
  }
}

TEST(TimeProtoTest, HostileDurationsAreDefined) {
  google::protobuf::Duration proto;
  proto.set_seconds(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(DurationFromProto(proto), -absl::InfiniteDuration());
  proto.set_seconds(1);
  proto.set_nanos(std::numeric_limits<int32_t>::max());
  EXPECT_LT(DurationFromProto(proto), absl::Seconds(2));
}

}  // namespace
}  // namespace millrace
