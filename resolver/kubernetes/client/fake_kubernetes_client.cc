#include "resolver/kubernetes/client/fake_kubernetes_client.h"

#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

bool Matches(const PodSelection& selection, const std::optional<Pod>& pod) {
  if (!pod.has_value()) return false;
  if (!selection.namespace_name.empty() && selection.namespace_name != pod->namespace_name) {
    return false;
  }
  for (const absl::string_view term :
       absl::StrSplit(selection.label_selector, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> label = absl::StrSplit(term, absl::MaxSplits('=', 1));
    const auto it = pod->labels.find(label.first);
    if (it == pod->labels.end() || it->second != label.second) return false;
  }
  return true;
}

}  // namespace

void FakeKubernetesClient::Record(Change change) {
  history_.push_back(std::move(change));
  changed_.SignalAll();
}

void FakeKubernetesClient::Put(Pod pod) {
  MutexLock lock(&mu_);
  if (pod.uid.empty()) pod.uid = absl::StrCat("uid-", pod.name);
  pod.resource_version = absl::StrCat(history_.size() + 1);
  Change change{.after = pod};
  if (const auto it = pods_.find(pod.uid); it != pods_.end()) change.before = it->second;
  pods_[pod.uid] = std::move(pod);
  Record(std::move(change));
}

void FakeKubernetesClient::Delete(const std::string& uid) {
  MutexLock lock(&mu_);
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  Change change{.before = std::move(it->second)};
  pods_.erase(it);
  Record(std::move(change));
}

void FakeKubernetesClient::EndWatches(const absl::Status& status) {
  MutexLock lock(&mu_);
  ++ends_;
  end_status_ = status;
  changed_.SignalAll();
}

void FakeKubernetesClient::FailLists(const absl::Status& status) {
  MutexLock lock(&mu_);
  list_fault_ = status;
}

void FakeKubernetesClient::FailWatches(const absl::Status& status) {
  MutexLock lock(&mu_);
  watch_fault_ = status;
}

void FakeKubernetesClient::Compact() {
  MutexLock lock(&mu_);
  compacted_ = static_cast<int64_t>(history_.size());
}

void FakeKubernetesClient::HangWatches(bool hang) {
  MutexLock lock(&mu_);
  hang_ = hang;
  changed_.SignalAll();
}

void FakeKubernetesClient::SendBookmarks() {
  MutexLock lock(&mu_);
  Record({});
}

int FakeKubernetesClient::lists() const {
  MutexLock lock(&mu_);
  return lists_;
}

int FakeKubernetesClient::watches() const {
  MutexLock lock(&mu_);
  return watches_;
}

int FakeKubernetesClient::accepted_watches() const {
  MutexLock lock(&mu_);
  return accepted_;
}

int FakeKubernetesClient::running_watches() const {
  MutexLock lock(&mu_);
  return running_;
}

PodSelection FakeKubernetesClient::last_selection() const {
  MutexLock lock(&mu_);
  return last_selection_;
}

std::string FakeKubernetesClient::last_watched_version() const {
  MutexLock lock(&mu_);
  return last_version_;
}

bool FakeKubernetesClient::WaitUntil(const std::function<bool()>& condition) const {
  for (const absl::Time deadline = absl::Now() + absl::Minutes(1); absl::Now() < deadline;) {
    if (condition()) return true;
    MutexLock lock(&mu_);
    changed_.WaitWithTimeout(&mu_, absl::Milliseconds(20));
  }
  return false;
}

absl::StatusOr<PodList> FakeKubernetesClient::ListPods(const PodSelection& selection,
                                                       absl::Duration, std::stop_token) {
  MutexLock lock(&mu_);
  ++lists_;
  last_selection_ = selection;
  changed_.SignalAll();
  if (!list_fault_.ok()) return list_fault_;
  PodList list{.resource_version = absl::StrCat(history_.size())};
  for (const auto& [uid, pod] : pods_) {
    if (Matches(selection, pod)) list.pods.push_back(pod);
  }
  return list;
}

absl::Status FakeKubernetesClient::WatchPods(const PodSelection& selection,
                                             const std::string& resource_version,
                                             const std::function<absl::Status(PodEvent)>& on_event,
                                             std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(&mu_);
    changed_.SignalAll();
  });
  size_t next = 0;
  int64_t ends = 0;
  {
    MutexLock lock(&mu_);
    ++watches_;
    last_selection_ = selection;
    last_version_ = resource_version;
    changed_.SignalAll();
    while (hang_ && !stop.stop_requested()) changed_.Wait(&mu_);
    if (!watch_fault_.ok()) return watch_fault_;
    if (!absl::SimpleAtoi(resource_version, &next)) {
      return absl::InvalidArgumentError("bad resource version");
    }
    if (static_cast<int64_t>(next) < compacted_) {
      return absl::OutOfRangeError(absl::StrCat("too old resource version: ", next));
    }
    ends = ends_;
    ++accepted_;
    ++running_;
    changed_.SignalAll();
  }
  absl::Status status =
      on_event({.type = PodEvent::Type::kBookmark, .resource_version = resource_version});
  while (status.ok()) {
    std::optional<Change> change;
    {
      MutexLock lock(&mu_);
      while (!stop.stop_requested() && ends == ends_ && next >= history_.size()) {
        changed_.Wait(&mu_);
      }
      if (stop.stop_requested() || ends != ends_) {
        status = stop.stop_requested() ? absl::CancelledError("stopped") : end_status_;
        break;
      }
      change = history_[next++];
    }
    PodEvent event{.resource_version = absl::StrCat(next)};
    const bool before = Matches(selection, change->before);
    const bool after = Matches(selection, change->after);
    if (after) {
      event.type = before ? PodEvent::Type::kModified : PodEvent::Type::kAdded;
      event.pod = *std::move(change->after);
    } else if (before) {
      event.type = PodEvent::Type::kDeleted;
      event.pod = *std::move(change->before);
    } else if (!change->before.has_value() && !change->after.has_value()) {
      event.type = PodEvent::Type::kBookmark;
    } else {
      continue;
    }
    status = on_event(std::move(event));
  }
  MutexLock lock(&mu_);
  --running_;
  changed_.SignalAll();
  return status;
}

}  // namespace millrace
