#include "core/coordinator/view/observer_queue.h"

#include <utility>

namespace millrace {

void ObserverQueue::Start() {
  if (observer_ != nullptr) thread_ = Thread("coord-observer", [this] { Run(); });
}

void ObserverQueue::Push(Item item) {
  if (stopping_) return;
  droppable_ += item.droppable ? 1 : 0;
  items_.push_back(std::move(item));
  arrived_.Signal();
}

void ObserverQueue::PostSlot(SlotStatus slot) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  Push({[slot = std::move(slot)](CoordinatorObserver& observer) { observer.OnSlot(slot); }, false});
}

void ObserverQueue::PostStopRequest(absl::Status status, bool now) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  Push({[status = std::move(status), now](CoordinatorObserver& observer) {
          observer.OnOperatorStop(status, now);
        },
        false});
}

void ObserverQueue::PostFailure(absl::Status status) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  Push({[status = std::move(status)](CoordinatorObserver& observer) { observer.OnFailure(status); },
        false});
}

void ObserverQueue::PostRelaunch(int executor_id) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  Push({[executor_id](CoordinatorObserver& observer) { observer.OnRelaunch(executor_id); }, false});
}

void ObserverQueue::PostRestart(NodeRestart restart) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  Push({[restart = std::move(restart)](CoordinatorObserver& observer) {
          observer.OnRestart(restart);
        },
        false});
}

void ObserverQueue::PostOutput(int executor_id, const NodeRole& role, LogSource source,
                               std::vector<std::string> lines, uint64_t dropped) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  if (droppable_ >= kMaxDroppable) {
    dropped_lines_[executor_id] += dropped + lines.size();
    return;
  }
  if (auto it = dropped_lines_.find(executor_id); it != dropped_lines_.end()) {
    dropped += it->second;
    dropped_lines_.erase(it);
  }
  Push({[executor_id, role, source, lines = std::move(lines),
         dropped](CoordinatorObserver& observer) {
          observer.OnOutput(executor_id, role, source, lines, dropped);
        },
        true});
}

void ObserverQueue::PostBytes(int executor_id, const NodeRole& role, LogSource source,
                              std::string bytes, std::function<void()> taken) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  Push({[executor_id, role, source, bytes = std::move(bytes),
         taken = std::move(taken)](CoordinatorObserver& observer) mutable {
          observer.OnBytes(executor_id, role, source, std::move(bytes), taken);
        },
        false});
}

void ObserverQueue::PostMetric(int executor_id, const NodeRole& role, std::string name,
                               int64_t step, double value) {
  if (observer_ == nullptr) return;
  MutexLock lock(&mu_);
  if (droppable_ >= kMaxDroppable) return;
  Push({[executor_id, role, name = std::move(name), step, value](CoordinatorObserver& observer) {
          observer.OnMetric(executor_id, role, name, step, value);
        },
        true});
}

void ObserverQueue::Deliver() {
  for (;;) {
    Item item;
    {
      MutexLock lock(&mu_);
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
      droppable_ -= item.droppable ? 1 : 0;
    }
    item.call(*observer_);
  }
}

void ObserverQueue::Run() {
  for (;;) {
    {
      MutexLock lock(&mu_);
      while (items_.empty()) {
        if (stopping_) return;
        arrived_.WaitWithTimeout(&mu_, absl::Seconds(60));
      }
    }
    Deliver();
  }
}

void ObserverQueue::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    arrived_.SignalAll();
  }
  MutexLock lock(&join_mu_);
  thread_.Join();
}

}  // namespace millrace
