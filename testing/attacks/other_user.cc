#include "testing/attacks/other_user.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/process/exit_status.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr char kUid[] = "65534";  // nobody's
constexpr absl::Duration kPatience = absl::Seconds(30);

std::vector<std::string> AsOther(std::string program) {
  return {"/usr/bin/setpriv", absl::StrCat("--reuid=", kUid), absl::StrCat("--regid=", kUid),
          "--clear-groups", std::move(program)};
}

}  // namespace

absl::StatusOr<OtherUser> OtherUser::Create() {
  if (geteuid() != 0) return absl::UnavailableError("only root becomes another user");
  const auto probe = ChildProcess::Start(AsOther("/bin/true"));
  if (!probe.ok()) return absl::UnavailableError(probe.status().message());
  MILLRACE_ASSIGN_OR_RETURN(const ExitStatus end, (*probe)->Wait(kPatience));
  if (end.kind != ExitStatus::Kind::kExited || end.code != 0) {
    return absl::UnavailableError("setpriv cannot become another user here: a user namespace?");
  }
  // Not in TMPDIR, which may be below a folder of the test's own user.
  std::string folder = "/tmp/millrace-attack.XXXXXX";
  if (mkdtemp(folder.data()) == nullptr || chmod(folder.c_str(), 0755) != 0) {
    return absl::InternalError(absl::StrCat(folder, ": ", std::strerror(errno)));
  }
  return OtherUser(std::move(folder));
}

OtherUser::~OtherUser() {
  std::error_code ignored;  // nobody could act on it
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> OtherUser::Start(
    const std::string& program, const std::vector<std::string>& arguments) const {
  const std::filesystem::path from = RunfilePath(program);
  const std::filesystem::path copy = std::filesystem::path(folder_) / from.filename();
  std::error_code error;
  std::filesystem::copy_file(from, copy, std::filesystem::copy_options::skip_existing, error);
  if (error || chmod(copy.c_str(), 0755) != 0) {
    return absl::InternalError(absl::StrCat("cannot copy ", from.string(), ": ", error.message()));
  }
  std::vector<std::string> argv = AsOther(copy);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return ChildProcess::Start(argv);
}

absl::Status OtherUser::Run(const std::vector<std::string>& argv) const {
  std::vector<std::string> all = AsOther(argv[0]);
  all.insert(all.end(), argv.begin() + 1, argv.end());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, ChildProcess::Start(all));
  MILLRACE_ASSIGN_OR_RETURN(const ExitStatus end, child->Wait(kPatience));
  if (end.ok()) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(absl::StrJoin(argv, " "), " ended with ", DescribeExit(end)));
}

}  // namespace millrace
