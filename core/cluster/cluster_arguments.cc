#include "core/cluster/cluster_arguments.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/cluster/log_folder.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Agents get it as protobuf and JSON, which hold nothing else.
absl::Status CheckUtf8(absl::string_view what, absl::string_view text) {
  absl::string_view rest = text;
  while (!rest.empty()) {
    const size_t length = Utf8SequenceLength(rest);
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, " is not UTF-8: '",
                                                     EscapeControls(Ellipsize(text, 200)),
                                                     "'; hand it over in a file"));
    }
    rest.remove_prefix(length);
  }
  return absl::OkStatus();
}

}  // namespace

std::string AbsolutePathHere(const std::string& path) {
  std::error_code error;
  const std::filesystem::path base = std::filesystem::current_path(error);
  return error ? path : path.empty() ? base.string() : (base / path).string();
}

absl::Status CheckResumeOptions(const ClusterOptions& options, const Launcher& launcher) {
  if (options.resume.state_folder.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckUtf8("resume.state_folder", options.resume.state_folder));
  if (options.resume.lease < absl::Seconds(1) || options.resume.lease > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat("resume.lease must be from 1 s to 24 h, found ",
                                                   absl::FormatDuration(options.resume.lease)));
  }
  if (!launcher.AgentsOutliveDriver()) {
    return absl::FailedPreconditionError(
        "resume.state_folder is set, but these agents end with their driver, and so nobody can "
        "take the cluster over: use agents that listen (AdoptingLauncher, millrace run --on), or "
        "leave it unset");
  }
  return absl::OkStatus();
}

absl::Status ResolvePaths(const Launcher& launcher, ClusterOptions* options) {
  MILLRACE_ASSIGN_OR_RETURN(options->log_dir, LogFolder("log_dir", options->log_dir));
  if (!options->log_dir.empty()) options->log_dir = AbsolutePathHere(options->log_dir);
  if (!options->resume.state_folder.empty()) {
    options->resume.state_folder = AbsolutePathHere(options->resume.state_folder);
  }
  if (!options->node.working_dir.empty() || launcher.SharesDriverFolders()) {
    options->node.working_dir = AbsolutePathHere(options->node.working_dir);
  }
  return absl::OkStatus();
}

absl::Status CheckDuration(absl::string_view name, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be greater than zero, found ",
                                                 absl::FormatDuration(value),
                                                 "; use absl::InfiniteDuration() for no limit"));
}

absl::Status CheckProgram(const NodeProgram& program) {
  if (program.path().empty()) {
    return absl::InvalidArgumentError(
        "the node program has no path; NodeProgram::File and ::Path "
        "take one");
  }
  MILLRACE_RETURN_IF_ERROR(CheckUtf8("the node program's path", program.path()));
  for (const std::string& arg : program.args()) {
    MILLRACE_RETURN_IF_ERROR(CheckUtf8("an argument of the node program", arg));
  }
  for (const auto& [name, value] : program.env()) {
    MILLRACE_RETURN_IF_ERROR(CheckUtf8("the name of a variable for the node program", name));
    MILLRACE_RETURN_IF_ERROR(CheckUtf8(absl::StrCat("the variable ", name), value));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ClusterOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckUtf8("log_dir", options.log_dir));
  MILLRACE_RETURN_IF_ERROR(CheckUtf8("node.working_dir", options.node.working_dir));
  MILLRACE_RETURN_IF_ERROR(CheckDuration("reservation_timeout", options.reservation_timeout));
  MILLRACE_RETURN_IF_ERROR(CheckDuration("failure.stop_grace", options.failure.stop_grace));
  MILLRACE_RETURN_IF_ERROR(CheckDuration("failure.stop_timeout", options.failure.stop_timeout));
  if (options.feed.budget_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("feed.budget_bytes must be at least 1, found ", options.feed.budget_bytes));
  }
  if (options.node.log_bytes_per_second < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "node.log_bytes_per_second must be at least 1, found ", options.node.log_bytes_per_second));
  }
  if (options.input_mode == InputMode::kFeed && options.feed.queues.empty()) {
    return absl::InvalidArgumentError("feed.queues must name at least one queue in InputMode FEED");
  }
  std::set<std::string> names;
  for (const std::string& name : options.feed.queues) {
    if (name.empty()) return absl::InvalidArgumentError("feed.queues: a queue needs a name");
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("feed.queues names '", name, "' twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
