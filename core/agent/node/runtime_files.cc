#include "core/agent/node/runtime_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<RuntimeFiles>> RuntimeFiles::Open(std::string dir,
                                                                 std::string prefix, Guard* guard) {
  bool made = false;
  const bool own = dir.empty();
  if (own) {
    MILLRACE_ASSIGN_OR_RETURN(TempDir temporary, TempDir::Create("millrace-agent"));
    dir = temporary.Release();
    made = true;
  } else if (mkdir(dir.c_str(), 0700) == 0) {
    made = true;
  } else if (errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the runtime_dir ", dir));
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(dir, error);
  if (!error) dir = absolute.string();
  std::unique_ptr<RuntimeFiles> files(
      new RuntimeFiles(std::move(dir), std::move(prefix), made, guard));
  // Nobody else has anything there: with it goes what an agent that is killed was about to rename.
  if (own) guard->AddTree(files->dir());
  struct stat info = {};
  // Not what a link leads to, which somebody else may have made.
  if (lstat(files->dir().c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot use the runtime_dir ", files->dir()));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the runtime_dir ", files->dir(), " is no folder"));
  }
  if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the runtime_dir ", files->dir(),
                     " belongs to another user or others may write to it; make it with mode 0700"));
  }
  return files;
}

RuntimeFiles::RuntimeFiles(std::string dir, std::string prefix, bool made_dir, Guard* guard)
    : dir_(std::move(dir)), prefix_(std::move(prefix)), made_dir_(made_dir), guard_(guard) {
  if (made_dir_) guard_->AddPath(dir_);
}

std::string RuntimeFiles::Claim(absl::string_view name) {
  files_.push_back(JoinPath(dir_, absl::StrCat(prefix_, "-", name)));
  guard_->AddPath(files_.back());
  return files_.back();
}

std::string RuntimeFiles::ClaimFolder(absl::string_view name) {
  folders_.push_back(JoinPath(dir_, absl::StrCat(prefix_, "-", name)));
  guard_->AddTree(folders_.back());
  mkdir(folders_.back().c_str(), 0700);
  return folders_.back();
}

void RuntimeFiles::Remove() {
  for (const std::string& file : files_) unlink(file.c_str());
  for (const std::string& folder : folders_) {
    std::error_code ignored;  // the launcher may be at it too
    std::filesystem::remove_all(folder, ignored);
  }
  if (made_dir_) rmdir(dir_.c_str());
}

}  // namespace millrace
