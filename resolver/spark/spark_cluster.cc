#include "resolver/spark/spark_cluster.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kMaxPort = 65535;

// As the roles of a Millrace cluster are dealt.
int RankOf(const std::string& job) {
  if (job == "ps") return 0;
  if (job == "chief" || job == "master") return 1;
  if (job == "evaluator") return 2;
  return job == "worker" ? 4 : 3;
}

std::string DescribeJobs(const std::vector<SparkJob>& jobs) {
  std::vector<std::string> words;
  for (const SparkJob& job : jobs) {
    words.push_back(job.num_tasks.has_value() ? absl::StrCat(job.name, " ", *job.num_tasks)
                                              : absl::StrCat(job.name, " at least 1"));
  }
  return absl::StrJoin(words, ", ");
}

}  // namespace

absl::StatusOr<std::vector<SparkJob>> CheckSparkJobs(std::vector<SparkJob> jobs) {
  std::set<std::string> names;
  const SparkJob* rest = nullptr;
  for (const SparkJob& job : jobs) {
    const std::string name = Ellipsize(EscapeControls(job.name), 100);
    if (job.name.empty()) return absl::InvalidArgumentError("a job has no name");
    if (!names.insert(job.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("the job ", name, " is there twice"));
    }
    if (job.port < 1 || job.port > kMaxPort) {
      return absl::InvalidArgumentError(
          absl::StrCat("the port of job ", name, " must be 1 to 65535, found ", job.port));
    }
    if (job.num_tasks.has_value() && *job.num_tasks < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job ", name, " must have 1 task or more, ", "found ", *job.num_tasks));
    }
    if (job.num_tasks.has_value()) continue;
    if (rest != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("both ", rest->name, " and ", name,
                       " take the executors that are left: give one of them a number"));
    }
    rest = &job;
  }
  if (jobs.empty()) return absl::InvalidArgumentError("there is no job");
  std::stable_sort(jobs.begin(), jobs.end(), [](const SparkJob& a, const SparkJob& b) {
    return RankOf(a.name) < RankOf(b.name);
  });
  return jobs;
}

absl::StatusOr<SparkCluster> MakeSparkCluster(const SparkApplication& application,
                                              const std::vector<SparkJob>& jobs,
                                              MemberCompleteness completeness) {
  std::vector<const SparkExecutor*> usable;
  int excluded = 0;
  for (const SparkExecutor& executor : application.executors) {
    if (!executor.active) continue;
    if (executor.excluded) {
      ++excluded;
    } else {
      usable.push_back(&executor);
    }
  }
  size_t fixed = 0;
  bool open = false;
  for (const SparkJob& job : jobs) {
    fixed += static_cast<size_t>(job.num_tasks.value_or(0));
    open = open || !job.num_tasks.has_value();
  }
  const size_t needed = fixed + (open ? 1 : 0);
  const std::string about =
      absl::StrCat("application ", Ellipsize(EscapeControls(application.id), 100));
  if (usable.size() < needed && completeness != MemberCompleteness::kAvailable) {
    return absl::FailedPreconditionError(absl::StrCat(
        about, " does not have its executors: have ", usable.size(), " of ", needed, " (",
        DescribeJobs(jobs), ")",
        excluded == 0 ? std::string() : absl::StrCat("; ", excluded, " excluded after failures"),
        usable.empty() && excluded == 0 ? "; in local mode there are none" : ""));
  }

  SparkCluster cluster;
  std::map<std::pair<std::string, int>, int> taken;  // host and first port: tasks so far
  std::map<std::string, std::string> owners;         // address to "worker:1"
  size_t next = 0;
  for (const SparkJob& job : jobs) {
    size_t count = usable.size() > fixed ? usable.size() - fixed : 0;
    if (job.num_tasks.has_value()) count = static_cast<size_t>(*job.num_tasks);
    count = std::min(count, usable.size() - next);
    ClusterSpec::TaskList addresses;
    for (size_t i = 0; i < count; ++i) {
      const SparkExecutor& executor = *usable[next++];
      const std::string task = absl::StrCat(job.name, ":", i);
      if (executor.host.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat(about, ": executor ", Ellipsize(EscapeControls(executor.id), 100),
                         ", which would be ", task, ", has no host yet"));
      }
      const int port = job.port + taken[{executor.host, job.port}]++;
      if (port > kMaxPort) {
        return absl::InvalidArgumentError(
            absl::StrCat(task, " on host ", executor.host, " would have port ", port,
                         ": there are none above 65535, give ", job.name, " a lower one"));
      }
      std::string address = FormatHostPort(executor.host, port);
      const auto [owner, is_new] = owners.emplace(address, task);
      if (!is_new) {
        return absl::InvalidArgumentError(
            absl::StrCat(owner->second, " and ", task, " would both be at ", address,
                         ": give their jobs ports that are further apart, or the same one"));
      }
      addresses.push_back(address);
      cluster.tasks.push_back({.job = job.name,
                               .index = static_cast<int>(i),
                               .address = std::move(address),
                               .executor = executor});
    }
    MILLRACE_RETURN_IF_ERROR(cluster.spec.AddJob(job.name, std::move(addresses)));
  }
  return cluster;
}

}  // namespace millrace
