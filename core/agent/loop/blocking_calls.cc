#include "core/agent/loop/blocking_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {

void BlockingCalls::Start(Body body, Done done) {
  if (threads_.size() >= kMaxCalls) {
    done(absl::ResourceExhaustedError(
        absl::StrCat(kMaxCalls, " calls that wait are under way; wait for one of them")));
    return;
  }
  const uint64_t id = next_id_++;
  absl::StatusOr<Thread> thread = Thread::Start(
      "parent-call", [this, id, body = std::move(body), done, mailbox = loop_->mailbox(),
                      alive = std::weak_ptr<bool>(alive_)] {
        absl::StatusOr<Json> outcome = body();
        mailbox->Post([this, id, done, alive, outcome = std::move(outcome)] {
          if (alive.expired()) return;
          threads_.erase(id);  // joins: its last act was this
          done(outcome);
        });
      });
  if (!thread.ok()) {
    done(thread.status());
    return;
  }
  threads_[id] = *std::move(thread);
}

}  // namespace millrace
