#include "millrace/cluster_resolver.h"

#include "absl/strings/str_cat.h"
#include "resolver/polling_watch.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<MembershipWatch>> ClusterResolver::Watch(
    MembershipCallback callback, const WatchOptions& options) {
  return PollMembers([this] { return cluster_spec(); }, std::move(callback), options);
}

std::string FormatMasterUrl(absl::string_view address, absl::string_view rpc_layer) {
  if (rpc_layer.empty()) return std::string(address);
  return absl::StrCat(rpc_layer, "://", address);
}

}  // namespace millrace
