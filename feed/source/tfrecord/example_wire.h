// File: feed/source/tfrecord/example_wire.h
//
// Reads a serialised tensorflow.Example where it lies. Why not by Protobuf: docs/decisions.md.
//
//   message Example { Features features = 1; }
//   message Features { map<string, Feature> feature = 1; }
//   message Feature {
//     oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
//   }
//   message BytesList { repeated bytes value = 1; }
//   message FloatList { repeated float value = 1 [packed = true]; }
//   message Int64List { repeated int64 value = 1 [packed = true]; }
//
// What Protobuf's own parser reads is read with the same result: fields in any order, twice or
// unknown, numbers packed or not. (It also refuses names that are not UTF-8.)
//
// Defines: WireCursor, ForEachFeature(), FeatureKind, FeatureValues, ReadFeature(), CountValues(),
// ForEachBytes(), CopyFloats(), CopyInt64s().

#ifndef FEED_SOURCE_TFRECORD_EXAMPLE_WIRE_H_
#define FEED_SOURCE_TFRECORD_EXAMPLE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The fields of one message, in order. What returns bool returns false for bytes that are no
// message; the cursor must not be used any more then. Does not own the bytes, and never reads
// outside of them. Thread safety: one thread at a time.
class WireCursor {
 public:
  // The low three bits of a tag; the others are the field's number.
  enum WireType : uint32_t {
    kVarint = 0,
    kFixed64 = 1,
    kLength = 2,
    kStartGroup = 3,
    kEndGroup = 4,
    kFixed32 = 5,
  };
  static constexpr uint32_t Tag(uint32_t field, WireType type) { return field << 3 | type; }

  explicit WireCursor(absl::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool AtEnd() const { return at_ == end_; }

  [[nodiscard]] bool ReadTag(uint32_t* tag) {
    if (at_ == end_) return false;
    const auto first = static_cast<uint8_t>(*at_);
    if (first >= 0x80) return ReadLongTag(tag);
    *tag = first;
    ++at_;
    return first >> 3 != 0;
  }
  [[nodiscard]] bool ReadVarint(uint64_t* value) {
    if (at_ == end_) return false;
    const auto first = static_cast<uint8_t>(*at_);
    if (first < 0x80) {
      *value = first;
      ++at_;
      return true;
    }
    return ReadLongVarint(value);
  }
  [[nodiscard]] bool ReadLength(absl::string_view* bytes) {
    uint64_t size = 0;
    if (!ReadVarint(&size) || size > static_cast<uint64_t>(end_ - at_)) return false;
    *bytes = absl::string_view(at_, static_cast<size_t>(size));
    at_ += size;
    return true;
  }
  [[nodiscard]] bool ReadFixed32(absl::string_view* bytes) { return Take(4, bytes); }
  // Behind the tag of a field that nobody wants.
  [[nodiscard]] bool Skip(uint32_t tag) { return Skip(tag, 0); }

 private:
  // Deepest nesting of groups, as Protobuf's.
  static constexpr int kMaxDepth = 100;

  bool Take(size_t size, absl::string_view* bytes) {
    if (static_cast<size_t>(end_ - at_) < size) return false;
    *bytes = absl::string_view(at_, size);
    at_ += size;
    return true;
  }
  bool ReadLongTag(uint32_t* tag);
  bool ReadLongVarint(uint64_t* value);
  bool Skip(uint32_t tag, int depth);

  const char* at_;
  const char* const end_;
};

// Calls take(name, feature) for each feature of an Example, `feature` being a Feature message; both
// are valid as long as `example` and *merged, which gets the messages that came in parts. False if
// `example` is none. A name may come more than once: the last counts.
template <typename F>
[[nodiscard]] bool ForEachFeature(absl::string_view example, std::deque<std::string>* merged,
                                  F take);

enum class FeatureKind : uint8_t { kNone, kBytes, kFloat, kInt64 };

// "bytes", "floats", "integers"; "no values" for kNone.
[[nodiscard]] absl::string_view FeatureKindName(FeatureKind kind);

// The BytesList, FloatList or Int64List of a feature; several, where it came in parts, are one.
struct FeatureValues {
  FeatureKind kind = FeatureKind::kNone;
  absl::InlinedVector<absl::string_view, 1> lists;
};

// False if `feature` is no Feature.
[[nodiscard]] bool ReadFeature(absl::string_view feature, FeatureValues* values);

// The number of values, nullopt if the lists are none. A count at most as large as the bytes.
[[nodiscard]] std::optional<size_t> CountValues(const FeatureValues& values);

// Room for CountValues() values; what they are is written there. False if the lists are none.
[[nodiscard]] bool CopyFloats(const FeatureValues& values, float* to);
[[nodiscard]] bool CopyInt64s(const FeatureValues& values, int64_t* to);

// Calls take(value) for each value of a list of bytes, until it returns false. False if it did, or
// the lists are none.
template <typename F>
[[nodiscard]] bool ForEachBytes(const FeatureValues& values, F take);

namespace internal {

// One entry of the map.
[[nodiscard]] bool ReadEntry(absl::string_view entry, std::deque<std::string>* merged,
                             absl::string_view* name, absl::string_view* feature);

// Calls take(bytes) for each first field of a message, until it returns false.
template <typename F>
[[nodiscard]] bool ForEachFirst(absl::string_view message, F take) {
  WireCursor cursor(message);
  while (!cursor.AtEnd()) {
    uint32_t tag = 0;
    absl::string_view bytes;
    if (!cursor.ReadTag(&tag)) return false;
    if (tag != WireCursor::Tag(1, WireCursor::kLength)) {
      if (!cursor.Skip(tag)) return false;
    } else if (!cursor.ReadLength(&bytes) || !take(bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace internal

template <typename F>
bool ForEachFeature(absl::string_view example, std::deque<std::string>* merged, F take) {
  return internal::ForEachFirst(example, [&](absl::string_view features) {
    return internal::ForEachFirst(features, [&](absl::string_view entry) {
      absl::string_view name, feature;
      if (!internal::ReadEntry(entry, merged, &name, &feature)) return false;
      take(name, feature);
      return true;
    });
  });
}

template <typename F>
bool ForEachBytes(const FeatureValues& values, F take) {
  for (const absl::string_view list : values.lists) {
    if (!internal::ForEachFirst(list, take)) return false;
  }
  return true;
}

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_EXAMPLE_WIRE_H_
