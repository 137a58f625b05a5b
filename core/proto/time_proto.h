// File: core/proto/time_proto.h
//
// absl::Time and absl::Duration as protobuf carries them. Values from outside may hold anything;
// every one gives something defined.
//
// Defines: TimeToProto(), TimeFromProto(), DurationToProto(), DurationFromProto().
//
// Thread safety: pure functions.

#ifndef CORE_PROTO_TIME_PROTO_H_
#define CORE_PROTO_TIME_PROTO_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace millrace {

// Times outside of year 1 to 9999 become the nearest end of that range.
[[nodiscard]] google::protobuf::Timestamp TimeToProto(absl::Time time);
// Nanoseconds outside of 0..999,999,999 and years outside of 1 to 9999 become the nearest legal
// one.
[[nodiscard]] absl::Time TimeFromProto(const google::protobuf::Timestamp& proto);

// Durations beyond +-10,000 years (infinite ones too) become that.
[[nodiscard]] google::protobuf::Duration DurationToProto(absl::Duration duration);
// 10,000 years and more become InfiniteDuration(), with their sign.
[[nodiscard]] absl::Duration DurationFromProto(const google::protobuf::Duration& proto);

}  // namespace millrace

#endif  // CORE_PROTO_TIME_PROTO_H_
