#include "resolver/kubernetes/pod_cluster_watch.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/thread.h"

namespace millrace {

std::string PodPlace(const std::string& namespace_name) {
  return namespace_name.empty() ? std::string("in all namespaces")
                                : absl::StrCat("in namespace ", EscapeControls(namespace_name));
}

// What all the watches have told, and who tells it on.
class PodClusterWatch::Table {
 public:
  Table(PodClusterRules rules, Options options, Callback callback)
      : rules_(std::move(rules)), options_(options), callback_(std::move(callback)) {
    MutexLock lock(&mu_);
    for (size_t job = 0; job < rules_.jobs.size(); ++job) {
      for (const std::string& selector : rules_.jobs[job].selectors) {
        sources_.push_back(std::make_unique<Source>(this, job, selector));
      }
    }
  }

  [[nodiscard]] std::vector<std::unique_ptr<PodWatch>> StartWatches(KubernetesClient* client) {
    std::vector<std::unique_ptr<PodWatch>> watches;
    for (const auto& source : sources_) {
      watches.push_back(std::make_unique<PodWatch>(
          client,
          PodSelection{.namespace_name = rules_.namespace_name, .label_selector = source->selector},
          options_.pods, source.get()));
    }
    return watches;
  }

  // Tells until Stop().
  void Run() {
    while (true) {
      std::optional<absl::StatusOr<PodCluster>> news;
      {
        MutexLock lock(&mu_);
        if (!WaitForNews()) return;
        news = Answer();
      }
      if (news.has_value()) callback_(*news, options_.pods.clock->Now());
    }
  }

  void Stop() {
    MutexLock lock(&mu_);
    stopped_ = true;
    changed_.SignalAll();
  }

 private:
  // One selector of one job. Called by its PodWatch.
  struct Source final : PodWatchSink {
    Source(Table* table, size_t job, std::string selector)
        : table(table), job(job), selector(std::move(selector)) {}

    void OnList(std::vector<Pod> list) override {
      absl::flat_hash_map<std::string, PodMemberPtr> by_uid;
      by_uid.reserve(list.size());
      for (const Pod& pod : list) {
        PodMemberPtr member = Member(pod);
        by_uid.insert_or_assign(member->uid, std::move(member));
      }
      std::vector<PodMemberPtr> ordered;
      ordered.reserve(by_uid.size());
      for (const auto& [uid, member] : by_uid) ordered.push_back(member);
      std::sort(ordered.begin(), ordered.end(), Before);
      MutexLock lock(&table->mu_);
      pods.swap(by_uid);
      order.swap(ordered);
      listed = true;
      table->Changed();
    }

    void OnPod(Pod pod) override {
      PodMemberPtr member = Member(pod);
      MutexLock lock(&table->mu_);
      PodMemberPtr& known = pods[member->uid];
      // Most changes of a pod are of no interest here.
      if (known != nullptr && *known == *member) return;
      if (known != nullptr) order.erase(PlaceOf(known));
      order.insert(PlaceOf(member), member);
      known = std::move(member);
      table->Changed();
    }

    void OnDeleted(Pod pod) override {
      const PodMemberPtr member = Member(pod);
      MutexLock lock(&table->mu_);
      const auto known = pods.find(member->uid);
      if (known == pods.end()) return;
      order.erase(PlaceOf(known->second));
      pods.erase(known);
      table->Changed();
    }

    void OnState(const absl::Status& new_state) override {
      MutexLock lock(&table->mu_);
      resuming_since.reset();
      if (state == new_state) {
        if (told_lost) table->Changed();
        return;
      }
      state = new_state;
      table->Changed();
    }

    void OnResuming() override {
      MutexLock lock(&table->mu_);
      if (!resuming_since.has_value()) resuming_since = table->options_.pods.clock->SteadyNow();
      table->changed_.SignalAll();
    }

    [[nodiscard]] PodMemberPtr Member(const Pod& pod) const {
      return std::make_shared<const PodMember>(MakePodMember(pod, table->rules_.jobs[job].rules));
    }

    static bool Before(const PodMemberPtr& a, const PodMemberPtr& b) {
      return PodMemberBefore(*a, *b);
    }
    // Where in `order` it is, or belongs.
    std::vector<PodMemberPtr>::iterator PlaceOf(const PodMemberPtr& member) {
      return std::lower_bound(order.begin(), order.end(), member, Before);
    }

    Table* const table;
    const size_t job;
    const std::string selector;
    // Guarded by the table's mu_.
    absl::flat_hash_map<std::string, PodMemberPtr> pods;  // by uid
    std::vector<PodMemberPtr> order;                      // the same, by PodMemberBefore()
    bool listed = false;
    absl::Status state;
    std::optional<absl::Duration> resuming_since;  // steady
    bool told_lost = false;                        // because resuming takes long
  };

  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    news_ = true;
    changed_.SignalAll();
  }

  // False if the watch is stopped.
  bool WaitForNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (!stopped_) {
      const absl::Duration now = options_.pods.clock->SteadyNow();
      // Waits are timed by the wall clock, which may jump: look at the steady one once a second.
      absl::Duration wait = absl::Seconds(1);
      bool resuming = false;
      for (const auto& source : sources_) {
        if (!source->resuming_since.has_value() || source->told_lost) continue;
        resuming = true;
        const absl::Duration left = *source->resuming_since + options_.resume_grace - now;
        if (left <= absl::ZeroDuration()) news_ = true;
        wait = std::min(wait, left);
      }
      if (news_) {
        news_ = false;
        return true;
      }
      if (resuming) {
        changed_.WaitWithTimeout(&mu_, wait);
      } else {
        changed_.Wait(&mu_);
      }
    }
    return false;
  }

  // Nullopt while a selector has not been heard of.
  std::optional<absl::StatusOr<PodCluster>> Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const absl::Duration now = options_.pods.clock->SteadyNow();
    absl::Status lost;
    bool all_listed = true;
    for (const auto& source : sources_) {
      absl::Status state = source->state;
      source->told_lost = state.ok() && source->resuming_since.has_value() &&
                          now - *source->resuming_since >= options_.resume_grace;
      if (source->told_lost) {
        state = absl::UnavailableError(absl::StrCat(
            "the watch of the pods has ended and the API server has not answered the next for ",
            absl::FormatDuration(options_.resume_grace)));
      }
      if (!state.ok() && lost.ok()) {
        lost = Annotate(state, absl::StrCat("job \"", EscapeControls(rules_.jobs[source->job].job),
                                            "\" (", EscapeControls(source->selector), ")"));
      }
      all_listed = all_listed && source->listed;
    }
    if (!lost.ok()) return lost;
    if (!all_listed) return std::nullopt;

    std::vector<PodJob> jobs;
    for (const PodSource& job : rules_.jobs) {
      jobs.push_back({.name = job.job, .expected_tasks = job.expected_tasks});
    }
    for (const auto& source : sources_) {
      jobs[source->job].selected.push_back({.selector = source->selector, .pods = source->order});
    }
    return MakePodCluster(jobs, rules_.completeness, PodPlace(rules_.namespace_name));
  }

  const PodClusterRules rules_;
  const Options options_;
  const Callback callback_;
  std::vector<std::unique_ptr<Source>> sources_;  // constant once made

  Mutex mu_;
  CondVar changed_;
  bool news_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

PodClusterWatch::PodClusterWatch(std::shared_ptr<KubernetesClient> client, PodClusterRules rules,
                                 Options options, Callback callback)
    : client_(std::move(client)),
      table_(std::make_unique<Table>(std::move(rules), options, std::move(callback))),
      watches_(table_->StartWatches(client_.get())),
      teller_("k8s-tell", [table = table_.get()] { table->Run(); }) {}

PodClusterWatch::~PodClusterWatch() {
  table_->Stop();
  for (const auto& watch : watches_) watch->RequestStop();
  watches_.clear();
  teller_.Join();
}

}  // namespace millrace
