// What node programs may call of a NodeContext. How it came to be, and what the agent pushes, is in
// node_context.cc.

#include "millrace/node.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadline.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/node/absolute_path.h"
#include "core/node/model_export.h"
#include "core/node/node_context.h"
#include "core/node/node_exit.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using internal::kAgentTimeout;
using internal::kRoundTrip;

// The protocol's timeouts are whole milliseconds and finite: rounded up, since 0 means not to wait.
int64_t TimeoutMs(absl::Duration timeout) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 100);
  const absl::Duration waited = std::clamp(timeout, absl::ZeroDuration(), kLongest);
  return absl::ToInt64Milliseconds(absl::Ceil(waited, absl::Milliseconds(1)));
}

// JSON carries text; bytes that are none would silently become another name.
absl::StatusOr<std::string> Utf8(absl::string_view what, absl::string_view name) {
  absl::string_view rest = name;
  while (!rest.empty()) {
    const size_t length = Utf8SequenceLength(rest);
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " \"", EscapeControls(Ellipsize(name, 100)), "\" is not UTF-8"));
    }
    rest.remove_prefix(length);
  }
  return std::string(name);
}

}  // namespace

NodeContext::NodeContext(std::unique_ptr<internal::NodeContextImpl> impl)
    : impl_(std::move(impl)) {}

NodeContext::~NodeContext() = default;

// ---- identity -----------------------------------------------------------------------------------

const std::string& NodeContext::cluster_id() const { return impl_->config_.cluster_id; }
int NodeContext::executor_id() const { return impl_->config_.executor_id; }
const std::string& NodeContext::job_name() const { return impl_->config_.job_name; }
int NodeContext::task_index() const { return impl_->config_.task_index; }
std::string NodeContext::name() const { return impl_->name(); }
int NodeContext::attempt() const { return impl_->config_.attempt; }
int NodeContext::num_workers() const { return impl_->config_.num_workers; }
int NodeContext::rank() const { return impl_->config_.rank.value_or(-1); }

bool NodeContext::is_chief() const {
  if (impl_->config_.job_name == "chief" || impl_->config_.job_name == "master") return true;
  return impl_->config_.job_name == "worker" && impl_->config_.rank == 0;
}

ClusterSpec NodeContext::cluster_spec() const {
  MutexLock lock(&impl_->mu_);
  return impl_->cluster_spec_;
}

uint64_t NodeContext::epoch() const {
  MutexLock lock(&impl_->mu_);
  return impl_->epoch_;
}

bool NodeContext::WaitForEpoch(uint64_t epoch, absl::Duration timeout) const {
  const Deadline deadline(timeout);
  MutexLock lock(&impl_->mu_);
  while (impl_->epoch_ < epoch) {
    if (impl_->epoch_changed_.WaitWithTimeout(&impl_->mu_, deadline.Left())) {
      return impl_->epoch_ >= epoch;
    }
  }
  return true;
}

void NodeContext::OnMembershipChange(MembershipFn fn) {
  std::shared_ptr<const MembershipFn> shared;
  if (fn != nullptr) shared = std::make_shared<const MembershipFn>(std::move(fn));
  MutexLock lock(&impl_->mu_);
  impl_->membership_fn_.swap(shared);
}

// ---- where this is ------------------------------------------------------------------------------

const std::string& NodeContext::default_fs() const { return impl_->config_.default_fs; }
const std::string& NodeContext::working_dir() const { return impl_->config_.working_dir; }
const std::string& NodeContext::log_dir() const { return impl_->config_.log_dir; }
const std::string& NodeContext::address() const { return impl_->config_.address; }
const NodeTls& NodeContext::tls() const { return impl_->config_.tls; }

std::string NodeContext::AbsolutePath(absl::string_view path) const {
  return millrace::AbsolutePath(path, impl_->config_.default_fs, impl_->config_.working_dir,
                                impl_->user_);
}

int NodeContext::port_fd() const {
  MutexLock lock(&impl_->mu_);
  return impl_->port_fd_.get();
}

absl::Status NodeContext::ReleasePort() {
  {
    MutexLock lock(&impl_->mu_);
    if (!impl_->port_held_) return absl::OkStatus();
    impl_->port_fd_.reset();
  }
  MILLRACE_RETURN_IF_ERROR(impl_->control_->Call("release_port", Json::object(), kAgentTimeout));
  MutexLock lock(&impl_->mu_);
  impl_->port_held_ = false;
  return absl::OkStatus();
}

std::vector<std::string> NodeContext::gpus() const {
  MutexLock lock(&impl_->mu_);
  return impl_->gpus_;
}

absl::StatusOr<std::vector<std::string>> NodeContext::ClaimGpus(int num_gpus) {
  if (num_gpus < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " asked for ", num_gpus, " GPUs; the least is 1"));
  }
  return impl_->Claim(Json{{"count", num_gpus}});
}

absl::StatusOr<std::vector<std::string>> NodeContext::ClaimGpus(
    const std::vector<std::string>& ids) {
  if (ids.empty())
    return absl::InvalidArgumentError(absl::StrCat(name(), " named no GPU to claim"));
  for (const std::string& id : ids) {
    MILLRACE_RETURN_IF_ERROR(Utf8("the id of a GPU", id).status());
  }
  return impl_->Claim(Json{{"ids", ids}});
}

absl::Status NodeContext::ReleaseGpus(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    MILLRACE_RETURN_IF_ERROR(Utf8("the id of a GPU", id).status());
  }
  MILLRACE_RETURN_IF_ERROR(
      impl_->control_->Call("gpu.release", Json{{"ids", ids}}, kAgentTimeout).status());
  MutexLock lock(&impl_->mu_);
  for (const std::string& id : ids) std::erase(impl_->gpus_, id);
  return absl::OkStatus();
}

// ---- data ---------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<DataFeed>> NodeContext::TryGetDataFeed(
    const DataFeedOptions& options) {
  if (impl_->receiver_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), " is not fed: ",
                     impl_->config_.input_feed
                         ? "only chief, master and workers are"
                         : "the cluster runs in InputMode DIRECT; run it with InputMode FEED"));
  }
  return impl_->receiver_->GetDataFeed(options, [&] { return impl_->JoinEqual(options); });
}

std::unique_ptr<DataFeed> NodeContext::GetDataFeed(const DataFeedOptions& options) {
  absl::StatusOr<std::unique_ptr<DataFeed>> feed = TryGetDataFeed(options);
  if (feed.ok()) return *std::move(feed);
  const absl::Status outcome = impl_->Finish(Annotate(feed.status(), "GetDataFeed"));
  PrintNodeError(name(), outcome);
  std::fflush(stdout);
  ::_exit(kNodeExitFailed);  // not exit(): threads of the program still run
}

absl::Status NodeContext::ExportModel(
    absl::string_view path,
    const std::function<absl::Status(const std::string& directory)>& write) {
  if (!is_chief()) return absl::OkStatus();
  return ExportDirectory(AbsolutePath(path), write);
}

// ---- the others ---------------------------------------------------------------------------------

NodeKeyValue& NodeContext::kv() { return impl_->kv_; }

absl::Status NodeContext::Barrier(absl::string_view barrier, absl::Duration timeout) {
  if (!IsFedJob(impl_->config_.job_name)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), " cannot wait at barrier \"", EscapeControls(barrier),
                     "\": only chief, master and workers take part"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::string barrier_name, Utf8("the barrier", barrier));
  const Json params{{"name", std::move(barrier_name)}, {"timeout_ms", TimeoutMs(timeout)}};
  return impl_->control_
      ->CallAndWait("barrier", params, std::max(timeout, absl::ZeroDuration()) + kRoundTrip)
      .status();
}

void NodeContext::ReportMetric(absl::string_view metric, int64_t step, double value) {
  absl::Status sent = absl::InvalidArgumentError("it is no finite number");
  if (std::isfinite(value)) {
    sent = impl_->control_->Notify(
        "metric", Json{{"name", std::string(metric)}, {"step", step}, {"value", value}});
  }
  if (sent.ok() || impl_->warned_of_metric_.exchange(true)) return;
  MILLRACE_LOG(WARNING) << "metric " << metric << " of step " << step
                        << " is not reported: " << sent.message() << "; this is said once";
}

bool NodeContext::stop_requested() const { return impl_->stop_.HasBeenNotified(); }

bool NodeContext::WaitForStop(absl::Duration timeout) const {
  return impl_->stop_.WaitForNotificationWithTimeout(timeout);
}

// ---- key-value ----------------------------------------------------------------------------------

absl::Status NodeKeyValue::Set(absl::string_view key, absl::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  return node_->control_
      ->Call("kv.set", Json{{"key", std::move(name)}, {"value", absl::Base64Escape(value)}},
             kRoundTrip)
      .status();
}

absl::StatusOr<std::string> NodeKeyValue::Get(absl::string_view key, absl::Duration timeout) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  const Json params{{"key", std::move(name)}, {"timeout_ms", TimeoutMs(timeout)}};
  const absl::Duration longest = std::max(timeout, absl::ZeroDuration()) + kRoundTrip;
  MILLRACE_ASSIGN_OR_RETURN(const Json reply,
                            timeout > absl::ZeroDuration()
                                ? node_->control_->CallAndWait("kv.get", params, longest)
                                : node_->control_->Call("kv.get", params, longest));
  std::string value;
  const absl::StatusOr<std::string> encoded = GetString(reply, "value");
  if (!encoded.ok() || !absl::Base64Unescape(*encoded, &value)) {
    return absl::InternalError(
        absl::StrCat("the agent's value of \"", EscapeControls(key), "\" is no base64"));
  }
  return value;
}

absl::StatusOr<int64_t> NodeKeyValue::Add(absl::string_view key, int64_t delta) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  MILLRACE_ASSIGN_OR_RETURN(
      const Json reply,
      node_->control_->Call("kv.add", Json{{"key", std::move(name)}, {"delta", delta}},
                            kRoundTrip));
  // "A decimal": as a number or as its text.
  if (const absl::StatusOr<int64_t> number = GetInt(reply, "value"); number.ok()) return *number;
  int64_t value = 0;
  if (absl::SimpleAtoi(GetString(reply, "value").value_or(""), &value)) return value;
  return absl::InternalError(
      absl::StrCat("the agent's counter \"", EscapeControls(key), "\" is no number"));
}

absl::Status NodeKeyValue::Delete(absl::string_view key) {
  MILLRACE_ASSIGN_OR_RETURN(std::string name, Utf8("the key", key));
  return node_->control_->Call("kv.delete", Json{{"key", std::move(name)}}, kRoundTrip).status();
}

}  // namespace millrace
