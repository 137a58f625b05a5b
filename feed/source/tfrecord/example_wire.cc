#include "feed/source/tfrecord/example_wire.h"

#include <algorithm>
#include <bit>

namespace millrace {
namespace {

// Numbers are copied as they lie in the message.
static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kLengthOf1 = WireCursor::Tag(1, WireCursor::kLength);
constexpr uint32_t kLengthOf2 = WireCursor::Tag(2, WireCursor::kLength);
constexpr uint32_t kLengthOf3 = WireCursor::Tag(3, WireCursor::kLength);
constexpr uint32_t kFloatOf1 = WireCursor::Tag(1, WireCursor::kFixed32);
constexpr uint32_t kVarintOf1 = WireCursor::Tag(1, WireCursor::kVarint);
constexpr int kMaxVarintBytes = 10, kMaxTagBytes = 5;

bool EndsVarint(char byte) { return static_cast<uint8_t>(byte) < 0x80; }

// How many varints these bytes are; nullopt if the last one has no end.
std::optional<size_t> CountVarints(absl::string_view bytes) {
  if (bytes.empty()) return 0;
  if (!EndsVarint(bytes.back())) return std::nullopt;
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), EndsVarint));
}

// Reads varints, the last of which ends where `bytes` do, and moves *to behind them; false if one
// is too long.
bool CopyVarints(absl::string_view bytes, int64_t** to) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at != end) {
    auto byte = static_cast<uint8_t>(*at++);
    uint64_t value = byte & 0x7f;
    for (int shift = 7; byte >= 0x80; shift += 7) {
      if (shift == 7 * kMaxVarintBytes) return false;
      byte = static_cast<uint8_t>(*at++);
      value |= uint64_t{byte & 0x7fu} << shift;
    }
    *(*to)++ = static_cast<int64_t>(value);
  }
  return true;
}

// Calls packed(bytes) and single(cursor) for the parts of the lists, until one returns false.
template <typename Packed, typename Single>
bool ForEachPart(const FeatureValues& values, uint32_t single_tag, Packed packed, Single single) {
  for (const absl::string_view list : values.lists) {
    WireCursor cursor(list);
    while (!cursor.AtEnd()) {
      uint32_t tag = 0;
      absl::string_view bytes;
      if (!cursor.ReadTag(&tag)) return false;
      if (tag == kLengthOf1) {
        if (!cursor.ReadLength(&bytes) || !packed(bytes)) return false;
      } else if (tag == single_tag) {
        if (!single(&cursor)) return false;
      } else if (!cursor.Skip(tag)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

// The bits above the 32nd are dropped, as Protobuf does.
bool WireCursor::ReadLongTag(uint32_t* tag) {
  uint64_t value = 0;
  for (int i = 0; i < kMaxTagBytes && at_ != end_; ++i) {
    const auto byte = static_cast<uint8_t>(*at_++);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      *tag = static_cast<uint32_t>(value);
      return *tag >> 3 != 0;
    }
  }
  return false;
}

// Here the bits above the 64th.
bool WireCursor::ReadLongVarint(uint64_t* value) {
  *value = 0;
  for (int i = 0; i < kMaxVarintBytes && at_ != end_; ++i) {
    const auto byte = static_cast<uint8_t>(*at_++);
    *value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireCursor::Skip(uint32_t tag, int depth) {
  absl::string_view ignored;
  uint64_t number = 0;
  switch (tag & 7) {
    case kVarint:
      return ReadVarint(&number);
    case kFixed64:
      return Take(8, &ignored);
    case kLength:
      return ReadLength(&ignored);
    case kFixed32:
      return Take(4, &ignored);
    case kStartGroup: {
      if (depth == kMaxDepth) return false;
      uint32_t inner = 0;
      while (ReadTag(&inner)) {
        if ((inner & 7) == kEndGroup) return inner >> 3 == tag >> 3;
        if (!Skip(inner, depth + 1)) return false;
      }
      return false;
    }
    default:
      return false;
  }
}

bool internal::ReadEntry(absl::string_view entry, std::deque<std::string>* merged,
                         absl::string_view* name, absl::string_view* feature) {
  std::string* whole = nullptr;
  WireCursor cursor(entry);
  while (!cursor.AtEnd()) {
    uint32_t tag = 0;
    absl::string_view bytes;
    if (!cursor.ReadTag(&tag)) return false;
    if (tag == kLengthOf1) {
      if (!cursor.ReadLength(name)) return false;
    } else if (tag == kLengthOf2) {
      if (!cursor.ReadLength(&bytes)) return false;
      if (feature->empty()) {
        *feature = bytes;
      } else if (!bytes.empty()) {
        // A message that stands there twice is both, one behind the other.
        if (whole == nullptr) whole = &merged->emplace_back(*feature);
        whole->append(bytes.data(), bytes.size());
        *feature = *whole;
      }
    } else if (!cursor.Skip(tag)) {
      return false;
    }
  }
  return true;
}

absl::string_view FeatureKindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kNone:
      return "no values";
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "floats";
    case FeatureKind::kInt64:
      return "integers";
  }
  return "unknown";
}

bool ReadFeature(absl::string_view feature, FeatureValues* values) {
  values->kind = FeatureKind::kNone;
  values->lists.clear();
  WireCursor cursor(feature);
  while (!cursor.AtEnd()) {
    uint32_t tag = 0;
    absl::string_view list;
    if (!cursor.ReadTag(&tag)) return false;
    if (tag != kLengthOf1 && tag != kLengthOf2 && tag != kLengthOf3) {
      if (!cursor.Skip(tag)) return false;
      continue;
    }
    if (!cursor.ReadLength(&list)) return false;
    const auto kind = static_cast<FeatureKind>(tag >> 3);
    if (values->kind != kind) values->lists.clear();  // one of them: the last
    values->kind = kind;
    if (!list.empty()) values->lists.push_back(list);
  }
  return true;
}

std::optional<size_t> CountValues(const FeatureValues& values) {
  size_t count = 0;
  bool ok = true;
  switch (values.kind) {
    case FeatureKind::kNone:
      break;
    case FeatureKind::kBytes:
      ok = ForEachBytes(values, [&count](absl::string_view) { return ++count > 0; });
      break;
    case FeatureKind::kFloat:
      ok = ForEachPart(
          values, kFloatOf1,
          [&count](absl::string_view bytes) {
            count += bytes.size() / sizeof(float);
            return bytes.size() % sizeof(float) == 0;
          },
          [&count](WireCursor* cursor) {
            absl::string_view bytes;
            ++count;
            return cursor->ReadFixed32(&bytes);
          });
      break;
    case FeatureKind::kInt64:
      ok = ForEachPart(
          values, kVarintOf1,
          [&count](absl::string_view bytes) {
            const std::optional<size_t> varints = CountVarints(bytes);
            count += varints.value_or(0);
            return varints.has_value();
          },
          [&count](WireCursor* cursor) {
            uint64_t value = 0;
            ++count;
            return cursor->ReadVarint(&value);
          });
      break;
  }
  return ok ? std::optional<size_t>(count) : std::nullopt;
}

bool CopyFloats(const FeatureValues& values, float* to) {
  const auto copy = [&to](absl::string_view bytes) {
    if (bytes.empty()) return true;
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size() / sizeof(float);
    return true;
  };
  return ForEachPart(values, kFloatOf1, copy, [&copy](WireCursor* cursor) {
    absl::string_view bytes;
    return cursor->ReadFixed32(&bytes) && copy(bytes);
  });
}

bool CopyInt64s(const FeatureValues& values, int64_t* to) {
  return ForEachPart(
      values, kVarintOf1, [&to](absl::string_view bytes) { return CopyVarints(bytes, &to); },
      [&to](WireCursor* cursor) {
        uint64_t value = 0;
        if (!cursor->ReadVarint(&value)) return false;
        *to++ = static_cast<int64_t>(value);
        return true;
      });
}

}  // namespace millrace
