// File: core/cli/output/duration_text.h
//
// Times as people write and read them.
//
// Defines: ParseDurationText(), DurationText(), ClockText(), CountText(), BytesText().
//
// Thread safety: pure functions.
#ifndef CORE_CLI_OUTPUT_DURATION_TEXT_H_
#define CORE_CLI_OUTPUT_DURATION_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::cli {

// "90", "90s", "1.5h", "2h30m", "250ms" (a bare number is seconds); "never" or "-1" is
// absl::InfiniteDuration(). Returns INVALID_ARGUMENT, quoting the text, for anything else and for
// zero.
[[nodiscard]] absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text);

// Two or three significant digits: "12 ms", "1.2 s", "45 s", "3 min 20 s", "2 h 05 min", "3 d 4 h";
// "never" for an infinite one, "0 s" for nothing and less.
[[nodiscard]] std::string DurationText(absl::Duration duration);

// "14:03:07.120", UTC.
[[nodiscard]] std::string ClockText(absl::Time time);

// "789", "45.6 k", "1.23 M".
[[nodiscard]] std::string CountText(double value);

// "812 B", "1.5 KiB", "3.2 GiB".
[[nodiscard]] std::string BytesText(uint64_t bytes);

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_DURATION_TEXT_H_
