#include "core/node/node_context.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/status.h"
#include "core/base/status_macros.h"
#include "core/node/absolute_path.h"
#include "core/node/model_export.h"

namespace millrace {
namespace {

// How long the agent may take for what needs no other host.
constexpr absl::Duration kAgentTimeout = absl::Seconds(30);
// What a call that waits at the coordinator may take beyond its own timeout.
constexpr absl::Duration kRoundTrip = absl::Seconds(30);
// Exit code of a node whose agent is gone: EX_SOFTWARE.
constexpr int kExitAgentGone = 70;

bool IsFedJob(absl::string_view job) {
  return job == "chief" || job == "master" || job == "worker";
}

std::string UserName() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : EnvOr("USER", "nobody");
}

int64_t TimeoutMs(absl::Duration timeout) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);  // an infinite one must fit the wire
  return absl::ToInt64Milliseconds(std::min(timeout, kLongest));
}

}  // namespace

// ---- key-value -------------------------------------------------------------------------------------

absl::Status NodeKeyValue::Set(absl::string_view key, absl::string_view value) {
  return control_
      ->Call("kv.set", Json{{"key", std::string(key)}, {"value", absl::Base64Escape(value)}},
             kRoundTrip)
      .status();
}

absl::StatusOr<std::string> NodeKeyValue::Get(absl::string_view key, absl::Duration timeout) {
  MILLRACE_ASSIGN_OR_RETURN(
      const Json reply,
      control_->Call("kv.get",
                     Json{{"key", std::string(key)}, {"timeout_ms", TimeoutMs(timeout)}},
                     timeout + kRoundTrip));
  MILLRACE_ASSIGN_OR_RETURN(const std::string encoded, GetString(reply, "value"));
  std::string value;
  if (!absl::Base64Unescape(encoded, &value)) {
    return absl::DataLossError(absl::StrCat("the agent's value of \"", key, "\" is no base64"));
  }
  return value;
}

absl::StatusOr<int64_t> NodeKeyValue::Add(absl::string_view key, int64_t delta) {
  MILLRACE_ASSIGN_OR_RETURN(
      const Json reply,
      control_->Call("kv.add", Json{{"key", std::string(key)}, {"delta", delta}}, kRoundTrip));
  return GetInt(reply, "value");
}

absl::Status NodeKeyValue::Delete(absl::string_view key) {
  return control_->Call("kv.delete", Json{{"key", std::string(key)}}, kRoundTrip).status();
}

// ---- life ------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<NodeContext>> NodeContext::Create(NodeConfig config,
                                                                 UniqueFd control_fd) {
  std::unique_ptr<NodeContext> context(new NodeContext(std::move(config)));
  MILLRACE_RETURN_IF_ERROR(context->Connect(std::move(control_fd)));
  return context;
}

NodeContext::NodeContext(NodeConfig config)
    : config_(std::move(config)),
      cluster_spec_(config_.cluster_spec),
      epoch_(config_.epoch),
      port_fd_(config_.port_fd.value_or(-1)) {}

// The channel's reader thread uses the rest: it goes first.
NodeContext::~NodeContext() { control_.reset(); }

absl::Status NodeContext::Connect(UniqueFd control_fd) {
  if (config_.feed && IsFedJob(config_.job_name)) {
    FeedReceiverOptions options;
    options.node_name = name();
    options.nonce = config_.nonce;
    options.queues = config_.queues;
    options.budget_bytes = config_.feed_budget_bytes;
    MILLRACE_ASSIGN_OR_RETURN(receiver_, FeedReceiver::Start(std::move(options)));
  }
  ControlClient::Handlers handlers;
  handlers.on_push = [this](const Json& frame) { OnPush(frame); };
  handlers.on_closed = [](const absl::Status& status) {
    std::fprintf(stderr, "millrace: this node ends: %s\n", std::string(status.message()).c_str());
    ::_exit(kExitAgentGone);
  };
  MILLRACE_ASSIGN_OR_RETURN(control_, ControlClient::Start(std::move(control_fd), handlers));
  kv_ = NodeKeyValue(control_.get());
  MILLRACE_RETURN_IF_ERROR(
      control_->Call("hello", Json{{"protocol", 1}, {"sdk", "millrace-c++"}}, kAgentTimeout).status());
  Json ready{{"other", Json::object()}};
  if (receiver_ != nullptr) {
    const FeedEndpoints endpoints = receiver_->endpoints();
    ready["feed"] = Json{{"tcp", endpoints.tcp}, {"ipc", endpoints.ipc}, {"key", endpoints.key}};
  }
  return control_->Call("ready", ready, kAgentTimeout).status();
}

void NodeContext::Finish(const absl::Status& outcome) {
  if (receiver_ != nullptr) {
    const absl::Status fed = receiver_->Finish(outcome);
    if (!fed.ok()) MILLRACE_LOG(WARNING) << "ending the feed: " << fed;
  }
  if (!outcome.ok()) {
    control_
        ->Notify("exit", Json{{"code", absl::StatusCodeToString(outcome.code())},
                              {"message", std::string(outcome.message())}})
        .IgnoreError();  // the exit code says it too
  }
}

// ---- pushes ----------------------------------------------------------------------------------------

void NodeContext::OnPush(const Json& frame) {
  const std::string kind = GetString(frame, "push").value_or("");
  if (kind == "spec") {
    OnSpec(frame);
  } else if (kind == "feed_end") {
    if (receiver_ != nullptr) {
      receiver_->FeedEnd(GetStringOr(frame, "feed_id", "").value_or(""),
                         GetBoolOr(frame, "aborted", false).value_or(false));
    }
  } else if (kind == "end_feed") {
    if (receiver_ == nullptr) return;
    const std::string queue = GetStringOr(frame, "queue", "").value_or("");
    if (queue.empty()) {
      receiver_->EndAllFeeds();
    } else {
      receiver_->EndFeed(queue);
    }
  } else if (kind == "stop") {
    if (receiver_ != nullptr) receiver_->EndAllFeeds();
    stop_.Notify();
  } else {
    MILLRACE_LOG(WARNING) << "the agent's push \"" << kind << "\" is unknown here and ignored";
  }
}

void NodeContext::OnSpec(const Json& frame) {
  const absl::StatusOr<int64_t> epoch = GetInt(frame, "epoch");
  const absl::StatusOr<const Json*> json = GetObject(frame, "cluster_spec");
  if (!epoch.ok() || !json.ok()) return;
  absl::StatusOr<ClusterSpec> spec = ClusterSpec::FromJson(**json);
  if (!spec.ok()) {
    MILLRACE_LOG(WARNING) << "cluster spec of epoch " << *epoch << " ignored: " << spec.status();
    return;
  }
  MutexLock lock(&mu_);
  if (static_cast<uint64_t>(*epoch) <= epoch_) return;
  epoch_ = static_cast<uint64_t>(*epoch);
  cluster_spec_ = *std::move(spec);
}

// ---- identity --------------------------------------------------------------------------------------

std::string NodeContext::name() const {
  return absl::StrCat(config_.job_name, ":", config_.task_index);
}

bool NodeContext::is_chief() const {
  if (config_.job_name == "chief" || config_.job_name == "master") return true;
  return config_.job_name == "worker" && config_.rank == 0;
}

ClusterSpec NodeContext::cluster_spec() const {
  MutexLock lock(&mu_);
  return cluster_spec_;
}

uint64_t NodeContext::epoch() const {
  MutexLock lock(&mu_);
  return epoch_;
}

std::string NodeContext::AbsolutePath(absl::string_view path) const {
  return millrace::AbsolutePath(path, config_.default_fs, config_.working_dir, UserName());
}

int NodeContext::port_fd() const {
  MutexLock lock(&mu_);
  return port_fd_.get();
}

absl::Status NodeContext::ReleasePort() {
  {
    MutexLock lock(&mu_);
    if (!port_fd_.valid()) return absl::OkStatus();
    port_fd_.reset();
  }
  return control_->Call("release_port", Json::object(), kAgentTimeout).status();
}

absl::StatusOr<std::vector<std::string>> NodeContext::ClaimGpus(int num_gpus) {
  return absl::UnimplementedError(absl::StrCat(
      name(), " asked for ", num_gpus, " GPUs: this version of Millrace does not claim GPUs yet; set "
      "CUDA_VISIBLE_DEVICES for the node instead"));
}

// ---- data ------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<DataFeed>> NodeContext::TryGetDataFeed(
    const DataFeedOptions& options) {
  if (receiver_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        name(), " is not fed: ",
        config_.feed ? "only chief, master and workers are"
                     : "the cluster runs in InputMode DIRECT; run it with InputMode FEED"));
  }
  return receiver_->GetDataFeed(options);
}

std::unique_ptr<DataFeed> NodeContext::GetDataFeed(const DataFeedOptions& options) {
  absl::StatusOr<std::unique_ptr<DataFeed>> feed = TryGetDataFeed(options);
  MILLRACE_CHECK(feed.ok()) << "GetDataFeed: " << feed.status().message();
  return *std::move(feed);
}

absl::Status NodeContext::ExportModel(
    absl::string_view path,
    const std::function<absl::Status(const std::string& directory)>& write) {
  if (!is_chief()) return absl::OkStatus();
  return ExportDirectory(AbsolutePath(path), write);
}

// ---- the others ------------------------------------------------------------------------------------

absl::Status NodeContext::Barrier(absl::string_view barrier, absl::Duration timeout) {
  if (!IsFedJob(config_.job_name)) {
    return absl::FailedPreconditionError(absl::StrCat(
        name(), " cannot wait at barrier \"", barrier, "\": only chief, master and workers take part"));
  }
  return control_
      ->Call("barrier", Json{{"name", std::string(barrier)}, {"timeout_ms", TimeoutMs(timeout)}},
             timeout + kRoundTrip)
      .status();
}

void NodeContext::ReportMetric(absl::string_view metric, int64_t step, double value) {
  control_->Notify("metric", Json{{"name", std::string(metric)}, {"step", step}, {"value", value}})
      .IgnoreError();  // a report that is lost stops nobody
}

bool NodeContext::WaitForStop(absl::Duration timeout) const {
  return stop_.WaitForNotificationWithTimeout(timeout);
}

}  // namespace millrace
