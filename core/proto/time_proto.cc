#include "core/proto/time_proto.h"

#include <algorithm>
#include <cstdint>

namespace millrace {
namespace {

constexpr int64_t kMinTimestampSeconds = -62135596800;  // 0001-01-01T00:00:00Z
constexpr int64_t kMaxTimestampSeconds = 253402300799;  // 9999-12-31T23:59:59Z
constexpr int64_t kMaxDurationSeconds = 315576000000;   // 10,000 years, protobuf's own limit
constexpr int32_t kMaxNanos = 999999999;

}  // namespace

google::protobuf::Timestamp TimeToProto(absl::Time time) {
  time = std::clamp(time, absl::FromUnixSeconds(kMinTimestampSeconds),
                    absl::FromUnixSeconds(kMaxTimestampSeconds));
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(time);  // rounds towards the past
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return proto;
}

absl::Time TimeFromProto(const google::protobuf::Timestamp& proto) {
  return absl::FromUnixSeconds(
             std::clamp(proto.seconds(), kMinTimestampSeconds, kMaxTimestampSeconds)) +
         absl::Nanoseconds(std::clamp(proto.nanos(), 0, kMaxNanos));
}

google::protobuf::Duration DurationToProto(absl::Duration duration) {
  const absl::Duration limit = absl::Seconds(kMaxDurationSeconds);
  duration = std::clamp(duration, -limit, limit);
  google::protobuf::Duration proto;
  absl::Duration rest;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::Duration DurationFromProto(const google::protobuf::Duration& proto) {
  if (proto.seconds() >= kMaxDurationSeconds) return absl::InfiniteDuration();
  if (proto.seconds() <= -kMaxDurationSeconds) return -absl::InfiniteDuration();
  return absl::Seconds(proto.seconds()) +
         absl::Nanoseconds(std::clamp(proto.nanos(), -kMaxNanos, kMaxNanos));
}

}  // namespace millrace
