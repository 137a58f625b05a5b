// File: feed/feeder/fake_node_directory.h
//
// A NodeDirectory that says what a test told it. Test only.
//
//   FakeNodeDirectory directory;
//   directory.Set({.node = "worker:0", .nonce = "a1", .tcp_endpoint = "tcp://127.0.0.1:4000",
//   ...}); directory.SetState("worker:0", FeedTarget::State::kRestarting);

#ifndef FEED_FEEDER_FAKE_NODE_DIRECTORY_H_
#define FEED_FEEDER_FAKE_NODE_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/feeder/node_directory.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: WaitForLookups() only.
class FakeNodeDirectory final : public NodeDirectory {
 public:
  // Adds a node or replaces it.
  void Set(FeedTarget target) {
    MutexLock lock(&mu_);
    targets_[target.node] = std::move(target);
  }

  void SetState(const std::string& node, FeedTarget::State state,
                absl::Status cause = absl::OkStatus()) {
    MutexLock lock(&mu_);
    targets_[node].state = state;
    causes_[node] = std::move(cause);
  }

  int lookups() const {
    MutexLock lock(&mu_);
    return lookups_;
  }

  // Blocks until Lookup() was called `count` times since the start; false if that takes 10 s.
  bool WaitForLookups(int count) {
    MutexLock lock(&mu_);
    const absl::Time deadline = absl::Now() + absl::Seconds(10);
    while (lookups_ < count) {
      if (looked_up_.WaitWithDeadline(&mu_, deadline)) return lookups_ >= count;
    }
    return true;
  }

  std::vector<std::string> fed_nodes() override {
    MutexLock lock(&mu_);
    std::vector<std::string> names;
    for (const auto& [name, target] : targets_) names.push_back(name);
    return names;
  }

  absl::StatusOr<FeedTarget> Lookup(const std::string& node) override {
    MutexLock lock(&mu_);
    ++lookups_;
    looked_up_.SignalAll();
    const auto it = targets_.find(node);
    if (it == targets_.end()) return absl::NotFoundError(absl::StrCat("no fed node ", node));
    return it->second;
  }

  void SetEqual() {
    MutexLock lock(&mu_);
    equal_ = true;
  }
  void SetEqualRows(const std::string& node, int64_t rows) {
    MutexLock lock(&mu_);
    equal_rows_[node] = rows;
  }
  std::map<std::string, int64_t> EqualRows(const std::string& /*feed_id*/) override {
    MutexLock lock(&mu_);
    return equal_rows_;
  }
  bool IsEqual(const std::string& /*queue*/) override {
    MutexLock lock(&mu_);
    return equal_;
  }
  absl::Status Cause(const std::string& node) override {
    MutexLock lock(&mu_);
    return causes_[node];
  }

 private:
  mutable Mutex mu_;
  CondVar looked_up_;
  std::map<std::string, FeedTarget> targets_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, absl::Status> causes_ ABSL_GUARDED_BY(mu_);
  int lookups_ ABSL_GUARDED_BY(mu_) = 0;
  bool equal_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, int64_t> equal_rows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // FEED_FEEDER_FAKE_NODE_DIRECTORY_H_
