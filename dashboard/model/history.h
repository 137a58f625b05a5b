// File: dashboard/model/history.h
//
// The past of many series of one metric, bounded: one value a second for five minutes, and minimum,
// maximum and mean of every ten seconds for an hour.
//
// Defines: HistoryPoint, Known(), kUnknown, BitColumn, History, ByteHistory, FloatHistory.
//
//   FloatHistory rows;                                  // series i: node i
//   rows.Record(/*series=*/3, now, 1200);
//   std::vector<HistoryPoint> points;
//   rows.Query(3, now - absl::Minutes(5), now, /*max_points=*/400, &points);
//
// Values are quantised: ByteHistory holds 0 to 254 steps in one byte (what is above is cut),
// FloatHistory any value with 8 bits of precision (0.4 %) in two. The newest exact value is the
// model's, not the history's. Values that were not recorded are unknown, never 0.
//
// A column holds all series of one second side by side: recording touches little memory, and series
// that come later cost nothing in the columns before them. A column that is over is packed: a
// series without a value in it takes a bit, one whose values were all the same in ten seconds takes
// one value for minimum, maximum and mean. So an hour of a series takes, in bytes:
//
//                                                             ByteHistory    FloatHistory
//   sampled each second, always another value                       1,510           2,890
//   sampled each second, always the same value                        790           1,450
//   sampled every 40 s, as those of 100,000 nodes are                 230             330
//
// Thread safety: not thread-safe; const methods may run concurrently.

#ifndef DASHBOARD_MODEL_HISTORY_H_
#define DASHBOARD_MODEL_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "absl/time/time.h"

namespace millrace::dashboard {

inline constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
[[nodiscard]] constexpr bool Known(double value) { return value == value; }

// Of one span of time; all three are kUnknown where nothing was recorded: a gap.
struct HistoryPoint {
  absl::Time time;  // middle of the span
  float min = kUnknown;
  float max = kUnknown;
  float mean = kUnknown;
};

// How values become codes; code 0 is unknown.
class ByteCodec {
 public:
  using Code = uint8_t;
  explicit ByteCodec(float step) : step_(step) {}
  [[nodiscard]] Code Encode(float value) const;
  [[nodiscard]] float Decode(Code code) const { return static_cast<float>(code - 1) * step_; }

 private:
  float step_;
};

class FloatCodec {
 public:
  using Code = uint16_t;
  [[nodiscard]] Code Encode(float value) const;
  [[nodiscard]] float Decode(Code code) const;
};

// Bits of a column, added in order, and how many are set before each.
class BitColumn {
 public:
  void Reserve(size_t bits);
  void Add(bool bit);
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t ones() const { return ones_; }
  // False beyond what was added.
  [[nodiscard]] bool at(size_t index) const {
    return index < size_ && (words_[index / 64] >> (index % 64) & 1) != 0;
  }
  // Of those before `index`, which is less than size().
  [[nodiscard]] size_t OnesBefore(size_t index) const;
  [[nodiscard]] size_t memory_bytes() const;

 private:
  static constexpr size_t kWordsPerCount = 8;
  std::vector<uint64_t> words_;
  std::vector<uint32_t> before_;  // set before each kWordsPerCount words
  size_t size_ = 0;
  size_t ones_ = 0;
};

template <typename Codec>
class History {
 public:
  static constexpr int kFineColumns = 300;
  static constexpr int kCoarseColumns = 360;
  static constexpr int kCoarseSeconds = 10;

  explicit History(Codec codec = Codec()) : codec_(codec) {}

  // Within one second the last value counts. A value of a second that is gone already is left out
  // of what is kept for an hour; kUnknown is ignored.
  void Record(size_t series, absl::Time time, float value);

  // The last value at or before `time`, at most `hold` older; kUnknown if there is none.
  [[nodiscard]] float ValueAt(size_t series, absl::Time time,
                              absl::Duration hold = absl::Seconds(6)) const;

  // Replaces `points` by [from, to) in order, in spans of at least one second, at most `max_points`
  // (at least 1) of them. A value is held for `hold`: samples may be further apart than a second.
  void Query(size_t series, absl::Time from, absl::Time to, int max_points,
             std::vector<HistoryPoint>* points, absl::Duration hold = absl::Seconds(6)) const;

  // Of all that was recorded; InfiniteFuture() and InfinitePast() if nothing was.
  [[nodiscard]] absl::Time oldest() const;
  [[nodiscard]] absl::Time newest() const;
  [[nodiscard]] size_t memory_bytes() const;
  void Clear();

 private:
  using Code = typename Codec::Code;
  struct Fine {
    int64_t second = 0;
    size_t known = 0;
    bool packed = false;
    std::vector<Code> values;  // by series or, of one that is packed, of those that are known
    BitColumn is_known;        // if it is packed

    [[nodiscard]] Code at(size_t series) const;
  };
  struct Coarse {
    int64_t second = 0;          // the first of its ten
    BitColumn is_known, differ;  // of series; of those that are known
    // Of each that is known its mean, then minimum and maximum if any of the three differ.
    std::vector<Code> values;

    void Add(Code min, Code max, Code mean);
    // False: it is not known.
    [[nodiscard]] bool At(size_t series, Code* min, Code* max, Code* mean) const;
  };
  // Ten seconds that are not over yet.
  struct Open {
    int64_t second = -1;
    std::vector<float> min, max, sum;
    std::vector<uint16_t> count;
  };

  // Begins another ten seconds. The last ten become a column bit by bit, with the records that
  // follow: to make it all at once would take tens of milliseconds for 80,000 series.
  void Close();
  // Writes the next `count` series into that column.
  void CloseSome(size_t count);
  // The second that is over is packed in the same way, if that makes it smaller.
  void BeginPacking();
  void PackSome(size_t count);
  void Unpack(Fine* column);

  Codec codec_;
  std::deque<Fine> fine_;      // by second, at most kFineColumns
  std::deque<Coarse> coarse_;  // by second, at most kCoarseColumns
  Open open_;
  Open closing_;              // becomes coarse_.back()
  size_t closed_ = SIZE_MAX;  // series of it that have
  Fine packing_;              // becomes what is in fine_ for its second
  size_t packed_ = SIZE_MAX;  // series of it that are
  std::vector<Code> spare_;   // room for the next second
};

using ByteHistory = History<ByteCodec>;
using FloatHistory = History<FloatCodec>;

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_HISTORY_H_
