#include "dashboard/model/format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dashboard/model/history.h"

namespace millrace::dashboard {
namespace {

constexpr absl::string_view kDash = "–";

// Below 1,000: at most three significant digits, without a superfluous ".0".
std::string Mantissa(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95) return absl::StrFormat("%.0f", value);
  if (size >= 9.995) {
    const std::string text = absl::StrFormat("%.1f", value);
    return text.substr(text.size() - 2) == ".0" ? text.substr(0, text.size() - 2) : text;
  }
  std::string text = absl::StrFormat("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Scaled(double value, double base, const absl::string_view* prefixes, int count,
                   absl::string_view unit) {
  int prefix = 0;
  // 999.6 would be written as 1000.
  while (prefix + 1 < count && std::fabs(value) >= base * 0.9995) {
    value /= base;
    ++prefix;
  }
  std::string text = Mantissa(value);
  if (!prefixes[prefix].empty() || !unit.empty()) absl::StrAppend(&text, " ", prefixes[prefix]);
  return absl::StrCat(text, unit);
}

}  // namespace

std::string FormatNumber(double value) {
  if (!Known(value)) return std::string(kDash);
  if (std::isinf(value)) return value > 0 ? "∞" : "-∞";
  if (value == std::trunc(value) && std::fabs(value) < 10'000) {
    return absl::StrFormat("%d", static_cast<int64_t>(value));
  }
  return absl::StrFormat("%.4g", value);
}

std::string FormatSi(double value, absl::string_view unit) {
  if (!std::isfinite(value)) return std::string(kDash);
  constexpr absl::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  // "1.6 M rows/s" but "412 MB/s": a word keeps its distance from the prefix.
  int prefix = 0;
  while (prefix < 5 && std::fabs(value) >= 999.5) {
    value /= 1000;
    ++prefix;
  }
  std::string text = Mantissa(value);
  if (prefix > 0) absl::StrAppend(&text, " ", kPrefixes[prefix]);
  if (unit.empty()) return text;
  const bool symbol = unit.front() == 'B' || unit == "W" || unit == "Hz";
  return absl::StrCat(text, prefix > 0 && symbol ? "" : " ", unit);
}

std::string FormatBytes(double bytes) {
  if (!std::isfinite(bytes)) return std::string(kDash);
  constexpr absl::string_view kPrefixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  return Scaled(bytes, 1024, kPrefixes, 6, "B");
}

std::string FormatBytesRate(double bytes_per_second) { return FormatSi(bytes_per_second, "B/s"); }

std::string FormatPercent(double percent) {
  if (!std::isfinite(percent)) return std::string(kDash);
  if (percent > 0.05 && percent < 0.95) return absl::StrFormat("%.1f%%", percent);
  return absl::StrFormat("%.0f%%", percent);
}

std::string FormatFraction(double fraction) { return FormatPercent(fraction * 100); }

std::string FormatCount(int64_t count) {
  const bool negative = count < 0;
  std::string digits = absl::StrCat(count);
  if (negative) digits.erase(0, 1);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return negative ? "-" + digits : digits;
}

std::string FormatSpan(absl::Duration duration) {
  if (duration == absl::InfiniteDuration() || duration == -absl::InfiniteDuration()) {
    return std::string(kDash);
  }
  if (duration < absl::ZeroDuration()) return "-" + FormatSpan(-duration);
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 0.0000005) return "0 s";
  if (seconds < 0.0009995) return Mantissa(seconds * 1e6) + " µs";
  if (seconds < 0.0095) return Mantissa(seconds * 1e3) + " ms";
  if (seconds < 0.9995) return absl::StrFormat("%.0f ms", seconds * 1e3);
  if (seconds < 9.95) {
    const std::string text = absl::StrFormat("%.1f", seconds);
    return (text.ends_with(".0") ? text.substr(0, text.size() - 2) : text) + " s";
  }
  if (seconds < 99.5) return absl::StrFormat("%.0f s", seconds);
  const int64_t whole = std::llround(seconds);
  const auto pair = [](int64_t big, absl::string_view big_unit, int64_t small,
                       absl::string_view small_unit) {
    return small == 0 ? absl::StrCat(big, " ", big_unit)
                      : absl::StrCat(big, " ", big_unit, " ", small, " ", small_unit);
  };
  if (whole < 3600) return pair(whole / 60, "min", whole % 60, "s");
  if (whole < 86400) return pair(whole / 3600, "h", whole / 60 % 60, "min");
  return pair(whole / 86400, "d", whole / 3600 % 24, "h");
}

std::string FormatAge(absl::Time time, absl::Time now) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) return std::string(kDash);
  if (now - time < absl::Milliseconds(100)) return "now";
  return FormatSpan(now - time) + " ago";
}

std::string FormatClock(absl::Time time, absl::TimeZone zone) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) return std::string(kDash);
  return absl::FormatTime("%H:%M:%E1S", time, zone);
}

std::string FormatDateTime(absl::Time time, absl::TimeZone zone) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) return std::string(kDash);
  return absl::FormatTime("%Y-%m-%d %H:%M:%E3S", time, zone);
}

double AxisTop(double value) {
  if (!(value > 0)) return 1;
  const double tens = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (value <= step * tens * 1.0001) return step * tens;
  }
  return 10 * tens;
}

absl::Duration TickStep(absl::Duration span, double most) {
  static constexpr int kSteps[] = {1,   2,   5,   10,   15,   30,   60,    120,
                                   300, 600, 900, 1800, 3600, 7200, 14400, 43200};
  for (const int seconds : kSteps) {
    if (absl::FDivDuration(span, absl::Seconds(seconds)) <= most) return absl::Seconds(seconds);
  }
  return absl::Hours(24);
}

}  // namespace millrace::dashboard
