#include "core/cli/cluster_choice.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/client/cluster_file.h"

namespace millrace::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::StatusOr<ClientOptions> FromConnect(const ClusterChoice& choice) {
  if (!choice.cluster.empty()) {
    return absl::InvalidArgumentError("--cluster and --connect both name a cluster: give one");
  }
  if (choice.ca_file.empty() || choice.token_file.empty()) {
    return absl::InvalidArgumentError(
        "--connect needs --ca FILE (the cluster's certificate) and --token-file FILE");
  }
  ClientOptions options;
  options.address = choice.connect;
  MILLRACE_ASSIGN_OR_RETURN(options.ca_pem, ReadFile(choice.ca_file, kMaxFileBytes));
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, ReadFile(choice.token_file, kMaxFileBytes));
  // Which of the two it is, the coordinator knows.
  options.viewer_token = std::string(absl::StripAsciiWhitespace(token));
  options.operator_token = options.viewer_token;
  if (options.viewer_token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(choice.token_file, " holds no token"));
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterClient>> ConnectTo(const ClusterChoice& choice) {
  if (!choice.connect.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(ClientOptions options, FromConnect(choice));
    return ClusterClient::Connect(std::move(options));
  }
  if (!choice.ca_file.empty() || !choice.token_file.empty()) {
    return absl::InvalidArgumentError("--ca and --token-file go with --connect HOST:PORT");
  }
  absl::StatusOr<ClusterFile> file = FindClusterFile(choice.cluster);
  if (!file.ok() && choice.cluster.empty() && absl::IsNotFound(file.status())) {
    return absl::UnavailableError(
        absl::StrCat(file.status().message(),
                     " with --cluster FILE, or start one: `millrace run -n 2 -- PROGRAM`"));
  }
  if (!file.ok()) return file.status();
  return ClusterClient::Connect(ClientOptionsFrom(*file));
}

}  // namespace millrace::cli
