#include "dashboard/model/history.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace millrace::dashboard {
namespace {

int64_t SecondOf(absl::Time time) { return absl::ToUnixSeconds(time); }

template <typename Code>
size_t CapacityBytes(const std::vector<Code>& values) {
  return values.capacity() * sizeof(Code);
}

}  // namespace

ByteCodec::Code ByteCodec::Encode(float value) const {
  const float steps = std::clamp(value / step_, 0.0f, 254.0f);
  return static_cast<Code>(std::lround(steps) + 1);
}

FloatCodec::Code FloatCodec::Encode(float value) const {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to the nearest, ties to even
  // Code 0 means unknown: zero is written as negative zero.
  return bits == 0 ? 0x8000 : static_cast<Code>(bits);
}

float FloatCodec::Decode(Code code) const {
  const uint32_t bits = code == 0x8000 ? 0 : static_cast<uint32_t>(code) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Codec>
void History<Codec>::Record(size_t series, absl::Time time, float value) {
  if (!Known(value) || !std::isfinite(value)) return;
  const int64_t second = SecondOf(time);
  if (fine_.empty() || second > fine_.back().second) {
    fine_.emplace_back().second = second;
    fine_.back().values.reserve(fine_.size() > 1 ? fine_[fine_.size() - 2].values.size() : 0);
    while (static_cast<int>(fine_.size()) > kFineColumns ||
           fine_.front().second <= second - kFineColumns) {
      fine_.pop_front();
    }
  }
  auto column = fine_.end() - 1;
  if (column->second != second) {
    column = std::lower_bound(fine_.begin(), fine_.end(), second,
                              [](const Fine& fine, int64_t at) { return fine.second < at; });
    if (column->second != second) return;  // nothing else came in that second: too late for it
  }
  if (column->values.size() <= series) column->values.resize(series + 1, 0);
  column->values[series] = codec_.Encode(value);

  const int64_t ten = second - second % kCoarseSeconds;
  if (ten < open_.second) return;
  if (ten > open_.second) {
    Close();
    open_.second = ten;
  }
  // Soon, or what was said last before a long silence would be missing in what is kept for an hour.
  CloseSome(ten - closing_.second > 6 * kCoarseSeconds ? SIZE_MAX : 2);
  if (open_.count.size() <= series) {
    open_.min.resize(series + 1, 0);
    open_.max.resize(series + 1, 0);
    open_.sum.resize(series + 1, 0);
    open_.count.resize(series + 1, 0);
  }
  uint16_t& count = open_.count[series];
  if (count == UINT16_MAX) return;
  open_.min[series] = count == 0 ? value : std::min(open_.min[series], value);
  open_.max[series] = count == 0 ? value : std::max(open_.max[series], value);
  open_.sum[series] = count == 0 ? value : open_.sum[series] + value;
  ++count;
}

template <typename Codec>
void History<Codec>::Close() {
  CloseSome(SIZE_MAX);
  if (open_.second >= 0 && !open_.count.empty()) {
    std::swap(open_, closing_);
    closed_ = 0;
    const size_t size = closing_.count.size();
    Coarse& column = coarse_.emplace_back();
    column.second = closing_.second;
    column.min.resize(size);
    column.max.resize(size);
    column.mean.resize(size);
    while (static_cast<int>(coarse_.size()) > kCoarseColumns ||
           coarse_.front().second <= closing_.second - int64_t{kCoarseColumns} * kCoarseSeconds) {
      coarse_.pop_front();
    }
    open_.min.resize(size);
    open_.max.resize(size);
    open_.sum.resize(size);
    open_.count.resize(size);
  }
  std::fill(open_.count.begin(), open_.count.end(), 0);
}

template <typename Codec>
void History<Codec>::CloseSome(size_t count) {
  const size_t size = closing_.count.size();
  if (closed_ >= size) return;
  Coarse& column = coarse_.back();
  const size_t end = count < size - closed_ ? closed_ + count : size;
  for (; closed_ < end; ++closed_) {
    const size_t i = closed_;
    if (closing_.count[i] == 0) continue;
    column.min[i] = codec_.Encode(closing_.min[i]);
    column.max[i] = codec_.Encode(closing_.max[i]);
    column.mean[i] = codec_.Encode(closing_.sum[i] / closing_.count[i]);
  }
}

template <typename Codec>
float History<Codec>::ValueAt(size_t series, absl::Time time, absl::Duration hold) const {
  if (fine_.empty()) return kUnknown;
  const int64_t second = SecondOf(time);
  const int64_t oldest = second - absl::ToInt64Seconds(hold);
  auto column = std::upper_bound(fine_.begin(), fine_.end(), second,
                                 [](int64_t at, const Fine& fine) { return at < fine.second; });
  while (column != fine_.begin()) {
    --column;
    if (column->second < oldest) return kUnknown;
    if (series < column->values.size() && column->values[series] != 0) {
      return codec_.Decode(column->values[series]);
    }
  }
  auto ten = std::upper_bound(coarse_.begin(), coarse_.end(), second,
                              [](int64_t at, const Coarse& coarse) { return at < coarse.second; });
  if (ten == coarse_.begin()) return kUnknown;
  --ten;
  if (ten->second + kCoarseSeconds <= oldest || series >= ten->mean.size() ||
      ten->mean[series] == 0) {
    return kUnknown;
  }
  return codec_.Decode(ten->mean[series]);
}

template <typename Codec>
void History<Codec>::Query(size_t series, absl::Time from, absl::Time to, int max_points,
                           std::vector<HistoryPoint>* points, absl::Duration hold) const {
  points->clear();
  if (to <= from || max_points < 1) return;
  const int64_t first = SecondOf(from);
  const int64_t last = std::max(SecondOf(to - absl::Nanoseconds(1)), first);
  const int64_t seconds = last - first + 1;
  const int64_t width = std::max<int64_t>(1, (seconds + max_points - 1) / max_points);
  const size_t buckets = static_cast<size_t>((seconds + width - 1) / width);
  points->resize(buckets);
  std::vector<int> weight(buckets, 0);
  const auto add = [&](int64_t second, float min, float max, float mean, int count) {
    const size_t bucket = static_cast<size_t>((second - first) / width);
    HistoryPoint& point = (*points)[bucket];
    if (weight[bucket] == 0) {
      point.min = min;
      point.max = max;
      point.mean = mean;
    } else {
      point.min = std::min(point.min, min);
      point.max = std::max(point.max, max);
      point.mean += (mean - point.mean) * static_cast<float>(count) /
                    static_cast<float>(weight[bucket] + count);
    }
    weight[bucket] += count;
  };
  const int64_t fine_from = fine_.empty() ? last + 1 : fine_.front().second;
  const int64_t held = absl::ToInt64Seconds(hold);
  // The value before the first bucket is held into it.
  float carried = kUnknown;
  int64_t carried_at = 0;
  for (const Coarse& column : coarse_) {
    if (column.second + kCoarseSeconds > fine_from || column.second > last) break;
    if (series >= column.mean.size() || column.mean[series] == 0) continue;
    const float min = codec_.Decode(column.min[series]);
    const float max = codec_.Decode(column.max[series]);
    const float mean = codec_.Decode(column.mean[series]);
    for (int64_t second = std::max(column.second, first);
         second < column.second + kCoarseSeconds && second <= last; ++second) {
      add(second, min, max, mean, 1);
    }
  }
  for (const Fine& column : fine_) {
    if (column.second > last) break;
    if (series >= column.values.size() || column.values[series] == 0) continue;
    const float value = codec_.Decode(column.values[series]);
    if (Known(carried)) {
      const int64_t until = std::min(column.second, carried_at + held + 1);
      for (int64_t second = std::max(carried_at + 1, first); second < until; ++second) {
        add(second, carried, carried, carried, 1);
      }
    }
    if (column.second >= first) add(column.second, value, value, value, 1);
    carried = value;
    carried_at = column.second;
  }
  for (size_t i = 0; i < buckets; ++i) {
    (*points)[i].time =
        absl::FromUnixSeconds(first + static_cast<int64_t>(i) * width) + absl::Seconds(width) / 2;
  }
}

template <typename Codec>
absl::Time History<Codec>::oldest() const {
  absl::Time oldest = absl::InfiniteFuture();
  if (!fine_.empty()) oldest = absl::FromUnixSeconds(fine_.front().second);
  if (!coarse_.empty()) oldest = std::min(oldest, absl::FromUnixSeconds(coarse_.front().second));
  return oldest;
}

template <typename Codec>
absl::Time History<Codec>::newest() const {
  return fine_.empty() ? absl::InfinitePast() : absl::FromUnixSeconds(fine_.back().second);
}

template <typename Codec>
size_t History<Codec>::memory_bytes() const {
  size_t bytes = 0;
  for (const Fine& column : fine_) bytes += CapacityBytes(column.values);
  for (const Coarse& column : coarse_) {
    bytes += CapacityBytes(column.min) + CapacityBytes(column.max) + CapacityBytes(column.mean);
  }
  for (const Open* ten : {&open_, &closing_}) {
    bytes += CapacityBytes(ten->min) + CapacityBytes(ten->max) + CapacityBytes(ten->sum) +
             CapacityBytes(ten->count);
  }
  return bytes;
}

template <typename Codec>
void History<Codec>::Clear() {
  fine_.clear();
  coarse_.clear();
  open_ = closing_ = Open();
  closed_ = SIZE_MAX;
}

template class History<ByteCodec>;
template class History<FloatCodec>;

}  // namespace millrace::dashboard
