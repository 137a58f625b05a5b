#include "core/client/cluster_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/client/ended_cluster.h"
#include "core/client/private_file.h"
#include "core/net/socket_address.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr char kSuffix[] = ".json";
constexpr char kOperatorSuffix[] = ".operator";
constexpr int64_t kFormat = 1;
constexpr size_t kMaxClusterIdChars = 128;
constexpr size_t kMaxNamesBytes = 1000;  // of all clusters, in a message
// A temporary file of a writer that was killed; a live one has it for milliseconds.
constexpr time_t kStaleTemporarySeconds = 600;

bool IsClusterId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxClusterIdChars &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

// "" if procfs does not say.
std::string PidNamespace() {
  char target[64];
  const ssize_t size = readlink("/proc/self/ns/pid", target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : "";
}

std::string OperatorPath(const std::string& path) {
  return absl::StrCat(path.substr(0, path.size() - (sizeof(kSuffix) - 1)), kOperatorSuffix);
}

void RemoveIfStaleTemporary(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (time(nullptr) - info.st_mtime > kStaleTemporarySeconds) unlink(path.c_str());
}

absl::StatusOr<ClusterFile> Parse(const std::string& text) {
  MILLRACE_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t format, GetInt(json, "format"));
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"format\" is ", format, ": this program knows ", kFormat));
  }
  ClusterFile cluster;
  MILLRACE_ASSIGN_OR_RETURN(cluster.cluster_id, GetString(json, "cluster_id"));
  if (!IsClusterId(cluster.cluster_id)) {
    return absl::InvalidArgumentError("field \"cluster_id\" is no cluster id");
  }
  MILLRACE_ASSIGN_OR_RETURN(cluster.address, GetString(json, "address"));
  MILLRACE_ASSIGN_OR_RETURN(cluster.ca_pem, GetString(json, "ca_pem"));
  MILLRACE_ASSIGN_OR_RETURN(cluster.identity_pem, GetString(json, "identity_pem"));
  MILLRACE_ASSIGN_OR_RETURN(cluster.viewer_token, GetString(json, "viewer_token"));
  MILLRACE_ASSIGN_OR_RETURN(cluster.host, GetStringOr(json, "host", ""));
  MILLRACE_ASSIGN_OR_RETURN(cluster.pid, GetIntOr(json, "pid", 0));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t pid_started, GetIntOr(json, "pid_started", 0));
  cluster.pid_started = static_cast<uint64_t>(pid_started);
  MILLRACE_ASSIGN_OR_RETURN(cluster.pid_namespace, GetStringOr(json, "pid_namespace", ""));
  MILLRACE_ASSIGN_OR_RETURN(const std::string started, GetStringOr(json, "started", ""));
  std::string error;
  if (!started.empty() && !absl::ParseTime(absl::RFC3339_full, started, &cluster.started, &error)) {
    return absl::InvalidArgumentError("field \"started\" is no time");
  }
  MILLRACE_ASSIGN_OR_RETURN(cluster.name, GetStringOr(json, "name", ""));
  MILLRACE_ASSIGN_OR_RETURN(cluster.program, GetStringOr(json, "program", ""));
  MILLRACE_ASSIGN_OR_RETURN(cluster.command, GetStringOr(json, "command", ""));
  MILLRACE_ASSIGN_OR_RETURN(cluster.log_dir, GetStringOr(json, "log_dir", ""));
  return cluster;
}

OrderedJson ToJson(const ClusterFile& cluster) {
  OrderedJson json;
  json["format"] = kFormat;
  json["cluster_id"] = cluster.cluster_id;
  json["address"] = cluster.address;
  json["started"] = absl::FormatTime(absl::RFC3339_full, cluster.started, absl::UTCTimeZone());
  json["name"] = cluster.name;
  json["program"] = cluster.program;
  json["command"] = cluster.command;
  json["log_dir"] = cluster.log_dir;
  json["host"] = cluster.host;
  json["pid"] = cluster.pid;
  json["pid_started"] = cluster.pid_started;
  json["pid_namespace"] = cluster.pid_namespace;
  json["viewer_token"] = cluster.viewer_token;
  json["ca_pem"] = cluster.ca_pem;
  json["identity_pem"] = cluster.identity_pem;
  return json;
}

// Returns the path of <id>.json; NOT_FOUND if the folder is gone.
absl::StatusOr<std::string> WriteFiles(const std::string& folder, const ClusterFile& mine) {
  const std::string path = JoinPath(folder, absl::StrCat(mine.cluster_id, kSuffix));
  if (!mine.operator_token.empty()) {
    const OrderedJson secret = {{"format", kFormat},
                                {"cluster_id", mine.cluster_id},
                                {"operator_token", mine.operator_token}};
    MILLRACE_RETURN_IF_ERROR(
        WriteFileAtomic(OperatorPath(path), absl::StrCat(DumpJson(secret, 2), "\n"), 0600));
  }
  absl::Status written = WriteFileAtomic(path, absl::StrCat(DumpJson(ToJson(mine), 2), "\n"), 0600);
  if (!written.ok()) {
    unlink(OperatorPath(path).c_str());
    return written;
  }
  return path;
}

// Lists `folder`, which has been checked, and removes stale files.
absl::StatusOr<ClusterFileList> List(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesInFolder(folder));
  ClusterFileList list;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (absl::StrContains(name, ".tmp.")) RemoveIfStaleTemporary(path);
    // One whose writer was killed before it wrote the file beside it.
    absl::string_view id = name;
    if (absl::ConsumeSuffix(&id, kOperatorSuffix) &&
        ::access(JoinPath(folder, absl::StrCat(id, kSuffix)).c_str(), F_OK) != 0) {
      RemoveIfStaleTemporary(path);
    }
    if (!absl::EndsWith(name, kSuffix)) continue;
    absl::StatusOr<ClusterFile> cluster = ReadClusterFile(path);
    if (cluster.ok() && ClusterOwnerGone(*cluster)) {
      const EndedCluster lost = {.cluster_id = cluster->cluster_id,
                                 .name = cluster->name,
                                 .program = cluster->program,
                                 .command = cluster->command,
                                 .log_dir = cluster->log_dir,
                                 .started = cluster->started,
                                 .ended = absl::Now(),
                                 .outcome = "lost",
                                 .cause = "its driver was killed"};
      RecordEndedCluster(folder, lost).IgnoreError();
      RemoveClusterFile(path);
    } else if (cluster.ok()) {
      list.clusters.push_back(*std::move(cluster));
    } else if (!absl::IsNotFound(cluster.status())) {  // removed meanwhile
      list.problems.push_back(cluster.status());
    }
  }
  std::stable_sort(
      list.clusters.begin(), list.clusters.end(),
      [](const ClusterFile& a, const ClusterFile& b) { return a.started > b.started; });
  return list;
}

std::string Problems(const ClusterFileList& list) {
  std::string text;
  for (const absl::Status& problem : list.problems) absl::StrAppend(&text, "; ", problem.message());
  return text;
}

}  // namespace

absl::StatusOr<std::string> ClustersDir() {
  const std::string chosen = EnvOr("MILLRACE_CLUSTERS_DIR", "");
  if (!chosen.empty()) return chosen;
  const std::string home = EnvOr("HOME", "");
  if (home.empty()) {
    return absl::FailedPreconditionError(
        "cluster files live in ~/.millrace/clusters, but HOME is not set: set it, or "
        "MILLRACE_CLUSTERS_DIR");
  }
  return JoinPath(home, ".millrace/clusters");
}

absl::StatusOr<std::string> WriteClusterFile(const ClusterFile& cluster) {
  if (!IsClusterId(cluster.cluster_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", cluster.cluster_id, "\" is no cluster id"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, ClustersDir());
  MILLRACE_RETURN_IF_ERROR(MakePrivateFolders(folder));
  MILLRACE_RETURN_IF_ERROR(CheckPrivateFolder(folder));
  List(folder).status().IgnoreError();  // for what it removes
  ClusterFile mine = cluster;
  mine.host = LocalHostname();
  mine.pid = getpid();
  mine.pid_namespace = PidNamespace();
  MILLRACE_ASSIGN_OR_RETURN(mine.pid_started, ProcessStartTime(getpid()));
  absl::StatusOr<std::string> path = WriteFiles(folder, mine);
  // Another process may just have removed the folder with its own last file.
  for (int i = 0; i < 3 && absl::IsNotFound(path.status()); ++i) {
    MILLRACE_RETURN_IF_ERROR(MakePrivateFolders(folder));
    path = WriteFiles(folder, mine);
  }
  return path;
}

void RemoveClusterFile(const std::string& path) {
  if (!absl::EndsWith(path, kSuffix)) return;
  unlink(path.c_str());
  unlink(OperatorPath(path).c_str());
  // Folders that hold nothing, not even a record of what has ended, go.
  const absl::StatusOr<std::string> folder = ClustersDir();
  if (!folder.ok() || !EnvOr("MILLRACE_CLUSTERS_DIR", "").empty()) return;
  if (path.substr(0, path.rfind('/')) != *folder) return;
  if (rmdir(folder->c_str()) == 0) rmdir(folder->substr(0, folder->rfind('/')).c_str());
}

absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path));
  absl::StatusOr<ClusterFile> cluster = Parse(text);
  if (!cluster.ok()) {
    return Annotate(cluster.status(), absl::StrCat(path, " is no cluster file"));
  }
  cluster->path = path;
  if (!absl::EndsWith(path, kSuffix)) return cluster;
  const std::string operator_path = OperatorPath(path);
  absl::StatusOr<std::string> secret = ReadPrivateFile(operator_path);
  if (absl::IsNotFound(secret.status())) return cluster;
  if (!secret.ok()) return secret.status();
  const absl::StatusOr<Json> json = ParseJson(*secret);
  absl::StatusOr<std::string> token =
      json.ok() ? GetString(*json, "operator_token") : json.status();
  if (!token.ok()) {
    return Annotate(token.status(), absl::StrCat(operator_path, " is no operator's file"));
  }
  cluster->operator_token = *std::move(token);
  return cluster;
}

bool ClusterOwnerGone(const ClusterFile& cluster) {
  if (cluster.pid <= 0 || cluster.host != LocalHostname() ||
      cluster.pid_namespace != PidNamespace()) {
    return false;
  }
  return !ProcessAlive(static_cast<pid_t>(cluster.pid), cluster.pid_started);
}

absl::StatusOr<ClusterFileList> ListClusterFiles() {
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, ClustersDir());
  const absl::Status checked = CheckPrivateFolder(folder);
  if (absl::IsNotFound(checked)) return ClusterFileList();
  if (!checked.ok()) return checked;
  return List(folder);
}

std::string ClusterNames(const std::vector<ClusterFile>& clusters) {
  const std::string names =
      absl::StrJoin(clusters, ", ", [](std::string* out, const ClusterFile& cluster) {
        absl::StrAppend(out, cluster.cluster_id, " (pid ", cluster.pid);
        const std::string& command = cluster.command.empty() ? cluster.program : cluster.command;
        for (const std::string& what : {cluster.name, command}) {
          absl::StrAppend(out, what.empty() ? "" : ", ", what);
        }
        out->push_back(')');
      });
  return Ellipsize(EscapeControls(names), kMaxNamesBytes);
}

absl::StatusOr<ClusterFile> NewestClusterFile() {
  MILLRACE_ASSIGN_OR_RETURN(ClusterFileList list, ListClusterFiles());
  if (!list.clusters.empty()) return std::move(list.clusters.front());
  return absl::NotFoundError(absl::StrCat("no cluster of yours runs on this host (", *ClustersDir(),
                                          " names none", Problems(list),
                                          "); name the cluster file of one that runs elsewhere"));
}

absl::StatusOr<ClusterFile> FindClusterFile(absl::string_view which) {
  if (which.empty()) return NewestClusterFile();
  if (absl::StrContains(which, '/') || absl::EndsWith(which, kSuffix)) {
    return ReadClusterFile(std::string(which));
  }
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList list, ListClusterFiles());
  std::vector<ClusterFile> found;
  std::vector<std::string> names;
  for (const ClusterFile& cluster : list.clusters) {
    if (cluster.cluster_id == which) return cluster;
    if (absl::StartsWith(cluster.cluster_id, which)) found.push_back(cluster);
    names.push_back(cluster.cluster_id);
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    std::vector<std::string> ids;
    for (const ClusterFile& cluster : found) ids.push_back(cluster.cluster_id);
    return absl::InvalidArgumentError(absl::StrCat(found.size(), " clusters begin with \"", which,
                                                   "\": ", absl::StrJoin(ids, ", ")));
  }
  return absl::NotFoundError(absl::StrCat(
      "no cluster \"", which, "\" runs here; ",
      names.empty() ? "none does" : absl::StrCat("these do: ", absl::StrJoin(names, ", ")),
      Problems(list)));
}

}  // namespace millrace
