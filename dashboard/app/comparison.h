// File: dashboard/app/comparison.h
//
// Two clusters on one axis of time: how long each has existed, or how long all its nodes have run.
// What is played of recordings is played together, and one span of time is shown of both.
//
// Defines: Comparison, Counterpart().
//
//   comparison.Follow({ComparedCluster{&a.model(), playback_a}, {&b.model(), nullptr}});  // a
//   frame Draw(a.model(), comparison.BrushOf(0), comparison.RangeOf(0));
//   comparison.Seek(absl::Seconds(80));   // both recordings
//
// A place is a duration since a cluster's zero, and the same for both. Of a recording that has not
// begun at a place its first moment is shown, of one that has ended its last. Beside a recording, a
// live cluster is shown as it was at the recording's place; two live ones as they are and were at
// the age of the younger.
//
// Thread safety: on the window's thread. Blocking: never.

#ifndef DASHBOARD_APP_COMPARISON_H_
#define DASHBOARD_APP_COMPARISON_H_

#include <array>
#include <cstddef>

#include "absl/time/time.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/selection.h"
#include "dashboard/source/update_source.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

struct ComparedCluster {
  const DashboardModel* model = nullptr;
  Playback* playback = nullptr;  // nullptr: it is live
};

class Comparison {
 public:
  enum class Zero { kStarted, kRan };

  // `span`: of the live view.
  explicit Comparison(absl::Duration span) : brush_{.span = span} {}

  // Once a frame, always with the same two, before anything else is asked. Recordings are set to
  // the place of the first one as soon as it is known of both when they began. Returns whether that
  // was now.
  bool Follow(const std::array<ComparedCluster, 2>& clusters);
  // It is known of both when they began: the rest of this class means something.
  [[nodiscard]] bool aligned() const { return aligned_; }

  // ---- the place ----

  // Any of both is a recording: they can be played and scrubbed.
  [[nodiscard]] bool scrubbable() const;
  [[nodiscard]] absl::Duration place() const { return place_; }
  // Of all recordings.
  [[nodiscard]] absl::Duration begin() const;
  [[nodiscard]] absl::Duration end() const;
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] double speed() const { return speed_; }
  void Seek(absl::Duration place);
  void SetPaused(bool paused);
  void SetSpeed(double speed);

  // ---- the zero ----

  [[nodiscard]] Zero zero() const { return zero_; }
  // kRan: all nodes of both have run, as far as is known by now.
  [[nodiscard]] bool knows(Zero zero) const;
  void SetZero(Zero zero);
  // On the coordinator's clock.
  [[nodiscard]] absl::Time ZeroOf(size_t cluster) const;

  // ---- what is shown ----

  [[nodiscard]] const TimeBrush& brush() const { return brush_; }
  // As a panel of one of them asks: on its coordinator's clock.
  void SetBrush(size_t cluster, const TimeBrush& brush);
  void SetLive(bool live);
  void SetSpan(absl::Duration span);  // of the live view, which it returns to
  // As the keys: `move` and `widen` are -1, 0 or 1.
  void Move(int move, int widen);
  // For the panels of one of them.
  [[nodiscard]] TimeRange RangeOf(size_t cluster) const;
  [[nodiscard]] TimeBrush BrushOf(size_t cluster) const;
  // Of the span that is shown, what both have data of. Empty: there is none.
  struct Common {
    absl::Duration from, to;
    [[nodiscard]] bool empty() const { return to <= from; }
  };
  [[nodiscard]] Common common() const;
  // How far the data of one go; how far behind the place that is, if it has none of it: below zero
  // before its beginning. Zero: it has.
  [[nodiscard]] absl::Duration Newest(size_t cluster) const;
  [[nodiscard]] absl::Duration Missing(size_t cluster) const;

 private:
  struct Facts {
    absl::Time started = absl::InfinitePast();
    absl::Time ran = absl::InfinitePast();
    absl::Duration clock_offset;  // the viewer's less the coordinator's
    bool waits = false;           // a recording that begins later
  };
  void Learn(size_t cluster);
  [[nodiscard]] absl::Duration PlaceOf(size_t cluster, absl::Time viewer) const;
  [[nodiscard]] absl::Duration BeginOf(size_t cluster) const;
  [[nodiscard]] absl::Duration EndOf(size_t cluster) const;
  void Go(absl::Duration place);
  void TakePlace();
  [[nodiscard]] Common Shown() const;

  std::array<ComparedCluster, 2> clusters_;
  std::array<Facts, 2> known_;
  bool aligned_ = false;
  Zero zero_ = Zero::kStarted;
  absl::Duration place_;
  bool paused_ = false;
  double speed_ = 1;
  TimeBrush brush_;           // its times are not used
  absl::Duration from_, to_;  // of a brush that is not live
};

// What is selected in one cluster, as it is called in another: nodes by their names, GPUs and hosts
// by the node's, feeds by queue and order. What the other does not have is not selected there, and
// neither are events.
[[nodiscard]] Selection Counterpart(const Selection& selection, const DashboardModel& from,
                                    const DashboardModel& to);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_COMPARISON_H_
