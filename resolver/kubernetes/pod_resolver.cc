#include "resolver/kubernetes/pod_resolver.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/kubernetes/pod_cluster_watch.h"
#include "resolver/kubernetes/pod_identity.h"
#include "resolver/kubernetes/pod_member.h"

namespace millrace {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", EscapeControls(Ellipsize(text, 200)), "\"");
}

absl::Status CheckJobs(const KubernetesResolverOptions& options) {
  std::set<std::string> names;
  for (const auto& [job, selectors] : options.job_to_label_mapping) {
    if (job.empty()) return absl::InvalidArgumentError("a job has no name");
    if (!names.insert(job).second) {
      return absl::InvalidArgumentError(absl::StrCat("job ", Quoted(job), " is there twice"));
    }
    if (selectors.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", Quoted(job), " has no label selector: give at least one"));
    }
    for (const std::string& selector : selectors) {
      if (selector.find_first_not_of(" \t") == std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat(
            "job ", Quoted(job), " has an empty label selector, which selects every pod ",
            PodPlace(options.namespace_name), "; name a label, for example app=", job));
      }
    }
  }
  for (const auto& [job, port] : options.ports) {
    if (!names.contains(job)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a port is given for job ", Quoted(job), ", which has no label selectors"));
    }
  }
  for (const auto& [job, tasks] : options.expected_tasks) {
    if (!names.contains(job)) {
      return absl::InvalidArgumentError(absl::StrCat("tasks are expected of job ", Quoted(job),
                                                     ", which has no label selectors"));
    }
    if (tasks < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", Quoted(job), " cannot have ", tasks, " tasks"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPositive(absl::string_view name, absl::Duration duration) {
  if (duration > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be above 0, found ", absl::FormatDuration(duration)));
}

absl::Status CheckOptions(const KubernetesResolverOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckJobs(options));
  if (options.tf_server_port < 1 || options.tf_server_port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("tf_server_port must be in 1..65535, found ", options.tf_server_port));
  }
  if (options.all_namespaces && !options.namespace_name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the namespace ", Quoted(options.namespace_name),
                                                   " is given and all_namespaces too: choose one"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckPositive("timeout", options.timeout));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("wait_timeout", options.wait_timeout));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("max_backoff", options.max_backoff));
  return CheckTaskId(options.properties.task_id);
}

// Waiting does not help.
bool IsFinal(absl::StatusCode code) {
  return code == absl::StatusCode::kPermissionDenied ||
         code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kInvalidArgument;
}

class PodMembershipWatch final : public MembershipWatch {
 public:
  PodMembershipWatch(std::shared_ptr<KubernetesClient> client, PodClusterRules rules,
                     PodClusterWatch::Options options, MembershipCallback callback)
      : tracker_(std::move(callback)),
        watch_(std::move(client), std::move(rules), options,
               [this](const absl::StatusOr<PodCluster>& cluster, absl::Time now) {
                 if (cluster.ok()) {
                   tracker_.Observe(cluster->spec, now);
                 } else {
                   tracker_.Observe(cluster.status(), now);
                 }
               }) {}

 private:
  MembershipTracker tracker_;  // used by the watch's thread alone
  PodClusterWatch watch_;
};

// Asks and watches the server for the pods of all jobs.
class PodFinder {
 public:
  PodFinder(KubernetesResolverOptions options, std::shared_ptr<KubernetesClient> client,
            std::optional<PodIdentity> identity, Clock* clock)
      : options_(std::move(options)),
        client_(std::move(client)),
        identity_(std::move(identity)),
        clock_(clock) {
    rules_.namespace_name = options_.namespace_name;
    rules_.completeness = options_.completeness;
    for (const auto& [job, selectors] : options_.job_to_label_mapping) {
      PodSource source{.job = job, .selectors = selectors};
      const auto port = options_.ports.find(job);
      source.rules = {.port = port != options_.ports.end()
                                  ? port->second
                                  : PodPort::Number(options_.tf_server_port),
                      .address = options_.address,
                      .cluster_domain = options_.cluster_domain,
                      .require_ready = options_.require_ready};
      if (const auto expected = options_.expected_tasks.find(job);
          expected != options_.expected_tasks.end()) {
        source.expected_tasks = expected->second;
      }
      rules_.jobs.push_back(std::move(source));
    }
  }

  [[nodiscard]] bool has_identity() const { return identity_.has_value(); }

  // The pods now, or once they are complete.
  [[nodiscard]] absl::StatusOr<PodCluster> Resolve() const {
    const absl::Duration begin = clock_->SteadyNow();
    absl::StatusOr<PodCluster> cluster = List(options_.timeout);
    if (cluster.ok() || options_.completeness != MemberCompleteness::kWait ||
        IsFinal(cluster.status().code())) {
      return cluster;
    }
    return AwaitComplete(begin + options_.wait_timeout, std::move(cluster));
  }

  // The task that this pod is; null if it is none.
  [[nodiscard]] const PodCluster::Task* OwnTask(const PodCluster& cluster) const {
    if (!identity_.has_value()) return nullptr;
    const auto it = std::find_if(cluster.tasks.begin(), cluster.tasks.end(),
                                 [this](const PodCluster::Task& task) {
                                   if (!identity_->uid.empty())
                                     return task.pod->uid == identity_->uid;
                                   return task.pod->name == identity_->name &&
                                          task.pod->namespace_name == identity_->namespace_name;
                                 });
    return it == cluster.tasks.end() ? nullptr : &*it;
  }

  [[nodiscard]] std::unique_ptr<MembershipWatch> Watch(MembershipCallback callback) const {
    return std::make_unique<PodMembershipWatch>(client_, rules_, WatchOptions(),
                                                std::move(callback));
  }

 private:
  [[nodiscard]] absl::StatusOr<PodCluster> List(absl::Duration timeout) const {
    const absl::Duration deadline = clock_->SteadyNow() + timeout;
    std::vector<PodJob> jobs;
    for (const PodSource& source : rules_.jobs) {
      PodJob& job =
          jobs.emplace_back(PodJob{.name = source.job, .expected_tasks = source.expected_tasks});
      for (const std::string& selector : source.selectors) {
        const absl::Duration left = deadline - clock_->SteadyNow();
        absl::StatusOr<PodList> list =
            left > absl::ZeroDuration()
                ? client_->ListPods(
                      {.namespace_name = rules_.namespace_name, .label_selector = selector}, left,
                      {})
                : absl::DeadlineExceededError(
                      absl::StrCat("listing the pods of the jobs before took the whole timeout of ",
                                   absl::FormatDuration(timeout), "; give more"));
        if (!list.ok()) {
          return Annotate(list.status(), absl::StrCat("job ", Quoted(source.job), " (",
                                                      EscapeControls(selector), ")"));
        }
        PodJob::Selected& selected =
            job.selected.emplace_back(PodJob::Selected{.selector = selector});
        selected.pods.reserve(list->pods.size());
        for (const Pod& pod : list->pods) {
          selected.pods.push_back(
              std::make_shared<const PodMember>(MakePodMember(pod, source.rules)));
        }
      }
    }
    return MakePodCluster(jobs, rules_.completeness, PodPlace(rules_.namespace_name));
  }

  // Watches until the pods are complete. `last` is the answer so far, an error.
  [[nodiscard]] absl::StatusOr<PodCluster> AwaitComplete(absl::Duration deadline,
                                                         absl::StatusOr<PodCluster> last) const {
    struct {
      Mutex mu;
      CondVar changed;
      absl::StatusOr<PodCluster> cluster ABSL_GUARDED_BY(mu);
    } heard;
    {
      MutexLock lock(&heard.mu);
      heard.cluster = std::move(last);
    }
    const PodClusterWatch watch(client_, rules_, WatchOptions(),
                                [&heard](const absl::StatusOr<PodCluster>& cluster, absl::Time) {
                                  MutexLock lock(&heard.mu);
                                  heard.cluster = cluster;
                                  heard.changed.SignalAll();
                                });
    MutexLock lock(&heard.mu);
    while (!heard.cluster.ok() && !IsFinal(heard.cluster.status().code())) {
      const absl::Duration left = deadline - clock_->SteadyNow();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat("waited ",
                                                        absl::FormatDuration(options_.wait_timeout),
                                                        "; ", heard.cluster.status().message()));
      }
      // Waits are timed by the wall clock, which may jump: look at the steady one once a second.
      heard.changed.WaitWithTimeout(&heard.mu, std::min(left, absl::Seconds(1)));
    }
    return heard.cluster;
  }

  [[nodiscard]] PodClusterWatch::Options WatchOptions() const {
    PodClusterWatch::Options options;
    options.pods.list_timeout = options_.timeout;
    options.pods.max_backoff = options_.max_backoff;
    options.pods.first_backoff = std::min(options.pods.first_backoff, options_.max_backoff);
    options.pods.clock = clock_;
    return options;
  }

  const KubernetesResolverOptions options_;
  const std::shared_ptr<KubernetesClient> client_;
  const std::optional<PodIdentity> identity_;
  Clock* const clock_;     // not owned
  PodClusterRules rules_;  // constant once made
};

bool WithinCluster(const KubernetesResolverOptions& options, KubernetesConfigLoader& loader) {
  if (options.executable_location != ExecutableLocation::kAutomatic) {
    return options.executable_location == ExecutableLocation::kWithinCluster;
  }
  // A kubeconfig or a context that is named is meant.
  if (!options.kubeconfig.empty() || !options.context.empty()) return false;
  return loader.RunsInCluster();
}

class PodResolver final : public KubernetesResolver {
 public:
  PodResolver(const KubernetesResolverOptions& options, std::shared_ptr<KubernetesClient> client,
              std::optional<PodIdentity> identity, Clock* clock)
      : KubernetesResolver(options),
        pods_(options, std::move(client), std::move(identity), clock) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override {
    MILLRACE_ASSIGN_OR_RETURN(PodCluster cluster, pods_.Resolve());
    return std::move(cluster.spec);
  }

  absl::StatusOr<std::string> master(std::optional<std::string> task_type,
                                     std::optional<int> task_id,
                                     std::optional<std::string> rpc_layer) override;
  absl::StatusOr<std::map<std::string, int>> num_accelerators(std::optional<std::string> task_type,
                                                              std::optional<int> task_id) override;
  absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(MembershipCallback callback,
                                                         const WatchOptions& options) override;

 protected:
  absl::StatusOr<std::optional<std::string>> SourceTaskType() override;
  absl::StatusOr<std::optional<int>> SourceTaskId() override;

 private:
  const PodFinder pods_;
};

absl::StatusOr<std::string> PodResolver::master(std::optional<std::string> task_type,
                                                std::optional<int> task_id,
                                                std::optional<std::string> rpc_layer) {
  const TaskProperties set = overrides();
  if (!task_type.has_value()) task_type = set.task_type;
  if (!task_id.has_value()) task_id = set.task_id;
  const bool known = task_type.has_value() && task_id.has_value();
  if (!known && !pods_.has_identity()) return std::string();
  // One list answers both who this is and where.
  MILLRACE_ASSIGN_OR_RETURN(const PodCluster cluster, pods_.Resolve());
  if (!known) {
    const PodCluster::Task* own = pods_.OwnTask(cluster);
    if (own == nullptr) return std::string();
    if (!task_type.has_value()) task_type = own->job;
    if (!task_id.has_value()) task_id = own->index;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                            cluster.spec.TaskAddress(*task_type, *task_id));
  if (!rpc_layer.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(rpc_layer, this->rpc_layer());
  }
  return FormatMasterUrl(address, rpc_layer.value_or(""));
}

absl::StatusOr<std::map<std::string, int>> PodResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  if (!task_type.has_value() && !task_id.has_value()) return CountLocalAccelerators();
  MILLRACE_ASSIGN_OR_RETURN(const PodCluster cluster, pods_.Resolve());
  const PodCluster::Task* pod_task = pods_.OwnTask(cluster);
  const TaskProperties set = overrides();
  std::optional<std::string> own_type = set.task_type;
  std::optional<int> own_id = set.task_id;
  if (pod_task != nullptr) {
    if (!own_type.has_value()) own_type = pod_task->job;
    if (!own_id.has_value()) own_id = pod_task->index;
  }
  if (!task_type.has_value()) task_type = own_type;
  if (!task_id.has_value()) task_id = own_id;
  if (!task_type.has_value() || !task_id.has_value()) {
    return absl::InvalidArgumentError(
        "which task's accelerators are meant, is not known: give task_type and task_id");
  }
  if (task_type == own_type && task_id == own_id) return CountLocalAccelerators();
  MILLRACE_RETURN_IF_ERROR(cluster.spec.TaskAddress(*task_type, *task_id));
  const auto it =
      std::find_if(cluster.tasks.begin(), cluster.tasks.end(), [&](const PodCluster::Task& task) {
        return task.job == *task_type && task.index == *task_id;
      });
  return it->pod->accelerators;
}

absl::StatusOr<std::optional<std::string>> PodResolver::SourceTaskType() {
  if (!pods_.has_identity()) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(const PodCluster cluster, pods_.Resolve());
  const PodCluster::Task* own = pods_.OwnTask(cluster);
  if (own == nullptr) return std::nullopt;
  return own->job;
}

absl::StatusOr<std::optional<int>> PodResolver::SourceTaskId() {
  if (!pods_.has_identity()) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(const PodCluster cluster, pods_.Resolve());
  const PodCluster::Task* own = pods_.OwnTask(cluster);
  if (own == nullptr) return std::nullopt;
  return own->index;
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> PodResolver::Watch(
    MembershipCallback callback, const WatchOptions& /*options*/) {
  if (callback == nullptr) {
    return absl::InvalidArgumentError("a watch needs a callback to call with the members");
  }
  return pods_.Watch(std::move(callback));
}

}  // namespace

namespace internal {

absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakePodResolver(
    KubernetesResolverOptions options, const KubernetesHooks& hooks) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));

  KubernetesConfigLoader& loader = *hooks.config_loader;
  const bool within = WithinCluster(options, loader);
  std::shared_ptr<KubernetesClient> client = options.override_client;
  std::string namespace_name;
  if (client == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(KubernetesAccess access,
                              within ? loader.InCluster() : loader.KubeConfig(options.context));
    client = std::move(access.client);
    namespace_name = std::move(access.namespace_name);
  }
  std::optional<PodIdentity> identity =
      options.identity.has_value() ? options.identity : PodIdentityFromEnvironment(within);
  std::string own = identity.has_value() ? identity->namespace_name : "";
  if (own.empty()) own = namespace_name;
  if (own.empty()) own = "default";
  if (identity.has_value() && identity->namespace_name.empty()) identity->namespace_name = own;
  if (options.all_namespaces) {
    options.namespace_name.clear();
  } else if (options.namespace_name.empty()) {
    options.namespace_name = own;
  }
  return std::make_unique<PodResolver>(options, std::move(client), std::move(identity),
                                       hooks.clock);
}

}  // namespace internal

KubernetesResolver::KubernetesResolver(const KubernetesResolverOptions& options)
    : ResolverBase({.properties = {.task_type = options.properties.task_type,
                                   .task_id = options.properties.task_id,
                                   .rpc_layer = options.properties.rpc_layer.value_or("grpc")},
                    .count_accelerators = options.count_accelerators}) {}

KubernetesResolver::~KubernetesResolver() = default;

}  // namespace millrace
