// File: core/coordinator/view/observer_queue.h
//
// Calls a CoordinatorObserver in order, from a thread of its own.
//
// Defines: ObserverQueue.

#ifndef CORE_COORDINATOR_VIEW_OBSERVER_QUEUE_H_
#define CORE_COORDINATOR_VIEW_OBSERVER_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/role_dealer.h"
#include "millrace/cluster_status.h"

namespace millrace {

// With a null observer everything is dropped and there is no thread.
// Thread safety: thread-safe. Blocking: Stop() waits for the call in progress; nothing else blocks,
// so the posts may be made with a lock held.
class ObserverQueue {
 public:
  // Calls of OnOutput and OnMetric that wait at most; beyond, they are dropped (lines are counted).
  static constexpr size_t kMaxDroppable = 10000;

  explicit ObserverQueue(CoordinatorObserver* observer) : observer_(observer) {}  // not owned
  ~ObserverQueue() { Stop(); }

  // Starts the thread. Once.
  void Start();
  // Calls with what waits, from this thread: what the queue's own does.
  void Deliver();

  void PostSlot(SlotStatus slot);
  void PostFailure(absl::Status status);
  void PostStopRequest(absl::Status status, bool now);
  void PostRelaunch(int executor_id);
  void PostRestart(NodeRestart restart);
  void PostOutput(int executor_id, const NodeRole& role, LogSource source,
                  std::vector<std::string> lines, uint64_t dropped);
  void PostBytes(int executor_id, const NodeRole& role, LogSource source, std::string bytes,
                 std::function<void()> taken);
  void PostMetric(int executor_id, const NodeRole& role, std::string name, int64_t step,
                  double value);

  // Delivers what waits, then ends the thread. Later posts are dropped. Idempotent.
  void Stop();

 private:
  struct Item {
    absl::AnyInvocable<void(CoordinatorObserver&)> call;
    bool droppable = false;
  };

  void Push(Item item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();

  CoordinatorObserver* const observer_;
  Mutex mu_;
  CondVar arrived_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mu_);
  size_t droppable_ ABSL_GUARDED_BY(mu_) = 0;                   // of items_
  std::map<int, uint64_t> dropped_lines_ ABSL_GUARDED_BY(mu_);  // by executor, not told yet
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Mutex join_mu_;  // one Stop() at a time
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_VIEW_OBSERVER_QUEUE_H_
