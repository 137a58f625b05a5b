// A TFRecord file. Its records are read raw, and as Examples of whatever schema they show.
//
//   byte 0   even: the rest is the file
//            odd: the rest are records, from which a file with right checksums is made; of each
//              u8 size, bytes

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"
#include "feed/ipc/ipc.h"
#include "feed/source/tfrecord/masked_crc32c.h"
#include "millrace/record_batch.h"
#include "millrace/tf_record.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

void PutChecksum(absl::string_view of, std::string* file) {
  const uint32_t crc = MaskedCrc32c(of);
  file->append(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

std::string MakeFile(absl::string_view records) {
  std::string file;
  while (!records.empty()) {
    const size_t size = std::min<size_t>(static_cast<uint8_t>(records[0]), records.size() - 1);
    const absl::string_view record = records.substr(1, size);
    const uint64_t length = size;
    const std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
    file += header;
    PutChecksum(header, &file);
    file.append(record.data(), record.size());
    PutChecksum(record, &file);
    records.remove_prefix(1 + size);
  }
  return file;
}

// The rows, or -1 for an error.
int64_t ReadAll(const std::string& path, const TfRecordSourceOptions& options) {
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({path}, options);
  if (!source.ok()) return -1;
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = (*source)->Open(0, 0);
  FUZZ_CHECK(reader.ok());
  int64_t rows = 0;
  while (true) {
    const absl::StatusOr<std::optional<RecordBatch>> batch = (*reader)->Next();
    if (!batch.ok()) return -1;
    if (!batch->has_value()) return rows;
    FUZZ_CHECK((*batch)->num_rows() > 0);
    FUZZ_CHECK(EncodeBatch(**batch).ok());
    rows += (*batch)->num_rows();
  }
}

}  // namespace

void Fuzz(absl::string_view input) {
  if (input.empty()) return;
  const bool made = (input[0] & 1) != 0;
  const std::string bytes = made ? MakeFile(input.substr(1)) : std::string(input.substr(1));
  const UniqueFd file(memfd_create("fuzz", MFD_CLOEXEC));
  FUZZ_CHECK(file.valid());
  FUZZ_CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const std::string path = absl::StrCat("/proc/self/fd/", file.get());
  const int64_t rows = ReadAll(path, {.raw = true, .batch_bytes = 100});
  FUZZ_CHECK(!made || rows >= 0);
  const int64_t examples = ReadAll(path, {.sample_records = 3, .batch_bytes = 100});
  FUZZ_CHECK(examples < 0 || examples == rows);
}

}  // namespace millrace
