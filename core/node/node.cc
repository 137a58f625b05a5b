#include "millrace/node.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/node/node_context.h"

namespace millrace {

NodeContext::NodeContext(std::unique_ptr<internal::NodeContextImpl> impl)
    : impl_(std::move(impl)) {}

NodeContext::~NodeContext() = default;

const std::string& NodeContext::cluster_id() const { return impl_->cluster_id(); }

int NodeContext::executor_id() const { return impl_->executor_id(); }

const std::string& NodeContext::job_name() const { return impl_->job_name(); }

int NodeContext::task_index() const { return impl_->task_index(); }

std::string NodeContext::name() const { return impl_->name(); }

int NodeContext::attempt() const { return impl_->attempt(); }

int NodeContext::num_workers() const { return impl_->num_workers(); }

int NodeContext::rank() const { return impl_->rank(); }

bool NodeContext::is_chief() const { return impl_->is_chief(); }

ClusterSpec NodeContext::cluster_spec() const { return impl_->cluster_spec(); }

uint64_t NodeContext::epoch() const { return impl_->epoch(); }

bool NodeContext::WaitForEpoch(uint64_t epoch, absl::Duration timeout) const {
  return impl_->WaitForEpoch(epoch, timeout);
}

void NodeContext::OnMembershipChange(MembershipFn fn) { impl_->OnMembershipChange(std::move(fn)); }

const std::string& NodeContext::default_fs() const { return impl_->default_fs(); }

const std::string& NodeContext::working_dir() const { return impl_->working_dir(); }

const std::string& NodeContext::log_dir() const { return impl_->log_dir(); }

const std::string& NodeContext::address() const { return impl_->address(); }

const NodeTls& NodeContext::tls() const { return impl_->tls(); }

std::string NodeContext::AbsolutePath(absl::string_view path) const {
  return impl_->AbsolutePath(path);
}

int NodeContext::port_fd() const { return impl_->port_fd(); }

absl::Status NodeContext::ReleasePort() { return impl_->ReleasePort(); }

std::vector<std::string> NodeContext::gpus() const { return impl_->gpus(); }

absl::StatusOr<std::vector<std::string>> NodeContext::ClaimGpus(int num_gpus) {
  return impl_->ClaimGpus(num_gpus);
}

absl::StatusOr<std::vector<std::string>> NodeContext::ClaimGpus(
    const std::vector<std::string>& ids) {
  return impl_->ClaimGpus(ids);
}

absl::Status NodeContext::ReleaseGpus(const std::vector<std::string>& ids) {
  return impl_->ReleaseGpus(ids);
}

std::unique_ptr<DataFeed> NodeContext::GetDataFeed(const DataFeedOptions& options) {
  return impl_->GetDataFeed(options);
}

absl::StatusOr<std::unique_ptr<DataFeed>> NodeContext::TryGetDataFeed(
    const DataFeedOptions& options) {
  return impl_->TryGetDataFeed(options);
}

absl::Status NodeContext::ExportModel(
    absl::string_view path,
    const std::function<absl::Status(const std::string& directory)>& write) {
  return impl_->ExportModel(path, write);
}

NodeKeyValue& NodeContext::kv() { return impl_->kv(); }

absl::Status NodeContext::Barrier(absl::string_view name, absl::Duration timeout) {
  return impl_->Barrier(name, timeout);
}

void NodeContext::ReportMetric(absl::string_view name, int64_t step, double value) {
  impl_->ReportMetric(name, step, value);
}

bool NodeContext::stop_requested() const { return impl_->stop_requested(); }

bool NodeContext::WaitForStop(absl::Duration timeout) const { return impl_->WaitForStop(timeout); }

absl::StatusOr<std::unique_ptr<NodeContext>> CreateNodeContext(NodeConfig config,
                                                               UniqueFd control_fd,
                                                               AgentGoneFn on_agent_gone) {
  return internal::NodeContextImpl::Create(std::move(config), std::move(control_fd),
                                           std::move(on_agent_gone));
}

absl::Status FinishNode(NodeContext& context, const absl::Status& outcome) {
  return internal::NodeContextImpl::Of(context).Finish(outcome);
}

}  // namespace millrace
