#include "millrace/cluster_members_resolver.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/client/cluster_file.h"
#include "core/client/raw_cluster_client.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"
#include "resolver/member_completeness.h"
#include "resolver/spark/cluster_members.h"

namespace millrace {
namespace {

constexpr size_t kMaxContextBytes = size_t{64} << 20;
constexpr size_t kMaxNodesNamed = 5;
constexpr absl::Duration kInterval = absl::Milliseconds(50);

bool IsMember(const v1::SlotStatus& slot) {
  switch (slot.state()) {
    case v1::SLOT_STATE_REGISTERED:
    case v1::SLOT_STATE_READY:
    case v1::SLOT_STATE_RUNNING:
    case v1::SLOT_STATE_DRAINING:
      return !slot.address().empty();
    default:
      return false;
  }
}

std::string NameOf(const ClusterView& view, absl::string_view address) {
  return absl::StrCat("cluster ", Ellipsize(EscapeControls(view.cluster().cluster_id()), 100),
                      " at ", address);
}

// Turns the updates of a coordinator into those of a membership. Its methods are called from the
// client's watch thread.
class MembersWatch final : public MembershipWatch {
 public:
  MembersWatch(MembershipCallback callback, MemberCompleteness completeness, std::string address)
      : tracker_(std::move(callback)), completeness_(completeness), address_(std::move(address)) {}
  ~MembersWatch() override {
    if (watch_ != nullptr) watch_->Stop();
  }

  absl::Status Start(RawClusterClient* client) {
    RawWatchCallbacks callbacks;
    callbacks.on_update = [this](const v1::WatchUpdate& update, const ClusterView& view) {
      // Most updates are samples and heartbeats.
      if (!known_ || update.snapshot() || update.slots_size() > 0 || update.has_cluster()) {
        answer_ = MembersOf(view, completeness_, address_);
        known_ = true;
      }
      tracker_.Observe(answer_, absl::Now());
    };
    callbacks.on_state = [this](const WatchState& state) {
      const absl::Status status = StatusOf(state);
      if (!status.ok()) tracker_.Observe(status, absl::Now());
    };
    MILLRACE_ASSIGN_OR_RETURN(watch_,
                              client->Watch({.level = v1::WATCH_LEVEL_NODES, .interval = kInterval},
                                            std::move(callbacks)));
    return absl::OkStatus();
  }

 private:
  absl::Status StatusOf(const WatchState& state) const {
    switch (state.kind) {
      case WatchState::Kind::kLive:
        return absl::OkStatus();
      case WatchState::Kind::kConnecting:
      case WatchState::Kind::kStale:
      case WatchState::Kind::kRefused:
        return state.reason;
      case WatchState::Kind::kGone:
        return state.reason.ok()
                   ? absl::UnavailableError(absl::StrCat("the cluster whose coordinator was at ",
                                                         address_, " has ended"))
                   : state.reason;
    }
    return absl::OkStatus();
  }

  // All of it belongs to the watch's thread.
  MembershipTracker tracker_;
  const MemberCompleteness completeness_;
  const std::string address_;
  absl::StatusOr<ClusterSpec> answer_;
  bool known_ = false;
  std::unique_ptr<ClusterWatch> watch_;
};

// A program would take the members of a cluster that it does not mean.
absl::Status CheckOneCluster() {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList list, ListClusterFiles());
  if (list.clusters.size() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      list.clusters.size(), " clusters of yours run here: ", ClusterNames(list.clusters),
      "; say which one: --cluster ID"));
}

}  // namespace

absl::StatusOr<ClusterSpec> MembersOf(const ClusterView& view, MemberCompleteness completeness,
                                      absl::string_view address) {
  const v1::ClusterInfo& cluster = view.cluster();
  if (cluster.phase() == v1::ClusterInfo::PHASE_ENDED ||
      cluster.phase() == v1::ClusterInfo::PHASE_FAILED) {
    const std::string& cause = cluster.first_cause().message();
    return absl::UnavailableError(
        absl::StrCat(NameOf(view, address), " has ", PhaseText(cluster.phase()),
                     cause.empty() ? "" : ": ", Ellipsize(EscapeControls(FirstLine(cause)), 300)));
  }
  ClusterSpec spec;
  std::vector<std::string> missing;
  size_t members = 0;
  for (const v1::SlotStatus& slot : view.slots()) {
    if (IsMember(slot)) {
      ++members;
      MILLRACE_RETURN_IF_ERROR(spec.SetTask(slot.job_name(), slot.task_index(), slot.address()));
      continue;
    }
    const std::string cause = Ellipsize(EscapeControls(FirstLine(slot.error().message())), 200);
    missing.push_back(absl::StrCat(NodeName(slot), " is ", SlotStateText(slot.state()),
                                   cause.empty() ? "" : " (", cause, cause.empty() ? "" : ")"));
  }
  if (missing.empty() || completeness == MemberCompleteness::kAvailable) return spec;
  const size_t total = view.slots().size();
  if (missing.size() > kMaxNodesNamed) {
    missing.resize(kMaxNodesNamed);
    missing.push_back("...");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(NameOf(view, address), " is not complete: have ", members, " of ", total,
                   " nodes; ", absl::StrJoin(missing, ", ")));
}

class [[gnu::visibility("hidden")]] ClusterMembersResolver::Impl {
 public:
  Impl(ClusterMembersResolverOptions options, std::unique_ptr<RawClusterClient> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  struct OwnTask {
    std::string job;
    int index = 0;
  };
  // Of the node that this process is, or was started by; nullopt if it is none of this cluster.
  absl::StatusOr<std::optional<OwnTask>> FindOwnTask();

  [[nodiscard]] const ClusterMembersResolverOptions& options() const { return options_; }
  [[nodiscard]] RawClusterClient& client() const { return *client_; }

 private:
  const ClusterMembersResolverOptions options_;
  const std::unique_ptr<RawClusterClient> client_;
};

ClusterMembersResolver::ClusterMembersResolver(BaseOptions base, std::unique_ptr<Impl> impl)
    : ResolverBase(std::move(base)), impl_(std::move(impl)) {}

ClusterMembersResolver::~ClusterMembersResolver() = default;

absl::StatusOr<std::unique_ptr<ClusterMembersResolver>> ClusterMembersResolver::Create(
    ClusterMembersResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  if (options.wait_timeout <= absl::ZeroDuration() ||
      options.client.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("timeout and wait_timeout must be above 0");
  }
  if (options.client.address.empty()) {
    const absl::Duration timeout = options.client.timeout;
    if (options.cluster.empty()) MILLRACE_RETURN_IF_ERROR(CheckOneCluster());
    MILLRACE_ASSIGN_OR_RETURN(const ClusterFile file, FindClusterFile(options.cluster));
    options.client = ClusterClientOptionsFrom(file);
    options.client.timeout = timeout;
  } else if (!options.cluster.empty()) {
    return absl::InvalidArgumentError(
        "both an address and a cluster name a coordinator: give one of them");
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RawClusterClient> client,
                            RawClusterClient::Connect(options.client));
  BaseOptions base{.properties = options.properties,
                   .count_accelerators = options.count_accelerators};
  return std::unique_ptr<ClusterMembersResolver>(new ClusterMembersResolver(
      std::move(base), std::make_unique<Impl>(std::move(options), std::move(client))));
}

absl::StatusOr<ClusterSpec> ClusterMembersResolver::cluster_spec() {
  const auto ask = [this]() -> absl::StatusOr<ClusterSpec> {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                              impl_->client().Snapshot({.level = v1::WATCH_LEVEL_NODES}));
    return MembersOf(view, impl_->options().completeness, impl_->options().client.address);
  };
  if (impl_->options().completeness != MemberCompleteness::kWait) return ask();
  return AskUntilComplete(ask, impl_->options().wait_timeout);
}

absl::StatusOr<std::map<std::string, int>> ClusterMembersResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  MILLRACE_RETURN_IF_ERROR(CompleteTask(&task_type, &task_id));
  if (!task_type.has_value() || !task_id.has_value()) return CountLocalAccelerators();
  MILLRACE_ASSIGN_OR_RETURN(const ClusterView view, impl_->client().Snapshot());
  const std::string task = absl::StrCat(*task_type, ":", *task_id);
  const v1::SlotStatus* slot = view.FindSlot(task);
  if (slot == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(NameOf(view, impl_->options().client.address), " has no node ", task));
  }
  const v1::WatchUpdate::Node& node = view.nodes()[static_cast<size_t>(slot->executor_id())];
  if (!node.has_sample()) {
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(view, impl_->options().client.address), ": ", task, " is ",
                     SlotStateText(slot->state()), " and has not reported its GPUs yet"));
  }
  std::map<std::string, int> accelerators;
  if (node.sample().claimed_gpus_size() > 0) {
    accelerators["GPU"] = node.sample().claimed_gpus_size();
  }
  return accelerators;
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> ClusterMembersResolver::Watch(
    MembershipCallback callback, const WatchOptions& /*options*/) {
  auto watch = std::make_unique<MembersWatch>(std::move(callback), impl_->options().completeness,
                                              impl_->options().client.address);
  MILLRACE_RETURN_IF_ERROR(watch->Start(&impl_->client()));
  return watch;
}

absl::StatusOr<std::optional<ClusterMembersResolver::Impl::OwnTask>>
ClusterMembersResolver::Impl::FindOwnTask() {
  const std::string path = EnvOr("MILLRACE_CONTEXT_FILE", "");
  if (path.empty()) return std::nullopt;
  const std::string about = absl::StrCat("MILLRACE_CONTEXT_FILE ", path);
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxContextBytes);
  if (!text.ok()) return Annotate(text.status(), about);
  const absl::StatusOr<Json> context = ParseJson(*text);
  if (!context.ok()) return Annotate(context.status(), about);
  const absl::StatusOr<std::string> cluster = GetString(*context, "cluster_id");
  if (!cluster.ok()) return Annotate(cluster.status(), about);
  const absl::StatusOr<std::string> job = GetString(*context, "job_name");
  if (!job.ok()) return Annotate(job.status(), about);
  const absl::StatusOr<int64_t> index = GetIntInRange(*context, "task_index", 0, (1LL << 31) - 1);
  if (!index.ok()) return Annotate(index.status(), about);
  MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                            client_->Snapshot({.level = v1::WATCH_LEVEL_CLUSTER}));
  if (view.cluster().cluster_id() != *cluster) return std::nullopt;
  return OwnTask{.job = *job, .index = static_cast<int>(*index)};
}

absl::StatusOr<std::optional<std::string>> ClusterMembersResolver::SourceTaskType() {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<Impl::OwnTask> task, impl_->FindOwnTask());
  if (!task.has_value()) return std::nullopt;
  return task->job;
}

absl::StatusOr<std::optional<int>> ClusterMembersResolver::SourceTaskId() {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<Impl::OwnTask> task, impl_->FindOwnTask());
  if (!task.has_value()) return std::nullopt;
  return task->index;
}

}  // namespace millrace
