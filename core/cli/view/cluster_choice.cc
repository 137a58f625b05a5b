#include "core/cli/view/cluster_choice.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/cli/output/duration_text.h"
#include "core/cli/output/terminal.h"
#include "core/client/cluster_file.h"
#include "core/client/ended_cluster.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::StatusOr<ClusterClientOptions> FromConnect(const ClusterChoice& choice) {
  if (!choice.cluster.empty()) {
    return absl::InvalidArgumentError("--cluster and --connect both name a cluster: give one");
  }
  if (choice.ca_file.empty() || choice.identity_file.empty() || choice.token_file.empty()) {
    return absl::InvalidArgumentError(
        "--connect needs --ca FILE (the cluster's certificate), --identity FILE (a client "
        "certificate "
        "with its key) and --token-file FILE: ca_pem, identity_pem and viewer_token of the cluster "
        "file");
  }
  ClusterClientOptions options;
  options.address = choice.connect;
  MILLRACE_ASSIGN_OR_RETURN(options.ca_pem, ReadFile(choice.ca_file, kMaxFileBytes));
  MILLRACE_ASSIGN_OR_RETURN(options.identity_pem, ReadFile(choice.identity_file, kMaxFileBytes));
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, ReadFile(choice.token_file, kMaxFileBytes));
  // Which of the two it is, the coordinator knows.
  options.viewer_token = std::string(absl::StripAsciiWhitespace(token));
  options.operator_token = options.viewer_token;
  if (options.viewer_token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(choice.token_file, " holds no token"));
  }
  return options;
}

// Says how the last cluster ended, to a user who asks for a cluster when none runs any more.
void TellOfTheLast() {
  const absl::StatusOr<std::string> folder = ClustersDir();
  if (!folder.ok()) return;
  const std::vector<EndedCluster> list = ListEndedClusters(*folder);
  if (list.empty()) return;
  const EndedCluster& last = list.front();
  const std::string text = absl::StrCat(
      "the last cluster, ", last.cluster_id, " (", last.name, last.name.empty() ? "" : ", ",
      last.command.empty() ? last.program : last.command, "), ",
      last.outcome == "lost"      ? "was lost"
      : last.outcome == "stopped" ? "was stopped"
                                  : last.outcome,
      " ", DurationText(absl::Now() - last.ended), " ago", last.cause.empty() ? "" : ": ",
      last.cause,
      last.log_dir.empty() ? "" : absl::StrCat("; its output and events.jsonl: ", last.log_dir));
  WriteAll(STDERR_FILENO, absl::StrCat("millrace: ", EscapeControls(text), "\n"));
}

absl::StatusOr<ClusterFile> Choose(const std::string& which, Purpose purpose) {
  if (!which.empty()) return FindClusterFile(which);
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList list, ListClusterFiles());
  if (list.clusters.empty()) return NewestClusterFile();  // which says what was refused
  if (list.clusters.size() == 1) return list.clusters.front();
  const std::string text = absl::StrCat(
      list.clusters.size(), " clusters of yours run here: ", ClusterNames(list.clusters));
  if (purpose == Purpose::kAct) {
    return absl::InvalidArgumentError(absl::StrCat(text, "; say which one: --cluster ID"));
  }
  WriteAll(STDERR_FILENO, absl::StrCat("millrace: ", text,
                                       "; this is the first one, the newest (--cluster ID takes "
                                       "another)\n"));
  return list.clusters.front();
}

}  // namespace

absl::StatusOr<ClusterClientOptions> OptionsOf(const ClusterChoice& choice, Purpose purpose) {
  if (!choice.connect.empty()) return FromConnect(choice);
  if (!choice.ca_file.empty() || !choice.identity_file.empty() || !choice.token_file.empty()) {
    return absl::InvalidArgumentError(
        "--ca, --identity and --token-file go with --connect HOST:PORT");
  }
  const absl::StatusOr<ClusterFile> file = Choose(choice.cluster, purpose);
  if (!file.ok() && choice.cluster.empty() && absl::IsNotFound(file.status())) {
    TellOfTheLast();
    return absl::UnavailableError(
        absl::StrCat(file.status().message(),
                     " with --cluster FILE, or start one: `millrace run -n 2 -- PROGRAM`"));
  }
  if (!file.ok()) return file.status();
  return ClusterClientOptionsFrom(*file);
}

absl::StatusOr<std::unique_ptr<RawClusterClient>> ConnectTo(const ClusterChoice& choice,
                                                            Purpose purpose) {
  MILLRACE_ASSIGN_OR_RETURN(ClusterClientOptions options, OptionsOf(choice, purpose));
  return RawClusterClient::Connect(std::move(options));
}

}  // namespace millrace::cli
