// File: core/coordinator/view/watch_hub.h
//
// Feeds the calls of readers from the ViewStore: one thread that makes an update for a reader when
// its interval has passed, it has taken the last one, and there is something to tell.
//
// Defines: ViewStream, WatchHub.

#ifndef CORE_COORDINATOR_VIEW_WATCH_HUB_H_
#define CORE_COORDINATOR_VIEW_WATCH_HUB_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/coordinator/view/view_store.h"
#include "grpcpp/support/byte_buffer.h"

namespace millrace {

// The call of one reader. Both are called from the hub's thread and must not block; Write() not
// again before WatchHub::Written(), End() once and last.
class ViewStream {
 public:
  virtual ~ViewStream() = default;
  virtual void Write(grpc::ByteBuffer message) = 0;
  virtual void End(const absl::Status& status) = 0;
};

// What waits for a reader that does not read is the one update it has not taken. A reader hears
// something every kHeartbeat, so that TCP finds those whose host is gone.
// Thread: "coord-watch". Thread safety: thread-safe. Blocking: Stop().
class WatchHub {
 public:
  static constexpr size_t kMaxReaders = 256;
  static constexpr absl::Duration kHeartbeat = absl::Seconds(5);
  static constexpr absl::Duration kLeastInterval = absl::Milliseconds(20);

  WatchHub(ViewStore* view, Clock* clock);  // neither is owned
  ~WatchHub() { Stop(); }

  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  // A number for one reader, which it knows before it hears anything.
  uint64_t NewId();
  // The stream hears of everything after the cursor. Returns RESOURCE_EXHAUSTED if there are
  // kMaxReaders, CANCELLED after Stop().
  absl::Status AddWatch(uint64_t id, std::shared_ptr<ViewStream> stream, const ViewCursor& cursor,
                        absl::Duration interval);
  absl::Status AddLogs(uint64_t id, std::shared_ptr<ViewStream> stream, LogCursor cursor);
  // The last message has been taken.
  void Written(uint64_t id);
  // The call is over. Idempotent. A Write() or End() may still be under way.
  void Remove(uint64_t id);

  // Every reader that reads gets the last update; all calls end with OK. Idempotent. Blocks for at
  // most half a second.
  void Stop();

 private:
  struct Reader {
    std::shared_ptr<ViewStream> stream;
    std::variant<ViewCursor, LogCursor> cursor;
    absl::Duration interval;
    absl::Duration due;        // steady: not before
    absl::Duration heartbeat;  // steady: at the latest
    bool writing = false;
  };

  absl::Status Add(uint64_t id, Reader reader);
  void Run();
  // All readers; whether one of them has not taken its last message.
  std::vector<uint64_t> Ids(bool* stopping, bool* writing);
  // One step for one reader. Adds what it waits for.
  void Serve(uint64_t id, absl::Duration now, bool last, uint32_t* news, absl::Duration* until);

  ViewStore* const view_;
  Clock* const clock_;
  Mutex mu_;
  std::map<uint64_t, std::shared_ptr<Reader>> readers_ ABSL_GUARDED_BY(mu_);
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Mutex join_mu_;
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_VIEW_WATCH_HUB_H_
