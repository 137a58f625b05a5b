// JSON Lines, as agent and parent send them to each other: the first byte says how many bytes come
// at once, the rest is the stream. A value is written and read again, and taken for the parameters
// of `start`.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/link/start_params.h"
#include "core/base/json.h"
#include "core/base/line_reader.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

constexpr size_t kMaxLineBytes = 1000;

void Take(absl::string_view line) {
  FUZZ_CHECK(line.size() <= kMaxLineBytes && line.find('\n') == absl::string_view::npos);
  const absl::StatusOr<Json> value = ParseJson(line);
  if (!value.ok()) return;
  const absl::StatusOr<Json> again = ParseJson(DumpJson(*value));
  FUZZ_CHECK(again.ok() && *again == *value);
  ParseStartParams(*value).IgnoreError();
}

}  // namespace

void Fuzz(absl::string_view input) {
  if (input.empty()) return;
  const size_t step = 1 + static_cast<uint8_t>(input[0]);
  LineReader lines(kMaxLineBytes);
  for (size_t at = 1; at < input.size(); at += step) {
    lines.Append(input.substr(at, step));
    while (true) {
      const absl::StatusOr<std::optional<absl::string_view>> line = lines.Next();
      if (!line.ok()) return;
      if (!line->has_value()) break;
      Take(**line);
    }
  }
}

}  // namespace millrace
