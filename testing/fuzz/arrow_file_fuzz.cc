// Arrow IPC files and streams: the input is the file.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"
#include "feed/ipc/ipc.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {

void Fuzz(absl::string_view input) {
  const UniqueFd file(memfd_create("fuzz", MFD_CLOEXEC));
  FUZZ_CHECK(file.valid());
  FUZZ_CHECK(write(file.get(), input.data(), input.size()) == static_cast<ssize_t>(input.size()));
  const absl::StatusOr<std::unique_ptr<ArrowIpcSource>> source =
      ArrowIpcSource::Create({absl::StrCat("/proc/self/fd/", file.get())});
  if (!source.ok()) return;
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = (*source)->Open(0, 0);
  if (!reader.ok()) return;
  while (true) {
    const absl::StatusOr<std::optional<RecordBatch>> batch = (*reader)->Next();
    if (!batch.ok() || !batch->has_value()) return;
    if ((*batch)->num_rows() > 0) FUZZ_CHECK(EncodeBatch(**batch).ok());
  }
}

}  // namespace millrace
