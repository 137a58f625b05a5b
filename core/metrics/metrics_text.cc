#include "core/metrics/metrics_text.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace {
namespace {

constexpr double kExactIntegers = 1e15;

void AddValue(double value, std::string* out) {
  if (std::isnan(value)) {
    absl::StrAppend(out, "NaN");
  } else if (std::isinf(value)) {
    absl::StrAppend(out, value > 0 ? "+Inf" : "-Inf");
  } else if (value == std::floor(value) && std::abs(value) < kExactIntegers) {
    absl::StrAppend(out, static_cast<int64_t>(value));
  } else {
    absl::StrAppendFormat(out, "%.15g", value);
  }
}

void AddEscaped(absl::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == '\n') {
      out->append("\\n");
    } else {
      if (c == '\\' || c == '"') out->push_back('\\');
      out->push_back(c);
    }
  }
}

absl::string_view Suffix(MetricType type) {
  switch (type) {
    case MetricType::kGauge:
      return "";
    case MetricType::kCounter:
      return "_total";
    case MetricType::kInfo:
      return "_info";
  }
  return "";
}

absl::string_view TypeName(MetricType type, MetricsFormat format) {
  switch (type) {
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kCounter:
      return "counter";
    case MetricType::kInfo:
      return format == MetricsFormat::kOpenMetrics ? "info" : "gauge";
  }
  return "unknown";
}

}  // namespace

absl::string_view ContentType(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

MetricsFormat AcceptedFormat(absl::string_view accept) {
  return absl::StrContains(accept, "application/openmetrics-text") ? MetricsFormat::kOpenMetrics
                                                                   : MetricsFormat::kText;
}

void MetricsText::AddHead() {
  sample_ = absl::StrCat(family_.name, Suffix(family_.type));
  // The older format knows no families: its types are those of samples.
  const absl::string_view name =
      format_ == MetricsFormat::kOpenMetrics ? family_.name : absl::string_view(sample_);
  absl::StrAppend(&text_, "# TYPE ", name, " ", TypeName(family_.type, format_), "\n");
  if (format_ == MetricsFormat::kOpenMetrics && !family_.unit.empty()) {
    absl::StrAppend(&text_, "# UNIT ", name, " ", family_.unit, "\n");
  }
  absl::StrAppend(&text_, "# HELP ", name, " ", family_.help, "\n");
}

void MetricsText::Add(std::initializer_list<MetricLabel> labels, double value) {
  if (sample_.empty()) AddHead();
  text_.append(sample_);
  char before = '{';
  for (const MetricLabel& label : labels) {
    text_.push_back(std::exchange(before, ','));
    absl::StrAppend(&text_, label.name, "=\"");
    AddEscaped(label.value, &text_);
    text_.push_back('"');
  }
  if (before == ',') text_.push_back('}');
  text_.push_back(' ');
  AddValue(value, &text_);
  text_.push_back('\n');
}

std::string MetricsText::Finish() && {
  if (format_ == MetricsFormat::kOpenMetrics) text_.append("# EOF\n");
  return std::move(text_);
}

}  // namespace millrace
