// File: core/metrics/metrics_text.h
//
// Numbers in the text that Prometheus and its kin read: OpenMetrics 1.0, or version 0.0.4 of the
// text format that came before it.
//
// Defines: MetricsFormat, MetricType, MetricFamily, MetricLabel, MetricsText.
//
//   MetricsText text(MetricsFormat::kOpenMetrics);
//   text.Begin({.name = "millrace_slots", .help = "Slots by state."});
//   text.Add({{"state", "running"}}, 12);
//   WriteAnswer(std::move(text).Finish());
#ifndef CORE_METRICS_METRICS_TEXT_H_
#define CORE_METRICS_METRICS_TEXT_H_

#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

enum class MetricsFormat { kOpenMetrics, kText };

// What an answer in this format calls itself.
[[nodiscard]] absl::string_view ContentType(MetricsFormat format);
// The one that a request with this `Accept` wants.
[[nodiscard]] MetricsFormat AcceptedFormat(absl::string_view accept);

enum class MetricType { kGauge, kCounter, kInfo };

struct MetricFamily {
  absl::string_view name;  // without "_total" and "_info"; ends in the unit, if there is one
  MetricType type = MetricType::kGauge;
  absl::string_view help;
  absl::string_view unit = "";  // "seconds", "bytes"
};

struct MetricLabel {
  absl::string_view name;
  absl::string_view value;  // any text
};

// Thread safety: none. Blocking: never.
class MetricsText {
 public:
  explicit MetricsText(MetricsFormat format) : format_(format) {}

  // The samples of a family follow it, and each family is begun once. One without any is left out.
  void Begin(const MetricFamily& family) {
    family_ = family;
    sample_.clear();
  }
  void Add(std::initializer_list<MetricLabel> labels, double value);

  [[nodiscard]] std::string Finish() &&;

 private:
  void AddHead();

  const MetricsFormat format_;
  std::string text_;
  MetricFamily family_;
  std::string sample_;  // the name of the family's samples; empty before the first one
};

}  // namespace millrace

#endif  // CORE_METRICS_METRICS_TEXT_H_
