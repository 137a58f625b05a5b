#include "core/base/thread_scheduler.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {
namespace {

constexpr int kPriorityChanges = 4;  // at most
constexpr uint64_t kSpurious = 700;  // one step in so many wakes a wait without reason
constexpr uint64_t kEarly = 150;     // one step in so many lets a short wait pass

struct Task {
  uint64_t id = 0;
  std::string name;
  enum class State { kReady, kLocking, kWaiting, kJoining, kEnded } state = State::kReady;
  const void* on = nullptr;                // the lock, or the condition variable
  uint64_t joins = 0;                      // the thread that it waits for
  std::optional<absl::Duration> deadline;  // of a wait
  bool timed_out = false;                  // the last wait
  int64_t priority = 0;
  std::condition_variable turn;
};

class Scheduler {
 public:
  explicit Scheduler(const ScheduleOptions& options)
      : options_(options), random_(options.seed), by_priority_(options.seed % 2 == 0) {
    const int changes = static_cast<int>(Below(kPriorityChanges + 1));
    for (int i = 0; i < changes; ++i) {
      changes_.push_back(
          static_cast<int64_t>(Below(static_cast<uint64_t>(options.expected_steps))));
    }
    switch_share_ = uint64_t{1} << Below(6);
  }

  Task* Add(absl::string_view name) {
    auto task = std::make_unique<Task>();
    task->id = tasks_.size() + 1;
    task->name = std::string(name);
    task->priority = kPriorityChanges + static_cast<int64_t>(Below(1 << 20));
    tasks_.push_back(std::move(task));
    return tasks_.back().get();
  }

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  absl::Duration now() const { return now_; }
  absl::Duration idle() const { return idle_; }

  // A point at which another thread may go on.
  void Point(Task* self) {
    Tick(self);
    SwitchTo(self, Choose(self));
  }

  // `self` cannot go on until somebody makes it ready.
  void Block(Task* self, Task::State state, const void* on) {
    self->state = state;
    self->on = on;
    Tick(self);
    SwitchTo(self, Choose(nullptr));
  }

  void Ready(Task* task) {
    task->state = Task::State::kReady;
    task->on = nullptr;
    task->deadline.reset();
  }

  void ReadyAllOn(const void* on, Task::State state) {
    for (const auto& task : tasks_) {
      if (task->state == state && task->on == on) Ready(task.get());
    }
  }

  void ReadyOneOn(const void* on) {
    std::vector<Task*> waiting;
    for (const auto& task : tasks_) {
      if (task->state == Task::State::kWaiting && task->on == on) waiting.push_back(task.get());
    }
    if (!waiting.empty()) Ready(waiting[Below(waiting.size())]);
  }

  // Waits for the first turn.
  void Begin(Task* self) {
    std::unique_lock<std::mutex> lock(mu_);
    self->turn.wait(lock, [&] { return current_ == self; });
  }

  void End(Task* self) {
    self->state = Task::State::kEnded;
    for (const auto& task : tasks_) {
      if (task->state == Task::State::kJoining && task->joins == self->id) Ready(task.get());
    }
    Tick(self);
    Task* next = Choose(nullptr);
    const std::lock_guard<std::mutex> lock(mu_);
    current_ = next;
    next->turn.notify_one();
  }

  Task* task(uint64_t id) { return tasks_[id - 1].get(); }
  bool AllEnded(const Task* but) const {
    return std::all_of(tasks_.begin(), tasks_.end(), [but](const std::unique_ptr<Task>& task) {
      return task.get() == but || task->state == Task::State::kEnded;
    });
  }
  void SetCurrent(Task* task) { current_ = task; }

  ScheduleResult Result() const {
    return {.steps = steps_,
            .switches = switches_,
            .threads = static_cast<int>(tasks_.size()),
            .elapsed = now_,
            .idle = idle_,
            .hash = hash_};
  }

 private:
  void Tick(Task* self) {
    ++steps_;
    now_ += absl::Nanoseconds(500 + static_cast<int64_t>(Below(1000)));
    if (steps_ > options_.max_steps) Stuck("it takes too many steps");
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (changes_[i] == steps_) self->priority = static_cast<int64_t>(i);
    }
    if (Below(kSpurious) == 0) {
      std::vector<Task*> waiting;
      for (const auto& task : tasks_) {
        if (task->state == Task::State::kWaiting) waiting.push_back(task.get());
      }
      if (!waiting.empty()) Ready(waiting[Below(waiting.size())]);
    }
    if (Below(kEarly) == 0) {
      Task* first = FirstDeadline();
      if (first != nullptr && *first->deadline - now_ <= ThreadScheduler::kShortWait) {
        idle_ += std::max(absl::ZeroDuration(), *first->deadline - now_);
        Expire(first);
      }
    }
    for (Task* first = FirstDeadline(); first != nullptr && *first->deadline <= now_;
         first = FirstDeadline()) {
      Expire(first);
    }
  }

  Task* FirstDeadline() {
    Task* first = nullptr;
    for (const auto& task : tasks_) {
      if (!task->deadline.has_value()) continue;
      if (first == nullptr || *task->deadline < *first->deadline) first = task.get();
    }
    return first;
  }

  void Expire(Task* task) {
    now_ = std::max(now_, *task->deadline);
    Ready(task);
    task->timed_out = true;
  }

  // `self` is the thread that runs and may go on, or nullptr.
  Task* Choose(Task* self) {
    std::vector<Task*> ready;
    while (true) {
      for (const auto& task : tasks_) {
        if (task->state == Task::State::kReady) ready.push_back(task.get());
      }
      if (!ready.empty()) break;
      Task* first = FirstDeadline();
      if (first == nullptr) Stuck("every thread waits for another one");
      Expire(first);
    }
    Task* next = self;
    if (by_priority_) {
      next = *std::max_element(ready.begin(), ready.end(), [](const Task* a, const Task* b) {
        return a->priority < b->priority;
      });
    } else if (self == nullptr || Below(switch_share_) == 0) {
      next = ready[Below(ready.size())];
    }
    hash_ = (hash_ ^ next->id) * 0x100000001b3;
    return next;
  }

  void SwitchTo(Task* self, Task* next) {
    if (next == self) return;
    ++switches_;
    std::unique_lock<std::mutex> lock(mu_);
    current_ = next;
    next->turn.notify_one();
    self->turn.wait(lock, [&] { return current_ == self; });
  }

  [[noreturn]] void Stuck(const char* why) {
    std::fprintf(stderr, "the run of seed %llu is stuck after %lld steps, %s: %s\n",
                 static_cast<unsigned long long>(options_.seed), static_cast<long long>(steps_),
                 absl::FormatDuration(now_).c_str(), why);
    for (const auto& task : tasks_) {
      std::string what = "runs";
      if (task->state == Task::State::kReady) what = "could go on";
      if (task->state == Task::State::kLocking) what = "waits for a lock";
      if (task->state == Task::State::kWaiting) what = "waits to be woken";
      if (task->state == Task::State::kJoining) {
        what = absl::StrCat("joins ", this->task(task->joins)->name);
      }
      if (task->state == Task::State::kEnded) what = "has ended";
      if (task->deadline.has_value()) {
        absl::StrAppend(&what, " until ", absl::FormatDuration(*task->deadline));
      }
      std::fprintf(stderr, "  %s: %s\n", task->name.c_str(), what.c_str());
    }
    std::fflush(stdout);
    std::_Exit(ThreadScheduler::kStuckExitCode);
  }

  const ScheduleOptions options_;
  std::mt19937_64 random_;
  const bool by_priority_;
  uint64_t switch_share_ = 1;     // at random: one step in so many goes to another thread
  std::vector<int64_t> changes_;  // steps
  // Of the thread whose turn it is.
  std::vector<std::unique_ptr<Task>> tasks_;
  int64_t steps_ = 0;
  int64_t switches_ = 0;
  absl::Duration now_{};
  absl::Duration idle_{};
  uint64_t hash_ = 0xcbf29ce484222325;

  std::mutex mu_;
  Task* current_ = nullptr;  // guarded by mu_
};

Scheduler* running = nullptr;
thread_local Task* this_task = nullptr;

}  // namespace

ScheduleResult ThreadScheduler::Run(const ScheduleOptions& options,
                                    absl::FunctionRef<void()> body) {
  Scheduler scheduler(options);
  running = &scheduler;
  this_task = scheduler.Add("main");
  scheduler.SetCurrent(this_task);
  body();
  for (uint64_t id = 2; !scheduler.AllEnded(this_task); ++id) WaitEnded(id);
  const ScheduleResult result = scheduler.Result();
  this_task = nullptr;
  running = nullptr;
  return result;
}

bool ThreadScheduler::IsActive() { return this_task != nullptr; }

absl::Duration ThreadScheduler::Now() { return running->now(); }

absl::Duration ThreadScheduler::Idle() { return running->idle(); }

void ThreadScheduler::Sleep(absl::Duration time) {
  const absl::Duration until = Now() + time;
  while (Now() < until) {
    this_task->deadline = until;
    running->Block(this_task, Task::State::kWaiting, nullptr);
  }
}

uint64_t ThreadScheduler::Random(uint64_t limit) { return running->Below(limit); }

absl::AnyInvocable<void()> ThreadScheduler::Adopt(absl::string_view name,
                                                  absl::AnyInvocable<void()> body, uint64_t* id) {
  Task* task = running->Add(name);
  *id = task->id;
  return [task, body = std::move(body)]() mutable {
    this_task = task;
    running->Begin(task);
    std::exchange(body, nullptr)();  // what it holds goes within the run
    running->End(task);
  };
}

void ThreadScheduler::Started() { running->Point(this_task); }

void ThreadScheduler::WaitEnded(uint64_t id) {
  while (running->task(id)->state != Task::State::kEnded) {
    this_task->joins = id;
    running->Block(this_task, Task::State::kJoining, nullptr);
  }
}

void ScheduledMutex::Lock() {
  if (this_task == nullptr) return mu_.lock();
  running->Point(this_task);
  while (owner_ != 0) running->Block(this_task, Task::State::kLocking, this);
  owner_ = this_task->id;
}

void ScheduledMutex::Unlock() {
  if (this_task == nullptr) return mu_.unlock();
  owner_ = 0;
  running->ReadyAllOn(this, Task::State::kLocking);
  running->Point(this_task);
}

void ScheduledMutex::AssertHeld() const {
  if (this_task == nullptr || owner_ == this_task->id) return;
  std::fputs("Mutex::AssertHeld: the calling thread does not hold the lock\n", stderr);
  std::abort();
}

bool ScheduledCondVar::Wait(ScheduledMutex* mu, absl::Duration timeout) {
  mu->owner_ = 0;
  running->ReadyAllOn(mu, Task::State::kLocking);
  this_task->timed_out = false;
  if (timeout != absl::InfiniteDuration()) this_task->deadline = running->now() + timeout;
  running->Block(this_task, Task::State::kWaiting, this);
  const bool timed_out = std::exchange(this_task->timed_out, false);
  while (mu->owner_ != 0) running->Block(this_task, Task::State::kLocking, mu);
  mu->owner_ = this_task->id;
  return timed_out;
}

void ScheduledCondVar::Signal() {
  if (this_task == nullptr) return;
  running->ReadyOneOn(this);
  running->Point(this_task);
}

void ScheduledCondVar::SignalAll() {
  if (this_task == nullptr) return;
  running->ReadyAllOn(this, Task::State::kWaiting);
  running->Point(this_task);
}

}  // namespace millrace
