// File: resolver/scripted_resolver.h
//
// A resolver that answers what a test tells it to. Test only.
//
// Defines: ScriptedResolver, TwoWorkers().

#ifndef RESOLVER_SCRIPTED_RESOLVER_H_
#define RESOLVER_SCRIPTED_RESOLVER_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "millrace/cluster_spec.h"
#include "millrace/resolver_base.h"

namespace millrace {

// worker:0 at a:1 and worker:1 at b:1.
inline ClusterSpec TwoWorkers() {
  return *ClusterSpec::Create({{"worker", ClusterSpec::TaskList{"a:1", "b:1"}}});
}

// Watched by polling. Thread safety: thread-safe.
class ScriptedResolver : public ResolverBase {
 public:
  explicit ScriptedResolver(absl::StatusOr<ClusterSpec> answer, TaskProperties properties = {})
      : ResolverBase({.properties = std::move(properties),
                      .count_accelerators =
                          [] {
                            return std::map<std::string, int>{{"GPU", 2}};
                          }}),
        answer_(std::move(answer)) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override {
    MutexLock lock(&mu_);
    ++asked_;
    return answer_;
  }

  void Answer(absl::StatusOr<ClusterSpec> answer) {
    MutexLock lock(&mu_);
    answer_ = std::move(answer);
  }

  // How often cluster_spec() was called.
  int asked() const {
    MutexLock lock(&mu_);
    return asked_;
  }

 private:
  mutable Mutex mu_;
  absl::StatusOr<ClusterSpec> answer_ ABSL_GUARDED_BY(mu_);
  int asked_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // RESOLVER_SCRIPTED_RESOLVER_H_
