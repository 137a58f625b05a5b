// File: dashboard/source/follower.h
//
// Lets a model follow a source, in slices of time between which something can be drawn.
//
// Defines: Follower.
//
//   Follower follower(source.get(), &model);
//   follower.Poll(absl::Now());   // once a frame
//   Draw(model);
//
// Thread safety: that of the source and the model. Blocking: as the source, and `seen`.

#ifndef DASHBOARD_SOURCE_FOLLOWER_H_
#define DASHBOARD_SOURCE_FOLLOWER_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

class Follower {
 public:
  // Both outlive it. `seen` is called with each update before it is applied; null: nobody looks.
  Follower(UpdateSource* source, DashboardModel* model,
           std::function<void(const SourceUpdate&)> seen = nullptr)
      : source_(source), model_(model), seen_(std::move(seen)) {}

  // Applies what has come, for at most `budget` of real time, and lets the model's time pass.
  // Returns whether anything came.
  bool Poll(absl::Time now, absl::Duration budget = absl::Milliseconds(3));
  // The last Poll() had no time for all that had come: the next one should not wait.
  [[nodiscard]] bool behind() const { return behind_; }

 private:
  UpdateSource* const source_;
  DashboardModel* const model_;
  const std::function<void(const SourceUpdate&)> seen_;
  absl::Time advanced_ = absl::InfinitePast();  // what the model was last told
  std::vector<SourceUpdate> updates_;
  bool behind_ = false;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_FOLLOWER_H_
