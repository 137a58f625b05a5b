#include "core/client/ended_cluster.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/client/private_file.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr char kFolder[] = "ended";
constexpr char kSuffix[] = ".json";
constexpr int64_t kFormat = 1;
constexpr size_t kMaxCauseBytes = 4096;

std::string PathOf(const std::string& folder, const std::string& cluster_id) {
  return JoinPath(folder, absl::StrCat(cluster_id, kSuffix));
}

absl::StatusOr<EndedCluster> Parse(const std::string& text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  EndedCluster ended;
  MILLRACE_ASSIGN_OR_RETURN(ended.cluster_id, GetString(json, "cluster_id"));
  MILLRACE_ASSIGN_OR_RETURN(ended.name, GetStringOr(json, "name", ""));
  MILLRACE_ASSIGN_OR_RETURN(ended.program, GetString(json, "program"));
  MILLRACE_ASSIGN_OR_RETURN(ended.command, GetStringOr(json, "command", ""));
  MILLRACE_ASSIGN_OR_RETURN(ended.log_dir, GetString(json, "log_dir"));
  MILLRACE_ASSIGN_OR_RETURN(ended.outcome, GetString(json, "outcome"));
  MILLRACE_ASSIGN_OR_RETURN(ended.cause, GetString(json, "cause"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t started, GetInt(json, "started_ms"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t end, GetInt(json, "ended_ms"));
  ended.started = absl::FromUnixMillis(started);
  ended.ended = absl::FromUnixMillis(end);
  return ended;
}

std::vector<EndedCluster> ListFolder(const std::string& folder) {
  std::vector<EndedCluster> list;
  if (!CheckPrivateFolder(folder).ok()) return list;
  const absl::StatusOr<std::vector<std::string>> names = NamesInFolder(folder);
  if (!names.ok()) return list;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    const absl::StatusOr<std::string> text = ReadPrivateFile(JoinPath(folder, name));
    if (!text.ok()) continue;
    absl::StatusOr<EndedCluster> ended = Parse(*text);
    // The name is what is removed: it must be that of the cluster.
    if (ended.ok() && name == absl::StrCat(ended->cluster_id, kSuffix)) {
      list.push_back(*std::move(ended));
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const EndedCluster& a, const EndedCluster& b) { return a.ended > b.ended; });
  return list;
}

}  // namespace

absl::Status RecordEndedCluster(const std::string& clusters_dir, const EndedCluster& ended) {
  const std::string folder = JoinPath(clusters_dir, kFolder);
  MILLRACE_RETURN_IF_ERROR(MakePrivateFolders(folder));
  MILLRACE_RETURN_IF_ERROR(CheckPrivateFolder(folder));
  const std::string path = PathOf(folder, ended.cluster_id);
  if (ended.outcome == "lost" && ::access(path.c_str(), F_OK) == 0) return absl::OkStatus();
  const OrderedJson json = {{"format", kFormat},
                            {"cluster_id", ended.cluster_id},
                            {"name", ended.name},
                            {"program", ended.program},
                            {"command", ended.command},
                            {"log_dir", ended.log_dir},
                            {"started_ms", absl::ToUnixMillis(ended.started)},
                            {"ended_ms", absl::ToUnixMillis(ended.ended)},
                            {"outcome", ended.outcome},
                            {"cause", Ellipsize(EscapeControls(ended.cause), kMaxCauseBytes)}};
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(path, absl::StrCat(DumpJson(json, 2), "\n"), 0600));
  const std::vector<EndedCluster> list = ListFolder(folder);
  for (size_t i = kMaxEndedClusters; i < list.size(); ++i) {
    ::unlink(PathOf(folder, list[i].cluster_id).c_str());
  }
  return absl::OkStatus();
}

std::vector<EndedCluster> ListEndedClusters(const std::string& clusters_dir) {
  return ListFolder(JoinPath(clusters_dir, kFolder));
}

}  // namespace millrace
