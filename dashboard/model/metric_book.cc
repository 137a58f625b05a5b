#include "dashboard/model/metric_book.h"

#include <algorithm>
#include <cmath>

namespace millrace::dashboard {

void MetricSeries::Add(const MetricSample& sample) {
  if (last_is_extra_) samples_.pop_back();
  last_is_extra_ = count_ % stride_ != 0;
  samples_.push_back(sample);
  ++count_;
  if (samples_.size() < kMaxSamples) return;
  for (size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
  const bool newest_lost = samples_.size() % 2 == 0;
  samples_.resize((samples_.size() + 1) / 2);
  stride_ *= 2;
  last_is_extra_ = newest_lost;
  if (newest_lost) samples_.push_back(sample);
}

bool MetricBook::Add(absl::string_view name, int executor_id, const MetricSample& sample) {
  const auto key = std::make_pair(std::string(name), executor_id);
  auto found = series_.find(key);
  if (found == series_.end()) {
    if (series_.size() >= kMaxSeries) return false;
    found = series_.emplace(key, MetricSeries(key.first, executor_id)).first;
  }
  found->second.Add(sample);
  return true;
}

std::vector<std::string> MetricBook::names() const {
  std::vector<std::string> names;
  for (const auto& [key, series] : series_) {
    if (names.empty() || names.back() != key.first) names.push_back(key.first);
  }
  return names;
}

std::vector<const MetricSeries*> MetricBook::SeriesOf(absl::string_view name) const {
  std::vector<const MetricSeries*> found;
  for (auto at = series_.lower_bound(std::make_pair(std::string(name), -1));
       at != series_.end() && at->first.first == name; ++at) {
    found.push_back(&at->second);
  }
  return found;
}

const MetricSeries* MetricBook::Find(absl::string_view name, int executor_id) const {
  const auto found = series_.find(std::make_pair(std::string(name), executor_id));
  return found == series_.end() ? nullptr : &found->second;
}

size_t MetricBook::memory_bytes() const {
  size_t bytes = 0;
  for (const auto& [key, series] : series_) {
    bytes += sizeof(series) + key.first.size() + series.samples().capacity() * sizeof(MetricSample);
  }
  return bytes;
}

std::vector<float> Smooth(const std::vector<MetricSample>& samples, float weight) {
  weight = std::clamp(weight, 0.0f, 0.999f);
  std::vector<float> smooth(samples.size());
  double sum = 0;
  double total = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const float value = samples[i].value;
    // A later attempt has nothing to do with the one before it.
    if (i > 0 && samples[i].attempt != samples[i - 1].attempt) sum = total = 0;
    if (!std::isfinite(value)) {
      smooth[i] = value;
      continue;
    }
    sum = sum * weight + value;
    total = total * weight + 1;
    smooth[i] = static_cast<float>(sum / total);
  }
  return smooth;
}

}  // namespace millrace::dashboard
