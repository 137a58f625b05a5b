// Cluster files: the input is <id>.json and, after a zero byte, the operator's file beside it.

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/unique_fd.h"
#include "core/client/cluster_file.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

// WriteFileAtomic() waits for the disk, at each input.
void Write(const std::string& path, absl::string_view bytes) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  FUZZ_CHECK(file.valid());
  FUZZ_CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

void Fuzz(absl::string_view input) {
  static const TempDir* const folder = new TempDir(*TempDir::Create("fuzz"));
  const std::vector<std::string> files = absl::StrSplit(input, absl::MaxSplits('\0', 1));
  const std::string path = JoinPath(folder->path(), "c.json");
  Write(path, files[0]);
  Write(JoinPath(folder->path(), "c.operator"), files.size() > 1 ? files[1] : "{}");
  const absl::StatusOr<ClusterFile> cluster = ReadClusterFile(path);
  FUZZ_CHECK(!cluster.ok() || (!cluster->cluster_id.empty() && cluster->path == path));
}

}  // namespace millrace
