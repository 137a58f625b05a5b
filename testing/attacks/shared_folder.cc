#include "testing/attacks/shared_folder.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "core/base/file.h"
#include "core/base/log.h"

namespace millrace {

SharedFolder::SharedFolder(unsigned mode) : path_("/tmp/millrace-shared.XXXXXX") {
  MILLRACE_CHECK(mkdtemp(path_.data()) != nullptr) << "cannot make " << path_;
  MILLRACE_CHECK(chmod(path_.c_str(), mode) == 0);
}

SharedFolder::~SharedFolder() {
  std::error_code ignored;  // nobody could act on it
  std::filesystem::remove_all(path_, ignored);
}

std::string SharedFolder::Path(absl::string_view name) const { return JoinPath(path_, name); }

}  // namespace millrace
