#include "dashboard/app/host.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "millrace/status_macros.h"

namespace millrace::dashboard {

absl::StatusOr<std::string> SaveCsv(const std::string& folder, absl::string_view name,
                                    absl::string_view csv, absl::Time now) {
  const std::string stamp = absl::FormatTime("%Y%m%d-%H%M%S", now, absl::LocalTimeZone());
  const std::string path = JoinPath(folder, absl::StrCat("millrace-", name, "-", stamp, ".csv"));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(path, csv, 0644));
  return path;
}

std::string LayoutPath() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (config != nullptr && *config == '/') {
    folder = JoinPath(config, "millrace");
  } else if (home != nullptr && *home == '/') {
    folder = JoinPath(home, ".config/millrace");
  } else {
    return "";
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : JoinPath(folder, "dashboard.ini");
}

}  // namespace millrace::dashboard
