#include "dashboard/model/membership.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/net/socket_address.h"
#include "core/proto/spec_proto.h"
#include "millrace/status_macros.h"

namespace millrace::dashboard {
namespace {

std::string HostOf(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() ? parsed->host : address;
}

}  // namespace

uint64_t Membership::NextVersion() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

absl::Status Membership::Apply(const v1::SpecUpdate& update, absl::Time time) {
  ClusterSpec spec = spec_;
  uint64_t epoch = epoch_;
  MILLRACE_RETURN_IF_ERROR(ApplySpecUpdate(update, &epoch, &spec));
  const uint64_t known = this->epoch();
  epoch_ = epoch;
  if (epoch > known) {
    MembershipEpoch& entry = epochs_.emplace_back();
    entry.epoch = epoch;
    entry.time = time;
    entry.first = known == 0;
    if (!entry.first) entry.diff = DiffClusterSpecs(spec_, spec);
    if (epochs_.size() > kMaxEpochs) epochs_.pop_front();
  }
  spec_ = std::move(spec);
  version_ = NextVersion();
  return absl::OkStatus();
}

std::vector<EnvironmentBridge> EnvironmentBridges(const ClusterSpec& spec, absl::string_view job,
                                                  int task) {
  std::vector<EnvironmentBridge> bridges;
  const absl::StatusOr<std::string> own = spec.TaskAddress(job, task);
  if (!own.ok()) return bridges;
  const absl::StatusOr<std::string> tf_config = TfConfig(spec, job, task);
  if (tf_config.ok()) bridges.push_back({"TF_CONFIG", *tf_config});
  // Ranks go to chief or master first, then to the workers (docs/control_protocol.md).
  int next_rank = 0;
  int on_this_host = 0;
  int rank = -1;
  int local_rank = 0;
  std::string master;
  const std::string own_host = HostOf(*own);
  for (const char* fed_job : {"chief", "master", "worker"}) {
    const auto tasks = spec.TaskMapOf(fed_job);
    if (!tasks.ok()) continue;
    for (const auto& [index, address] : **tasks) {
      if (next_rank == 0) master = address;
      if (job == fed_job && index == task) {
        rank = next_rank;
        local_rank = on_this_host;
      }
      if (HostOf(address) == own_host) ++on_this_host;
      ++next_rank;
    }
  }
  if (const absl::StatusOr<HostPort> parsed = ParseHostPort(master); parsed.ok()) {
    bridges.push_back({"MASTER_ADDR", parsed->host});
    bridges.push_back({"MASTER_PORT", absl::StrCat(parsed->port)});
  }
  if (rank >= 0) {
    bridges.push_back({"RANK", absl::StrCat(rank)});
    bridges.push_back({"WORLD_SIZE", absl::StrCat(next_rank)});
    bridges.push_back({"LOCAL_RANK", absl::StrCat(local_rank)});
  }
  return bridges;
}

const std::vector<EnvironmentBridge>& BridgeMemo::Get(const Membership& membership,
                                                      absl::string_view job, int task) {
  if (version_ != membership.version() || job_ != job || task_ != task) {
    version_ = membership.version();
    job_ = std::string(job);
    task_ = task;
    bridges_ = EnvironmentBridges(membership.spec(), job, task);
  }
  return bridges_;
}

}  // namespace millrace::dashboard
