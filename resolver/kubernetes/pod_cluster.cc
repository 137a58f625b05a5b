#include "resolver/kubernetes/pod_cluster.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "resolver/natural_order.h"

namespace millrace {
namespace {

// So many pods are named in a message.
constexpr size_t kMaxNamed = 5;

// The pods of a job, each once: those that count in order, and the others.
struct Members {
  std::vector<const PodMemberPtr*> counted;
  std::vector<const PodMemberPtr*> gone;
};

Members Sort(const PodJob& job) {
  Members members;
  size_t size = 0;
  for (const PodJob::Selected& selected : job.selected) size += selected.pods.size();
  members.counted.reserve(size);
  absl::flat_hash_set<absl::string_view> seen;
  seen.reserve(size);
  for (const PodJob::Selected& selected : job.selected) {
    const auto begin = static_cast<std::ptrdiff_t>(members.counted.size());
    for (const PodMemberPtr& pod : selected.pods) {
      if (!seen.insert(pod->uid).second) continue;
      (pod->gone ? members.gone : members.counted).push_back(&pod);
    }
    const auto before = [](const PodMemberPtr* a, const PodMemberPtr* b) {
      return PodMemberBefore(**a, **b);
    };
    // Of a watch they are in order already.
    if (!std::is_sorted(members.counted.begin() + begin, members.counted.end(), before)) {
      std::sort(members.counted.begin() + begin, members.counted.end(), before);
    }
  }
  return members;
}

// All have ordinals of one source, and these ascend.
bool Numbered(const std::vector<const PodMemberPtr*>& counted) {
  const PodOrdinal* last = nullptr;
  for (const PodMemberPtr* pod : counted) {
    if (!(*pod)->ordinal.has_value()) return false;
    const PodOrdinal& ordinal = *(*pod)->ordinal;
    if (last != nullptr && (ordinal.source != last->source || ordinal.value <= last->value)) {
      return false;
    }
    last = &ordinal;
  }
  return last != nullptr;
}

// The name without the number at its end.
absl::string_view Stem(absl::string_view name) {
  while (!name.empty() && absl::ascii_isdigit(name.back())) name.remove_suffix(1);
  return name;
}

// The numbers of pods that are gone and nobody has taken yet, ascending.
std::vector<int> HeldNumbers(const Members& members) {
  const PodOrdinal::Source source = (*members.counted.front())->ordinal->source;
  absl::flat_hash_set<absl::string_view> stems;
  absl::flat_hash_set<int> taken;
  for (const PodMemberPtr* pod : members.counted) {
    stems.insert(Stem((*pod)->name));
    taken.insert((*pod)->ordinal->value);
  }
  std::vector<int> held;
  for (const PodMemberPtr* pod : members.gone) {
    const std::optional<PodOrdinal>& ordinal = (*pod)->ordinal;
    // Another stem is another set of pods: of a run before, say.
    if (ordinal.has_value() && ordinal->source == source && stems.contains(Stem((*pod)->name)) &&
        taken.insert(ordinal->value).second) {
      held.push_back(ordinal->value);
    }
  }
  std::sort(held.begin(), held.end());
  return held;
}

// The task index of each of members.counted; nullopt of those that have none because they are not
// there.
std::vector<std::optional<int>> Indices(const Members& members, MemberCompleteness completeness) {
  std::vector<std::optional<int>> indices;
  indices.reserve(members.counted.size());
  if (Numbered(members.counted)) {
    const bool own = completeness == MemberCompleteness::kAvailable ||
                     (*members.counted.front())->ordinal->source != PodOrdinal::Source::kName;
    const std::vector<int> held = own ? std::vector<int>() : HeldNumbers(members);
    size_t holes = 0;
    for (const PodMemberPtr* pod : members.counted) {
      const int number = (*pod)->ordinal->value;
      while (holes < held.size() && held[holes] < number) ++holes;
      indices.emplace_back(own ? number : static_cast<int>(indices.size() + holes));
    }
    return indices;
  }
  int next = 0;
  for (const PodMemberPtr* pod : members.counted) {
    const bool there = (*pod)->absence.empty();
    indices.push_back(there ? std::optional<int>(next++) : std::nullopt);
  }
  return indices;
}

// What a job lacks, "" if nothing.
std::string Missing(const PodJob& job, const Members& members) {
  std::vector<std::string> reasons;
  size_t absent = 0;
  for (const PodMemberPtr* pod : members.counted) {
    if ((*pod)->absence.empty() || ++absent > kMaxNamed) continue;
    reasons.push_back(absl::StrCat((*pod)->name, " ", (*pod)->absence));
  }
  if (absent > kMaxNamed) reasons.push_back(absl::StrCat("and ", absent - kMaxNamed, " more"));
  const size_t there = members.counted.size() - absent;
  const auto expected = static_cast<size_t>(job.expected_tasks.value_or(0));

  std::string text = absl::StrCat("job \"", EscapeControls(job.name), "\": ");
  if (members.counted.empty() && (!job.expected_tasks.has_value() || expected > 0)) {
    absl::StrAppend(
        &text, "no pod matches ",
        absl::StrJoin(job.selected, " or ", [](std::string* out, const PodJob::Selected& selected) {
          absl::StrAppend(out, "\"", EscapeControls(selected.selector), "\"");
        }));
    if (!members.gone.empty()) {
      absl::StrAppend(&text, " (not counting ", members.gone.size(),
                      " that ended or are being deleted)");
    }
    if (expected > 0) absl::StrAppend(&text, ", ", expected, " expected");
    return text;
  }
  if (job.expected_tasks.has_value() && expected < members.counted.size()) {
    absl::StrAppend(&text, members.counted.size(), " pods match, ", expected, " expected");
  } else if (job.expected_tasks.has_value() && expected > members.counted.size()) {
    absl::StrAppend(&text, there, " of ", expected, " pods are there");
  } else if (absent > 0) {
    absl::StrAppend(&text, there, " of ", members.counted.size(), " pods are there");
  } else {
    return "";
  }
  if (!reasons.empty()) absl::StrAppend(&text, ": ", absl::StrJoin(reasons, ", "));
  return text;
}

}  // namespace

bool PodMemberBefore(const PodMember& a, const PodMember& b) {
  if (a.ordinal.has_value() != b.ordinal.has_value()) return a.ordinal.has_value();
  if (a.ordinal.has_value()) {
    if (a.ordinal->source != b.ordinal->source) return a.ordinal->source < b.ordinal->source;
    if (a.ordinal->value != b.ordinal->value) return a.ordinal->value < b.ordinal->value;
  }
  if (const auto order = NaturalCompare(a.name, b.name); order != std::strong_ordering::equal) {
    return order < 0;
  }
  if (a.namespace_name != b.namespace_name) return a.namespace_name < b.namespace_name;
  return a.uid < b.uid;
}

absl::StatusOr<PodCluster> MakePodCluster(const std::vector<PodJob>& jobs,
                                          MemberCompleteness completeness,
                                          absl::string_view where) {
  PodCluster cluster;
  std::vector<std::string> missing;
  for (const PodJob& job : jobs) {
    const Members members = Sort(job);
    if (completeness != MemberCompleteness::kAvailable) {
      if (std::string text = Missing(job, members); !text.empty()) {
        missing.push_back(std::move(text));
      }
    }
    const std::vector<std::optional<int>> indices = Indices(members, completeness);
    ClusterSpec::TaskMap tasks;
    for (size_t i = 0; i < members.counted.size(); ++i) {
      const PodMemberPtr& pod = *members.counted[i];
      if (!pod->absence.empty()) continue;
      tasks.emplace_hint(tasks.end(), *indices[i], pod->address);
      cluster.tasks.push_back({.job = job.name, .index = *indices[i], .pod = pod});
    }
    MILLRACE_RETURN_IF_ERROR(cluster.spec.AddSparseJob(job.name, std::move(tasks)));
  }
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the pods ", where, " are not complete: ", absl::StrJoin(missing, "; "),
        ". Wait for them (completeness wait), or take those that are there (available)"));
  }
  return cluster;
}

}  // namespace millrace
