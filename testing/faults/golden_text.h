// File: testing/faults/golden_text.h
//
// Error texts as they are compared with what is written down: what differs from run to run has a
// name.
//
// Defines: GoldenText(), FailsWith().
//
//   EXPECT_THAT(cluster->Train(source),
//               FailsWith(absl::StatusCode::kAborted,
//                         "worker:1 (executor 1, attempt 0, host HOST, pid PID) exited with code
//                         1"));

#ifndef TESTING_FAULTS_GOLDEN_TEXT_H_
#define TESTING_FAULTS_GOLDEN_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"

namespace millrace::faults {

// The first line of `text`, in which
//   PID     stands for a process id ("pid 42")
//   HOST    for this host's name
//   ADDRESS for an address on loopback
//   TMP     for TMPDIR, RUNFILES for the repository's files
//   ID      for 12 and more hex digits
//   T s     for a duration that was measured ("2.1 s ago", "for 2.1 s")
[[nodiscard]] std::string GoldenText(absl::string_view text);

// Matches a Status or StatusOr with `code` whose GoldenText is `line`.
[[nodiscard]] inline auto FailsWith(absl::StatusCode code, const std::string& line) {
  return StatusIs(code, ::testing::ResultOf("GoldenText", &GoldenText, ::testing::StrEq(line)));
}

}  // namespace millrace::faults

#endif  // TESTING_FAULTS_GOLDEN_TEXT_H_
