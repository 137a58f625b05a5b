// What the GPU helper and nvidia-smi print: a line of JSON, or lines of CSV.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/gpu/gpu_lines.h"
#include "core/gpu/gpu_snapshot.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {

void Fuzz(absl::string_view input) {
  const absl::StatusOr<GpuLine> line = ParseGpuLine(input);
  FUZZ_CHECK(!line.ok() || line->text.find('\n') == std::string::npos);
  ParseNvidiaSmi(input, absl::UnixEpoch()).IgnoreError();
}

}  // namespace millrace
