// File: dashboard/app/session.h
//
// One cluster of the window: where its updates come from, what is known of it, what is selected.
//
// Defines: Session.
//
//   Session session(std::move(source));
//   session.Poll(absl::Now());          // once a frame
//   Draw(session.model());
//
// Thread safety: on the window's thread. Blocking: disk I/O of a recording.

#ifndef DASHBOARD_APP_SESSION_H_
#define DASHBOARD_APP_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/selection.h"
#include "dashboard/source/follower.h"
#include "dashboard/source/recording.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

class Session {
 public:
  // `recording`: gets everything that the source gives; null: nothing is recorded.
  explicit Session(std::unique_ptr<UpdateSource> source,
                   std::unique_ptr<RecordingWriter> recording = nullptr);
  ~Session();

  // Applies what has come, for at most `budget` of real time, and lets the model's time pass.
  // Returns whether anything came.
  bool Poll(absl::Time now, absl::Duration budget = absl::Milliseconds(3)) {
    return follower_.Poll(now, budget);
  }
  // The last Poll() had no time for all that had come: the next one should not wait.
  [[nodiscard]] bool behind() const { return follower_.behind(); }
  // As DashboardModel::Settle(): for one picture, rather than the next of many.
  void Settle() { model_.Settle(); }

  // Another one for each session of this process.
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] const DashboardModel& model() const { return model_; }
  [[nodiscard]] UpdateSource& source() { return *source_; }
  [[nodiscard]] const UpdateSource& source() const { return *source_; }
  [[nodiscard]] bool recording() const { return recording_ != nullptr; }
  // Of the recording: OK, or why it ended early. Told once.
  [[nodiscard]] absl::Status TakeRecordingError();
  [[nodiscard]] bool operator_allowed() const;

  Selection selection;
  TimeBrush brush;

 private:
  void Record(const SourceUpdate& update);

  const uint64_t number_;
  std::unique_ptr<UpdateSource> source_;
  std::unique_ptr<RecordingWriter> recording_;
  absl::Status recording_error_;
  DashboardModel model_;
  Follower follower_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_SESSION_H_
