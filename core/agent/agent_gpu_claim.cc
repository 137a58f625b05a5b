// The GPUs of an agent's node: claimed before it is ready, held until nothing of it is left.

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/agent/agent.h"
#include "core/agent/gpu/gpu_sample.h"
#include "core/base/log.h"

namespace millrace {
namespace {

constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";

// What the cluster asks for a node of `job`; unset if it leaves GPUs alone.
std::optional<GpuRequest> RequestOf(const v1::NodeSpec& spec, const std::string& job) {
  if (spec.gpus_per_node() <= 0 && spec.gpus_by_job().empty()) return std::nullopt;
  const auto found = spec.gpus_by_job().find(job);
  if (found != spec.gpus_by_job().end()) return GpuRequest{.count = found->second};
  return GpuRequest{.count = job == "ps" ? 0 : spec.gpus_per_node()};
}

bool AsksForSome(const std::optional<GpuRequest>& request) {
  return request.has_value() && (request->count > 0 || !request->ids.empty());
}

// The value that the node would find: what the parent gave, the cluster, the agent's own.
std::optional<std::string> VisibleDevices(const std::map<std::string, std::string>& host_env,
                                          const v1::NodeSpec& spec,
                                          const std::vector<std::string>& inherited) {
  if (const auto found = host_env.find(kVisibleDevices); found != host_env.end()) {
    return found->second;
  }
  if (const auto found = spec.env().find(kVisibleDevices); found != spec.env().end()) {
    return found->second;
  }
  const std::string prefix = absl::StrCat(kVisibleDevices, "=");
  for (const std::string& entry : inherited) {
    if (absl::StartsWith(entry, prefix)) return entry.substr(prefix.size());
  }
  return std::nullopt;
}

}  // namespace

// Once, when the role is known.
void Agent::PrepareGpus() {
  const v1::NodeSpec& spec = registered_->node();
  gpu_request_ = params_.gpus.has_value() ? params_.gpus : RequestOf(spec, registered_->job_name());
  AgentGpus::Options options{
      .owner = {.cluster_id = registered_->cluster_id(), .node = NodeName()},
      .visible_devices = VisibleDevices(params_.env, spec, options_.environment),
      .monitor = {.environment = options_.environment}};
  gpus_ = std::make_unique<AgentGpus>(loop_, reaper_, guard_, std::move(options));
  // The driver may take its time, and the other agents are not all here yet.
  if (AsksForSome(gpu_request_)) gpus_->Watch();
}

// Whether the attempt has its GPUs. If not, they are being claimed, and MaybeLaunch() follows.
bool Agent::GpusReady() {
  if (!AsksForSome(gpu_request_) || attempt_->has_gpus()) return true;
  if (!attempt_->BeginGpuClaim()) return false;
  gpus_->Claim(*gpu_request_, [this](const absl::StatusOr<std::vector<std::string>>& ids) {
    if (!ids.ok()) {
      OnLaunchFailed(ids.status());
      return;
    }
    attempt_->OnGpusClaimed();
    MILLRACE_LOG(INFO) << NodeName() << " has the GPUs " << absl::StrJoin(*ids, ", ");
    MaybeLaunch();
  });
  return false;
}

// What this agent knows of GPUs, for a sample of its node.
void Agent::AddGpusTo(v1::NodeSample* sample) {
  for (const std::string& id : gpus_->ids()) sample->add_claimed_gpus(id);
  if (!WatchesHostGpus(spec_, registered_->job_name(), registered_->task_index())) return;
  gpus_->Watch();
  if (gpus_->settled()) AddGpus(gpus_->snapshot(), sample);
}

// Nothing of the attempt is left; idempotent.
void Agent::EndGpus() {
  if (gpus_ == nullptr) return;
  gpus_->CancelClaims();
  gpus_->ReleaseAll();
}

}  // namespace millrace
