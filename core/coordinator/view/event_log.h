// File: core/coordinator/view/event_log.h
//
// What happened to a cluster, as JSON Lines in a file that outlives it: docs/observability.md has
// the format.
//
// Defines: EventLog, EventToJson().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto log, EventLog::Open({.folder = log_dir, .cluster_id = id}));
//   log->Append(event);   // never blocks

#ifndef CORE_COORDINATOR_VIEW_EVENT_LOG_H_
#define CORE_COORDINATOR_VIEW_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/proto/watch.pb.h"

namespace millrace {

// One line, without its end.
[[nodiscard]] std::string EventToJson(const v1::Event& event, absl::string_view cluster_id);

// Writes <folder>/events.jsonl; from max_file_bytes on that becomes events.jsonl.1, and a new one
// begins. A disk that is slow or full loses events, never time: they are counted, the next line
// that can be written says so, and so does one warning on stderr.
//
// Thread: "coord-events". Thread safety: thread-safe. Blocking: Open() and Stop(), as the disk
// does.
class EventLog {
 public:
  struct Options {
    std::string folder;  // made if it is not there
    std::string cluster_id;
    int64_t max_file_bytes = int64_t{64} << 20;
    size_t max_waiting = 10'000;  // events
  };

  // Returns the error of the disk, naming the file.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EventLog>> Open(Options options);
  ~EventLog() { Stop(); }

  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void Append(std::shared_ptr<const v1::Event> event);
  // Writes what waits and ends the thread. Idempotent.
  void Stop();

  // Events that were not written.
  [[nodiscard]] uint64_t lost() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  EventLog(Options options, std::string path, UniqueFd file, int64_t size);

  void Run();
  void Write(const std::string& line);
  void Rotate();
  void Lost(uint64_t count, absl::string_view why);

  const Options options_;
  const std::string path_;
  // The thread's own.
  UniqueFd file_;
  int64_t size_ = 0;
  bool torn_ = false;  // the file ends within a line
  uint64_t told_lost_ = 0;
  bool warned_ = false;

  mutable Mutex mu_;
  CondVar arrived_;
  std::deque<std::shared_ptr<const v1::Event>> waiting_ ABSL_GUARDED_BY(mu_);
  uint64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Mutex join_mu_;
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_VIEW_EVENT_LOG_H_
