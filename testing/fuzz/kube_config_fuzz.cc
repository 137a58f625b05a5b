// A kubeconfig: the input is the file.

#include <sys/mman.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"
#include "resolver/kubernetes/client/kube_config.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {

void Fuzz(absl::string_view input) {
  const UniqueFd file(memfd_create("fuzz", MFD_CLOEXEC));
  FUZZ_CHECK(file.valid());
  FUZZ_CHECK(write(file.get(), input.data(), input.size()) == static_cast<ssize_t>(input.size()));
  const absl::StatusOr<KubeConfig> config =
      LoadKubeConfig({.path = absl::StrCat("/proc/self/fd/", file.get()), .context = ""});
  FUZZ_CHECK(!config.ok() || !config->server.empty());
}

}  // namespace millrace
