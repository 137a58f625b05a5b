#include "resolver/merging_resolver.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/resolver_base.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxNamedIndices = 10;  // in a message

std::string DescribePart(size_t part, size_t parts) {
  return absl::StrCat("resolver ", part + 1, " of ", parts);
}

// Jobs that some spec makes sparse.
std::set<std::string> SparseJobs(const std::vector<ClusterSpec>& specs, const MergeRules& rules) {
  std::set<std::string> sparse;
  for (const ClusterSpec& spec : specs) {
    for (const auto& [job, tasks] : spec.AsDict()) {
      const auto* map = std::get_if<ClusterSpec::TaskMap>(&tasks);
      if (map == nullptr) continue;
      if (!map->empty() || rules.empty_jobs_are_sparse) sparse.insert(job);
    }
  }
  return sparse;
}

absl::Status DuplicateIndices(const std::string& job, const std::vector<int>& indices) {
  const size_t named = std::min(indices.size(), kMaxNamedIndices);
  return absl::AlreadyExistsError(absl::StrCat(
      "two resolvers of the union have the same task index of job ", PythonRepr(job),
      ", which is sparse: ",
      absl::StrJoin(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      named < indices.size() ? ", ..." : "",
      "; give the tasks of each resolver other indices, or lists without gaps"));
}

// Adds a spec's tasks of a sparse job.
absl::Status AddSparse(const std::string& job, const ClusterSpec::TaskMap& tasks,
                       const MergeRules& rules, ClusterSpec::TaskMap* merged) {
  std::vector<int> duplicates;
  for (const auto& [index, address] : tasks) {
    if (merged->contains(index)) duplicates.push_back(index);
  }
  if (!duplicates.empty()) return rules.duplicates(job, duplicates);
  merged->insert(tasks.begin(), tasks.end());
  return absl::OkStatus();
}

}  // namespace

MergeRules OurMergeRules() {
  return {.empty_jobs_are_sparse = false, .duplicates = DuplicateIndices};
}

absl::StatusOr<ClusterSpec> Merge(const std::vector<ClusterSpec>& specs, const MergeRules& rules) {
  const std::set<std::string> sparse = SparseJobs(specs, rules);
  std::vector<std::pair<std::string, ClusterSpec::TaskMap>> merged;
  std::map<std::string, size_t> places;
  for (const ClusterSpec& spec : specs) {
    for (const std::string& job : spec.jobs()) {
      const auto [place, is_new] = places.try_emplace(job, merged.size());
      if (is_new) merged.emplace_back(job, ClusterSpec::TaskMap());
      ClusterSpec::TaskMap& into = merged[place->second].second;
      MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec::TaskMap* tasks, spec.TaskMapOf(job));
      if (sparse.contains(job)) {
        MILLRACE_RETURN_IF_ERROR(AddSparse(job, *tasks, rules, &into));
        continue;
      }
      for (const auto& [index, address] : *tasks) {
        into.emplace_hint(into.end(), static_cast<int>(into.size()), address);
      }
    }
  }
  ClusterSpec spec;
  for (auto& [job, tasks] : merged) {
    MILLRACE_RETURN_IF_ERROR(spec.AddSparseJob(job, std::move(tasks)));
  }
  return spec;
}

namespace {

// The watches of all parts. Their threads leave what they hear here; the one that finds nobody
// telling tells, so that the callback runs without the lock and never twice at once.
class UnionWatch final : public MembershipWatch {
 public:
  UnionWatch(size_t parts, const MergeRules& rules, MembershipCallback callback)
      : rules_(rules), tracker_(std::move(callback)), parts_(parts) {}

  ~UnionWatch() override { watches_.clear(); }

  absl::Status Start(const std::vector<std::unique_ptr<ClusterResolver>>& resolvers,
                     const WatchOptions& options) {
    for (size_t part = 0; part < resolvers.size(); ++part) {
      auto watch = resolvers[part]->Watch(
          [this, part](const MembershipUpdate& update) { Hear(part, update); }, options);
      if (!watch.ok()) {
        return Annotate(watch.status(), DescribePart(part, resolvers.size()));
      }
      watches_.push_back(*std::move(watch));
    }
    {
      MutexLock lock(&mu_);
      started_ = true;
    }
    TellAll();
    return absl::OkStatus();
  }

 private:
  struct Part {
    bool heard = false;
    int64_t epoch = 0;
    ClusterSpec spec;
    absl::Status status;
    absl::Time confirmed;
  };

  void Hear(size_t part, const MembershipUpdate& update) {
    {
      MutexLock lock(&mu_);
      parts_[part] = {.heard = true,
                      .epoch = update.epoch,
                      .spec = update.spec,
                      .status = update.status,
                      .confirmed = update.confirmed};
      news_ = true;
    }
    TellAll();
  }

  void TellAll() {
    while (true) {
      std::vector<Part> parts;
      {
        MutexLock lock(&mu_);
        if (!started_ || telling_ || !news_) return;
        telling_ = true;
        news_ = false;
        parts = parts_;
      }
      Tell(parts);
      MutexLock lock(&mu_);
      telling_ = false;
    }
  }

  void Tell(const std::vector<Part>& parts) {
    const absl::Time now = RealClock()->Now();
    absl::Status status;
    absl::Time confirmed = now;
    bool complete = true;
    std::vector<ClusterSpec> specs;
    for (size_t part = 0; part < parts.size(); ++part) {
      const Part& heard = parts[part];
      complete = complete && heard.epoch > 0;
      specs.push_back(heard.spec);
      if (heard.status.ok()) continue;
      // A part that is well has confirmed its members until now, though it tells changes only.
      confirmed = std::min(confirmed, heard.confirmed);
      if (status.ok()) status = Annotate(heard.status, DescribePart(part, parts.size()));
    }
    if (!complete) {
      if (!status.ok()) tracker_.Observe(status, now);
      return;
    }
    const absl::StatusOr<ClusterSpec> merged = Merge(specs, rules_);
    if (!merged.ok()) {
      tracker_.Observe(merged, now);
    } else {
      tracker_.ObservePartial(*merged, status, confirmed);
    }
  }

  const MergeRules rules_;
  MembershipTracker tracker_;  // used by who set telling_
  Mutex mu_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool telling_ ABSL_GUARDED_BY(mu_) = false;
  bool news_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Part> parts_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<MembershipWatch>> watches_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UnionResolver>> MakeMergingResolver(UnionResolverOptions options) {
  if (options.resolvers.empty()) {
    return absl::InvalidArgumentError("a union needs at least one resolver");
  }
  const auto null = std::find(options.resolvers.begin(), options.resolvers.end(), nullptr);
  if (null != options.resolvers.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        DescribePart(static_cast<size_t>(std::distance(options.resolvers.begin(), null)),
                     options.resolvers.size()),
        " of the union is null"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  return std::make_unique<MergingResolver>(std::move(options), OurMergeRules());
}

UnionResolver::UnionResolver(TaskProperties properties)
    : ResolverBase({.properties = std::move(properties), .count_accelerators = nullptr}) {}

UnionResolver::~UnionResolver() = default;

MergingResolver::MergingResolver(UnionResolverOptions options, const MergeRules& rules)
    : UnionResolver(std::move(options.properties)),
      resolvers_(std::move(options.resolvers)),
      rules_(rules) {}

absl::StatusOr<ClusterSpec> MergingResolver::cluster_spec() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ClusterSpec> specs, AskAll());
  return Merge(specs, rules_);
}

absl::StatusOr<std::vector<ClusterSpec>> MergingResolver::AskAll() {
  std::vector<ClusterSpec> specs;
  for (size_t part = 0; part < resolvers_.size(); ++part) {
    absl::StatusOr<ClusterSpec> spec = resolvers_[part]->cluster_spec();
    if (!spec.ok()) return Annotate(spec.status(), DescribePart(part, resolvers_.size()));
    specs.push_back(*std::move(spec));
  }
  return specs;
}

absl::StatusOr<std::string> MergingResolver::master(std::optional<std::string> task_type,
                                                    std::optional<int> task_id,
                                                    std::optional<std::string> rpc_layer) {
  const TaskProperties set = overrides();
  if (!task_type.has_value() && !task_id.has_value() && !set.task_type.has_value() &&
      !set.task_id.has_value()) {
    // The first resolver may know a master that is no task: session_master, say.
    if (!rpc_layer.has_value()) rpc_layer = set.rpc_layer;
    return resolvers_.front()->master(std::nullopt, std::nullopt, std::move(rpc_layer));
  }
  return ResolverBase::master(std::move(task_type), task_id, std::move(rpc_layer));
}

absl::StatusOr<std::map<std::string, int>> MergingResolver::num_accelerators(
    std::optional<std::string> task_type, std::optional<int> task_id) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> own_type, this->task_type());
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<int> own_id, this->task_id());
  if (!task_type.has_value()) task_type = own_type;
  if (!task_id.has_value()) task_id = own_id;
  if (task_type == own_type && task_id == own_id) return resolvers_.front()->num_accelerators();
  if (!task_type.has_value() || !task_id.has_value()) {
    return absl::InvalidArgumentError(
        "num_accelerators() of another task needs its task_type and its task_id");
  }
  // The resolver that this task comes from may know, under the index that the task has there.
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ClusterSpec> specs, AskAll());
  const bool sparse = SparseJobs(specs, rules_).contains(*task_type);
  int offset = 0;
  for (size_t part = 0; part < specs.size(); ++part) {
    const auto tasks = specs[part].TaskMapOf(*task_type);
    if (!tasks.ok()) continue;
    if ((*tasks)->contains(*task_id - offset)) {
      return resolvers_[part]->num_accelerators(task_type, *task_id - offset);
    }
    if (!sparse) offset += static_cast<int>((*tasks)->size());
  }
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec merged, Merge(specs, rules_));
  return merged.TaskAddress(*task_type, *task_id).status();
}

absl::StatusOr<std::optional<std::string>> MergingResolver::environment() {
  return resolvers_.front()->environment();
}

absl::StatusOr<std::optional<std::string>> MergingResolver::task_type() {
  std::optional<std::string> set = overrides().task_type;
  if (set.has_value()) return set;
  return resolvers_.front()->task_type();
}

absl::StatusOr<std::optional<int>> MergingResolver::task_id() {
  const std::optional<int> set = overrides().task_id;
  if (set.has_value()) return set;
  return resolvers_.front()->task_id();
}

absl::StatusOr<std::optional<std::string>> MergingResolver::rpc_layer() {
  std::optional<std::string> set = overrides().rpc_layer;
  if (set.has_value()) return set;
  return resolvers_.front()->rpc_layer();
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> MergingResolver::Watch(
    MembershipCallback callback, const WatchOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckWatch(callback, options));
  auto watch = std::make_unique<UnionWatch>(resolvers_.size(), rules_, std::move(callback));
  MILLRACE_RETURN_IF_ERROR(watch->Start(resolvers_, options));
  return watch;
}

}  // namespace millrace
