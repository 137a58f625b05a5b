#include "millrace/resolver_base.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "millrace/status_macros.h"
#include "resolver/local_accelerators.h"

namespace millrace {
namespace {

std::string DescribeTask(const std::optional<std::string>& task_type,
                         const std::optional<int>& task_id) {
  return absl::StrCat(task_type.value_or("of an unknown job"), ":",
                      task_id.has_value() ? absl::StrCat(*task_id) : "of an unknown index");
}

class FinishedWatch final : public MembershipWatch {};

}  // namespace

struct [[gnu::visibility("hidden")]] ResolverBase::Overrides {
  explicit Overrides(TaskProperties properties) : set(std::move(properties)) {}
  Mutex mu;
  TaskProperties set ABSL_GUARDED_BY(mu);
};

ResolverBase::ResolverBase(BaseOptions options)
    : count_accelerators_(std::move(options.count_accelerators)),
      overrides_(std::make_unique<Overrides>(std::move(options.properties))) {}

ResolverBase::~ResolverBase() = default;

absl::StatusOr<std::string> ResolverBase::master(std::optional<std::string> task_type,
                                                 std::optional<int> task_id,
                                                 std::optional<std::string> rpc_layer) {
  MILLRACE_RETURN_IF_ERROR(CompleteTask(&task_type, &task_id));
  if (!task_type.has_value() || !task_id.has_value()) return std::string();
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, cluster_spec());
  MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                            ResolvedTaskAddress(spec, task_type, task_id));
  if (!rpc_layer.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(rpc_layer, this->rpc_layer());
  }
  return FormatMasterUrl(address, rpc_layer.value_or(""));
}

absl::StatusOr<std::map<std::string, int>> ResolverBase::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  if (!task_type.has_value() && !task_id.has_value()) return CountLocalAccelerators();
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> own_type, this->task_type());
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int> own_id, this->task_id());
  if (!task_type.has_value()) task_type = own_type;
  if (!task_id.has_value()) task_id = own_id;
  if (own_type.has_value() && own_id.has_value() && task_type == own_type && task_id == own_id) {
    return CountLocalAccelerators();
  }
  return absl::UnimplementedError(absl::StrCat(
      "the accelerators of task ", DescribeTask(task_type, task_id),
      " are not known here: this resolver can count those of its own host only, as task ",
      DescribeTask(own_type, own_id), "; call num_accelerators() in that task"));
}

absl::StatusOr<std::optional<std::string>> ResolverBase::environment() { return std::string(); }

absl::Status ResolverBase::CompleteTask(std::optional<std::string>* task_type,
                                        std::optional<int>* task_id) {
  if (!task_type->has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(*task_type, this->task_type());
  }
  if (!task_id->has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(*task_id, this->task_id());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> ResolverBase::task_type() {
  std::optional<std::string> set = overrides().task_type;
  if (set.has_value()) return set;
  return SourceTaskType();
}

absl::StatusOr<std::optional<int>> ResolverBase::task_id() {
  const std::optional<int> set = overrides().task_id;
  if (set.has_value()) return set;
  return SourceTaskId();
}

absl::StatusOr<std::optional<std::string>> ResolverBase::rpc_layer() {
  std::optional<std::string> set = overrides().rpc_layer;
  if (set.has_value()) return set;
  return SourceRpcLayer();
}

absl::Status ResolverBase::set_task_type(std::optional<std::string> task_type) {
  MutexLock lock(&overrides_->mu);
  overrides_->set.task_type = std::move(task_type);
  return absl::OkStatus();
}

absl::Status ResolverBase::set_task_id(std::optional<int> task_id) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(task_id));
  OverrideTaskId(task_id);
  return absl::OkStatus();
}

void ResolverBase::OverrideTaskId(std::optional<int> task_id) {
  MutexLock lock(&overrides_->mu);
  overrides_->set.task_id = task_id;
}

absl::Status ResolverBase::set_rpc_layer(std::optional<std::string> rpc_layer) {
  MutexLock lock(&overrides_->mu);
  overrides_->set.rpc_layer = std::move(rpc_layer);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> ResolverBase::SourceTaskType() { return std::nullopt; }
absl::StatusOr<std::optional<int>> ResolverBase::SourceTaskId() { return std::nullopt; }
absl::StatusOr<std::optional<std::string>> ResolverBase::SourceRpcLayer() { return std::nullopt; }

TaskProperties ResolverBase::overrides() const {
  MutexLock lock(&overrides_->mu);
  return overrides_->set;
}

absl::StatusOr<std::map<std::string, int>> ResolverBase::CountLocalAccelerators() const {
  return count_accelerators_ != nullptr ? count_accelerators_() : LocalAccelerators();
}

std::unique_ptr<MembershipWatch> TellOnce(const absl::StatusOr<ClusterSpec>& answer,
                                          MembershipCallback callback) {
  MembershipTracker(std::move(callback)).Observe(answer, RealClock()->Now());
  return std::make_unique<FinishedWatch>();
}

absl::Status CheckTaskId(const std::optional<int>& task_id) {
  if (!task_id.has_value() || *task_id >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("task_id must not be negative, found ", *task_id));
}

absl::StatusOr<std::string> ResolvedTaskAddress(const ClusterSpec& spec,
                                                const std::optional<std::string>& task_type,
                                                const std::optional<int>& task_id) {
  if (!task_type.has_value() || !task_id.has_value()) {
    return absl::NotFoundError(absl::StrCat("which task this process is, is not known (task ",
                                            DescribeTask(task_type, task_id),
                                            "): set task_type and task_id"));
  }
  return spec.TaskAddress(*task_type, *task_id);
}

}  // namespace millrace
