// File: dashboard/views/status_bar.h
//
// One line at the top: which cluster, how it is, how fresh what one sees is, and the time brush
// with the controls of a recording.
//
// Defines: StatusBar, StatusFacts.
#ifndef DASHBOARD_VIEWS_STATUS_BAR_H_
#define DASHBOARD_VIEWS_STATUS_BAR_H_

#include <string>

#include "dashboard/views/panel.h"

namespace millrace::dashboard {

// What the bar says of things that no model knows.
struct StatusFacts {
  std::string title;       // of the source
  absl::Duration frame;    // that the last frames took to build
  bool recording = false;  // --record
  bool replay = false;     // the fields below are meant
  bool paused = false;
  double speed = 1;
  absl::Time begin, end, position;
};

// What was asked of a recording; the app does it.
struct StatusActions {
  bool toggle_pause = false;
  bool seek = false;
  absl::Time position;
  double speed = 0;  // 0: as it is
  bool palette = false;
};

class StatusBar {
 public:
  // Within a window of its own, one line high (two with a recording).
  StatusActions Draw(const ViewContext& context, const StatusFacts& facts, Commands* commands);

 private:
  float right_width_ = 0;  // of the controls at the right
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_STATUS_BAR_H_
