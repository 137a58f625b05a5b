// File: resolver/kubernetes/client/fake_kubernetes_client.h
//
// A KubernetesClient over pods in memory, with the versions, watches and faults of a real API
// server. Test only.
//
//   FakeKubernetesClient client;
//   client.Put({.name = "w-0", .namespace_name = "ml", .phase = "Running", .pod_ip = "10.0.0.1"});
//   client.EndWatches(absl::UnavailableError("cut"));

#ifndef RESOLVER_KUBERNETES_CLIENT_FAKE_KUBERNETES_CLIENT_H_
#define RESOLVER_KUBERNETES_CLIENT_FAKE_KUBERNETES_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "millrace/kubernetes_client.h"
#include "resolver/kubernetes/client/pod.h"

namespace millrace {

// Label selectors are lists of "key=value" with commas. Lists are in order of the UIDs.
// Thread safety: thread-safe.
class FakeKubernetesClient final : public KubernetesClient {
 public:
  // Adds a pod, or changes the one with its UID (if it has none, "uid-" and its name).
  void Put(Pod pod);
  // Removes the pod with this UID.
  void Delete(const std::string& uid);

  // Ends every watch that runs now.
  void EndWatches(const absl::Status& status);
  // Every list (watch) fails with this from now on, until OK is given. A watch that runs goes on.
  void FailLists(const absl::Status& status);
  void FailWatches(const absl::Status& status);
  // Watches from versions before the current one are OUT_OF_RANGE.
  void Compact();
  // While true, a new watch is neither accepted nor refused, as by a server that hangs.
  void HangWatches(bool hang);
  // Sends a bookmark of the current version to every watch.
  void SendBookmarks();

  // Counts since the beginning: calls, and watches that were accepted.
  [[nodiscard]] int lists() const;
  [[nodiscard]] int watches() const;
  [[nodiscard]] int accepted_watches() const;
  // Accepted and not ended.
  [[nodiscard]] int running_watches() const;
  // What the last list and watch were asked.
  [[nodiscard]] PodSelection last_selection() const;
  [[nodiscard]] std::string last_watched_version() const;
  // Blocks until `condition` holds; it is asked after each call and change. False after a minute.
  [[nodiscard]] bool WaitUntil(const std::function<bool()>& condition) const;

  absl::StatusOr<PodList> ListPods(const PodSelection& selection, absl::Duration timeout,
                                   std::stop_token stop) override;
  absl::Status WatchPods(const PodSelection& selection, const std::string& resource_version,
                         const std::function<absl::Status(PodEvent)>& on_event,
                         std::stop_token stop) override;
  std::string Describe() const override { return "a fake API server"; }

 private:
  struct Change {
    std::optional<Pod> before;
    std::optional<Pod> after;  // both nullopt: a bookmark
  };

  void Record(Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  mutable CondVar changed_;
  std::map<std::string, Pod> pods_ ABSL_GUARDED_BY(mu_);  // by uid
  std::vector<Change> history_ ABSL_GUARDED_BY(mu_);      // the change of version i + 1
  int64_t compacted_ ABSL_GUARDED_BY(mu_) = 0;            // versions below are forgotten
  int64_t ends_ ABSL_GUARDED_BY(mu_) = 0;                 // EndWatches() calls
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  absl::Status list_fault_ ABSL_GUARDED_BY(mu_);
  absl::Status watch_fault_ ABSL_GUARDED_BY(mu_);
  bool hang_ ABSL_GUARDED_BY(mu_) = false;
  int lists_ ABSL_GUARDED_BY(mu_) = 0;
  int watches_ ABSL_GUARDED_BY(mu_) = 0;
  int accepted_ ABSL_GUARDED_BY(mu_) = 0;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  PodSelection last_selection_ ABSL_GUARDED_BY(mu_);
  std::string last_version_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_FAKE_KUBERNETES_CLIENT_H_
