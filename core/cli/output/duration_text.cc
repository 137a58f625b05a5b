#include "core/cli/output/duration_text.h"

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace millrace::cli {

absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text) {
  if (text == "never" || text == "-1") return absl::InfiniteDuration();
  absl::Duration duration;
  double seconds = 0;
  // SimpleAtod takes "inf" and "nan" too.
  const bool number =
      !text.empty() &&
      (absl::ascii_isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.') &&
      absl::SimpleAtod(text, &seconds);
  if (number) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(std::string(text), &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Ellipsize(EscapeControls(text), 60),
                     "' is not a duration: write 90s, 10m, 1.5h or never"));
  }
  if (duration <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Ellipsize(EscapeControls(text), 60),
                     "' must be more than 0; write never for no limit"));
  }
  return duration;
}

std::string DurationText(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "never";
  if (duration <= absl::ZeroDuration()) return "0 s";
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 0.9995) return absl::StrFormat("%.0f ms", seconds * 1e3 < 1 ? 1 : seconds * 1e3);
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 59.5) return absl::StrFormat("%.0f s", seconds);
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%d d %d h", whole / 86400, whole % 86400 / 3600);
}

std::string ClockText(absl::Time time) {
  return absl::FormatTime("%H:%M:%E3S", time, absl::UTCTimeZone());
}

std::string CountText(double value) {
  if (value >= 1e9) return absl::StrFormat("%.2f G", value / 1e9);
  if (value >= 1e6) return absl::StrFormat("%.2f M", value / 1e6);
  if (value >= 1e4) return absl::StrFormat("%.1f k", value / 1e3);
  return absl::StrFormat("%.0f", value);
}

std::string BytesText(uint64_t bytes) {
  constexpr std::array<absl::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace millrace::cli
