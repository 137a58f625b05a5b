// File: dashboard/model/format.h
//
// Numbers as an instrument shows them: at most four significant digits, a unit, a stable width.
//
// Defines: FormatNumber(), FormatSi(), FormatBytes(), FormatBytesRate(), FormatPercent(),
// FormatFraction(), FormatCount(), FormatSpan(), FormatAge(), FormatClock(), FormatDateTime();
// AxisTop(), TickStep() for the axes of plots.
//
// Unknown values (kUnknown, infinite times and durations) are written "–". Thread safety: pure
// functions.

#ifndef DASHBOARD_MODEL_FORMAT_H_
#define DASHBOARD_MODEL_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

// "0", "0.01234", "12.35", "1235", "1.235e7".
[[nodiscard]] std::string FormatNumber(double value);
// Base 10, with a prefix: "1.6 M rows/s", "950 rows/s", "0 rows/s". Empty unit: "1.6 M".
[[nodiscard]] std::string FormatSi(double value, absl::string_view unit);
// Memory, base 2: "0 B", "512 B", "1.5 KiB", "74.5 GiB".
[[nodiscard]] std::string FormatBytes(double bytes);
// Base 10: "412 MB/s".
[[nodiscard]] std::string FormatBytesRate(double bytes_per_second);
// "62%" of 62.3; "0.4%" below 1.
[[nodiscard]] std::string FormatPercent(double percent);
// "62%" of 0.623.
[[nodiscard]] std::string FormatFraction(double fraction);
// "10,000".
[[nodiscard]] std::string FormatCount(int64_t count);
// "340 ms", "1.2 s", "14 s", "2 min 5 s", "2 h 14 min", "3 d 4 h".
[[nodiscard]] std::string FormatSpan(absl::Duration duration);
// FormatSpan() of now - time with " ago"; "now" below 0.1 s and for the future.
[[nodiscard]] std::string FormatAge(absl::Time time, absl::Time now);
// "10:41:07.3".
[[nodiscard]] std::string FormatClock(absl::Time time, absl::TimeZone zone);
// "2026-01-02 10:41:07.312".
[[nodiscard]] std::string FormatDateTime(absl::Time time, absl::TimeZone zone);

// A round number at or above `value`: 1, 2, 2.5, 5 and their tens. 1 if it is not above 0.
[[nodiscard]] double AxisTop(double value);
// The smallest round time that is in `span` at most `most` times; a day if there is none.
[[nodiscard]] absl::Duration TickStep(absl::Duration span, double most);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_FORMAT_H_
