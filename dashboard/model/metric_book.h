// File: dashboard/model/metric_book.h
//
// What programs report of themselves (loss, accuracy, ...), by name and node and over steps.
//
// Defines: MetricSample, MetricSeries, MetricBook, Smooth().
//
// Thread safety: not thread-safe; const methods may run concurrently.

#ifndef DASHBOARD_MODEL_METRIC_BOOK_H_
#define DASHBOARD_MODEL_METRIC_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

struct MetricSample {
  int64_t step = 0;
  float value = 0;  // NaN and infinite values are the program's own and kept
  absl::Time time;
  uint32_t attempt = 0;
};

// One metric of one node. Of a long run every 2nd, 4th, ... sample is kept: at most kMaxSamples,
// always the newest.
class MetricSeries {
 public:
  static constexpr size_t kMaxSamples = 4096;

  MetricSeries(std::string name, int executor_id)
      : name_(std::move(name)), executor_id_(executor_id) {}
  void Add(const MetricSample& sample);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int executor_id() const { return executor_id_; }
  // In the order in which they came: steps may go back where an attempt begins.
  [[nodiscard]] const std::vector<MetricSample>& samples() const { return samples_; }
  // That came in all.
  [[nodiscard]] uint64_t count() const { return count_; }

 private:
  std::string name_;
  int executor_id_;
  std::vector<MetricSample> samples_;
  uint64_t count_ = 0;
  uint64_t stride_ = 1;
  bool last_is_extra_ = false;  // the newest, which the stride would leave out
};

class MetricBook {
 public:
  static constexpr size_t kMaxSeries = 20'000;

  // A series beyond kMaxSeries is not kept; returns false then.
  bool Add(absl::string_view name, int executor_id, const MetricSample& sample);
  void Clear() { series_.clear(); }

  // Sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  // Of one name, by executor id. Valid until the book changes.
  [[nodiscard]] std::vector<const MetricSeries*> SeriesOf(absl::string_view name) const;
  [[nodiscard]] const MetricSeries* Find(absl::string_view name, int executor_id) const;
  [[nodiscard]] size_t size() const { return series_.size(); }
  [[nodiscard]] size_t memory_bytes() const;

 private:
  std::map<std::pair<std::string, int>, MetricSeries, std::less<>> series_;
};

// Exponential moving average, unbiased at the beginning: `weight` (0 to 0.999) of what was before
// in the same attempt. Values that are no numbers are left out of it and stay.
[[nodiscard]] std::vector<float> Smooth(const std::vector<MetricSample>& samples, float weight);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_METRIC_BOOK_H_
