#include "dashboard/model/history.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace millrace::dashboard {
namespace {

// Series of the second before that are packed with each value that is recorded.
constexpr size_t kPackedAtOnce = 128;

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

// ---- packed columns ----

void BitColumn::Reserve(size_t bits) {
  words_.reserve((bits + 63) / 64);
  before_.reserve((bits + 64 * kWordsPerCount - 1) / (64 * kWordsPerCount));
}

void BitColumn::Add(bool bit) {
  if (size_ % (64 * kWordsPerCount) == 0) before_.push_back(static_cast<uint32_t>(ones_));
  if (size_ % 64 == 0) words_.push_back(0);
  if (bit) {
    words_.back() |= uint64_t{1} << (size_ % 64);
    ++ones_;
  }
  ++size_;
}

size_t BitColumn::OnesBefore(size_t index) const {
  const size_t word = index / 64;
  size_t ones = before_[word / kWordsPerCount];
  for (size_t i = word / kWordsPerCount * kWordsPerCount; i < word; ++i) {
    ones += static_cast<size_t>(std::popcount(words_[i]));
  }
  const uint64_t below = (uint64_t{1} << (index % 64)) - 1;
  return ones + static_cast<size_t>(std::popcount(words_[word] & below));
}

size_t BitColumn::memory_bytes() const { return CapacityBytes(words_) + CapacityBytes(before_); }

template <typename Codec>
typename Codec::Code History<Codec>::Fine::at(size_t series) const {
  if (!packed) return series < values.size() ? values[series] : Code{0};
  return is_known.at(series) ? values[is_known.OnesBefore(series)] : Code{0};
}

template <typename Codec>
void History<Codec>::Coarse::Add(Code min, Code max, Code mean) {
  is_known.Add(mean != 0);
  if (mean == 0) return;
  values.push_back(mean);
  differ.Add(min != max || min != mean);
  if (min == max && min == mean) return;
  values.push_back(min);
  values.push_back(max);
}

template <typename Codec>
bool History<Codec>::Coarse::At(size_t series, Code* min, Code* max, Code* mean) const {
  if (!is_known.at(series)) return false;
  const size_t known = is_known.OnesBefore(series);
  const Code* value = values.data() + known + 2 * differ.OnesBefore(known);
  *mean = value[0];
  *min = differ.at(known) ? value[1] : value[0];
  *max = differ.at(known) ? value[2] : value[0];
  return true;
}

template <typename Codec>
void History<Codec>::BeginPacking() {
  PackSome(SIZE_MAX);
  if (fine_.empty()) return;
  const Fine& column = fine_.back();
  const size_t size = column.values.size();
  // Bits and their counts, and what is known.
  if (size / 8 + size / 128 + column.known * sizeof(Code) >= size * sizeof(Code)) return;
  packing_ = Fine();
  packing_.second = column.second;
  packing_.packed = true;
  packing_.known = column.known;
  packing_.values.reserve(column.known);
  packing_.is_known.Reserve(size);
  packed_ = 0;
}

template <typename Codec>
void History<Codec>::PackSome(size_t count) {
  if (packed_ == SIZE_MAX) return;
  // The newest one is being written; this one is before it, until it is too old.
  auto column = fine_.end();
  while (column != fine_.begin() && (column - 1)->second >= packing_.second) --column;
  if (column == fine_.end() || column->second != packing_.second) {
    packed_ = SIZE_MAX;
    return;
  }
  const std::vector<Code>& values = column->values;
  const size_t end = count < values.size() - packed_ ? packed_ + count : values.size();
  for (; packed_ < end; ++packed_) {
    const Code code = values[packed_];
    packing_.is_known.Add(code != 0);
    if (code != 0) packing_.values.push_back(code);
  }
  if (packed_ < values.size()) return;
  packed_ = SIZE_MAX;
  std::swap(*column, packing_);
  spare_ = std::move(packing_.values);
  packing_ = Fine();
}

// For a value that comes late.
template <typename Codec>
void History<Codec>::Unpack(Fine* column) {
  if (packed_ != SIZE_MAX && packing_.second == column->second) PackSome(SIZE_MAX);
  if (!column->packed) return;
  std::vector<Code> values(column->is_known.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = column->at(i);
  column->values = std::move(values);
  column->is_known = BitColumn();
  column->packed = false;
}

// ---- recording ----

template <typename Codec>
void History<Codec>::Record(size_t series, absl::Time time, float value) {
  if (!Known(value) || !std::isfinite(value)) return;
  const int64_t second = SecondOf(time);
  if (fine_.empty() || second > fine_.back().second) {
    const size_t series_before = fine_.empty() ? 0 : fine_.back().values.size();
    BeginPacking();
    Fine& column = fine_.emplace_back();
    column.second = second;
    column.values = std::exchange(spare_, {});
    column.values.clear();
    column.values.reserve(series_before);
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
    Unpack(&*column);
  }
  if (column->values.size() <= series) column->values.resize(series + 1, 0);
  if (column->values[series] == 0) ++column->known;
  column->values[series] = codec_.Encode(value);
  PackSome(kPackedAtOnce);

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
    column.is_known.Reserve(size);
    if (coarse_.size() > 1) {
      const size_t last = coarse_[coarse_.size() - 2].values.size();
      column.values.reserve(last + last / 8);
    }
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
    if (closing_.count[i] == 0) {
      column.Add(0, 0, 0);
    } else {
      column.Add(codec_.Encode(closing_.min[i]), codec_.Encode(closing_.max[i]),
                 codec_.Encode(closing_.sum[i] / closing_.count[i]));
    }
  }
  if (closed_ == size) column.values.shrink_to_fit();
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
    if (const Code code = column->at(series); code != 0) return codec_.Decode(code);
  }
  auto ten = std::upper_bound(coarse_.begin(), coarse_.end(), second,
                              [](int64_t at, const Coarse& coarse) { return at < coarse.second; });
  if (ten == coarse_.begin()) return kUnknown;
  --ten;
  Code min = 0, max = 0, mean = 0;
  if (ten->second + kCoarseSeconds <= oldest || !ten->At(series, &min, &max, &mean)) {
    return kUnknown;
  }
  return codec_.Decode(mean);
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
    Code codes[3] = {};
    if (!column.At(series, &codes[0], &codes[1], &codes[2])) continue;
    const float min = codec_.Decode(codes[0]);
    const float max = codec_.Decode(codes[1]);
    const float mean = codec_.Decode(codes[2]);
    for (int64_t second = std::max(column.second, first);
         second < column.second + kCoarseSeconds && second <= last; ++second) {
      add(second, min, max, mean, 1);
    }
  }
  for (const Fine& column : fine_) {
    if (column.second > last) break;
    const Code code = column.at(series);
    if (code == 0) continue;
    const float value = codec_.Decode(code);
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
  const auto add_fine = [&bytes](const Fine& column) {
    bytes += CapacityBytes(column.values) + column.is_known.memory_bytes();
  };
  for (const Fine& column : fine_) add_fine(column);
  add_fine(packing_);
  bytes += CapacityBytes(spare_);
  for (const Coarse& column : coarse_) {
    bytes += CapacityBytes(column.values) + column.is_known.memory_bytes() +
             column.differ.memory_bytes();
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
  closed_ = packed_ = SIZE_MAX;
  packing_ = Fine();
  spare_ = {};
}

template class History<ByteCodec>;
template class History<FloatCodec>;

}  // namespace millrace::dashboard
