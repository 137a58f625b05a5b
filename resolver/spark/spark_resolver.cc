#include "millrace/spark_resolver.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"
#include "resolver/member_completeness.h"
#include "resolver/polling_watch.h"
#include "resolver/spark/spark_application.h"
#include "resolver/spark/spark_cluster.h"
#include "resolver/spark/spark_rest_client.h"

namespace millrace {
class [[gnu::visibility("hidden")]] SparkResolver::Impl {
 public:
  Impl(SparkResolverOptions options, std::vector<SparkJob> jobs,
       std::unique_ptr<SparkRestClient> spark)
      : options_(std::move(options)), jobs_(std::move(jobs)), spark_(std::move(spark)) {}

  [[nodiscard]] const SparkResolverOptions& options() const { return options_; }
  [[nodiscard]] const std::string& url() const { return spark_->url(); }

  absl::StatusOr<SparkCluster> Ask() {
    MILLRACE_ASSIGN_OR_RETURN(const SparkApplication application, spark_->Application());
    return MakeSparkCluster(application, jobs_, options_.completeness);
  }

  absl::StatusOr<ClusterSpec> Spec() {
    MILLRACE_ASSIGN_OR_RETURN(SparkCluster cluster, Ask());
    return std::move(cluster.spec);
  }

  // The task of `executor_id`; nullopt if that is not known or no member.
  absl::StatusOr<std::optional<SparkTask>> OwnTask() {
    if (options_.executor_id.empty()) return std::nullopt;
    MILLRACE_ASSIGN_OR_RETURN(SparkCluster cluster, Ask());
    for (SparkTask& task : cluster.tasks) {
      if (task.executor.id == options_.executor_id) return std::move(task);
    }
    return std::nullopt;
  }

 private:
  const SparkResolverOptions options_;
  const std::vector<SparkJob> jobs_;
  const std::unique_ptr<SparkRestClient> spark_;
};

SparkResolver::SparkResolver(BaseOptions base, std::unique_ptr<Impl> impl)
    : ResolverBase(std::move(base)), impl_(std::move(impl)) {}

SparkResolver::~SparkResolver() = default;

absl::StatusOr<std::unique_ptr<SparkResolver>> SparkResolver::Create(SparkResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  if (options.wait_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("wait_timeout must be above 0");
  }
  std::vector<SparkJob> jobs;
  for (const auto& [name, num_tasks] : options.jobs) {
    jobs.push_back({.name = name, .num_tasks = num_tasks, .port = options.port_base});
  }
  if (jobs.empty()) jobs.push_back({.name = "worker", .port = options.port_base});
  for (const auto& [name, port] : options.ports) {
    bool known = false;
    for (SparkJob& job : jobs) {
      if (job.name != name) continue;
      job.port = port;
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("ports names a job that there is not: ",
                                                     Ellipsize(EscapeControls(name), 100)));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(jobs, CheckSparkJobs(std::move(jobs)));
  if (options.executor_id.empty()) options.executor_id = EnvOr("SPARK_EXECUTOR_ID", "");
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<SparkRestClient> spark,
                            SparkRestClient::Create({.url = options.url,
                                                     .application_id = options.application_id,
                                                     .tls = options.tls,
                                                     .timeout = options.timeout}));
  BaseOptions base{.properties = options.properties,
                   .count_accelerators = options.count_accelerators};
  return std::unique_ptr<SparkResolver>(new SparkResolver(
      std::move(base),
      std::make_unique<Impl>(std::move(options), std::move(jobs), std::move(spark))));
}

absl::StatusOr<ClusterSpec> SparkResolver::cluster_spec() {
  const auto ask = [this] { return impl_->Spec(); };
  const SparkResolverOptions& options = impl_->options();
  if (options.completeness != MemberCompleteness::kWait) return ask();
  return AskUntilComplete(ask, options.wait_timeout);
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> SparkResolver::Watch(MembershipCallback callback,
                                                                      const WatchOptions& options) {
  const auto ask = [this] { return impl_->Spec(); };
  return PollMembers(ask, std::move(callback), options);
}

absl::StatusOr<std::vector<SparkTask>> SparkResolver::Tasks() {
  MILLRACE_ASSIGN_OR_RETURN(SparkCluster cluster, impl_->Ask());
  return std::move(cluster.tasks);
}

absl::StatusOr<std::map<std::string, int>> SparkResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  MILLRACE_RETURN_IF_ERROR(CompleteTask(&task_type, &task_id));
  if (!task_type.has_value() || !task_id.has_value()) return CountLocalAccelerators();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<SparkTask> tasks, Tasks());
  for (const SparkTask& task : tasks) {
    if (task.job != *task_type || task.index != *task_id) continue;
    std::map<std::string, int> accelerators;
    for (const auto& [name, addresses] : task.executor.resources) {
      if (addresses.empty()) continue;
      accelerators[absl::AsciiStrToUpper(name)] += static_cast<int>(addresses.size());
    }
    return accelerators;
  }
  return absl::NotFoundError(absl::StrCat("no executor of the application at ", impl_->url(),
                                          " is ", *task_type, ":", *task_id));
}

absl::StatusOr<std::optional<std::string>> SparkResolver::SourceTaskType() {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<SparkTask> task, impl_->OwnTask());
  if (!task.has_value()) return std::nullopt;
  return task->job;
}

absl::StatusOr<std::optional<int>> SparkResolver::SourceTaskId() {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<SparkTask> task, impl_->OwnTask());
  if (!task.has_value()) return std::nullopt;
  return task->index;
}

}  // namespace millrace
