// File: dashboard/source/update_source.h
//
// Where a model's updates come from: a live cluster, a recording, or a simulation.
//
// Defines: UpdateSource, Playback, OperatorActions, ActionResult.
//
//   std::vector<SourceUpdate> updates;
//   source->Poll(absl::Now(), 64, &updates);
//   for (const SourceUpdate& update : updates) model.Apply(update);
//   model.Advance(source->ModelTime(absl::Now()));

#ifndef DASHBOARD_SOURCE_UPDATE_SOURCE_H_
#define DASHBOARD_SOURCE_UPDATE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dashboard/model/source_update.h"

namespace millrace::dashboard {

// Of a source that can be scrubbed. Times are on the recorded viewer's clock, as
// SourceUpdate.arrived. Thread safety: that of its source. Blocking: never.
class Playback {
 public:
  virtual ~Playback() = default;
  [[nodiscard]] virtual absl::Time begin() const = 0;
  [[nodiscard]] virtual absl::Time end() const = 0;
  [[nodiscard]] virtual absl::Time position() const = 0;
  [[nodiscard]] virtual bool paused() const = 0;
  [[nodiscard]] virtual double speed() const = 0;
  // Within [begin, end]. The next Poll() begins with an update that has `restart` set.
  virtual void Seek(absl::Time position) = 0;
  virtual void SetPaused(bool paused) = 0;
  // 0.1 to 100.
  virtual void SetSpeed(double speed) = 0;
};

struct ActionResult {
  std::string what;     // "restart worker:1"
  absl::Status status;  // OK: the coordinator took it
};

// What an operator may do to a live cluster. Asked here, done on another thread.
// Thread safety: that of its source. Blocking: never.
class OperatorActions {
 public:
  virtual ~OperatorActions() = default;
  // False: there is no operator token; requests give PERMISSION_DENIED as their result.
  [[nodiscard]] virtual bool allowed() const = 0;
  // `name` is for the result's text.
  virtual void RestartNode(int executor_id, absl::string_view name) = 0;
  virtual void StopCluster(bool now) = 0;
  // Of the requests that are done since the last call, in order.
  [[nodiscard]] virtual std::vector<ActionResult> TakeResults() = 0;
};

// Thread safety: all methods on one thread (the window's). Blocking: never, unless said.
// Lifetime: the destructor ends its threads and waits for them.
class UpdateSource {
 public:
  virtual ~UpdateSource() = default;

  // What it is, for people: "a1b2c3 at 10.0.0.5:41233", "demo: slow-source", "run.mrec".
  [[nodiscard]] virtual std::string title() const = 0;
  // Appends what has come by `now` (the viewer's clock), in order, at most `max_updates`.
  virtual void Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) = 0;
  // What DashboardModel::Advance() should be told when the viewer's clock says `now`: `now` itself,
  // except while a recording is played.
  [[nodiscard]] virtual absl::Time ModelTime(absl::Time now) const { return now; }
  // nullptr: it cannot be scrubbed; it has no operator.
  [[nodiscard]] virtual Playback* playback() { return nullptr; }
  [[nodiscard]] virtual OperatorActions* actions() { return nullptr; }
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_UPDATE_SOURCE_H_
