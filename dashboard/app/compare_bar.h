// File: dashboard/app/compare_bar.h
//
// What stands above two clusters that are compared: which panel is shown of both, one control of
// time for both, and how their numbers differ; and a line above each that says which it is.
//
// Defines: CompareBar, CompareActions, CompareHead, DrawCompareHead().
//
// Thread safety: between NewFrame() and Render(), on the window's thread.

#ifndef DASHBOARD_APP_COMPARE_BAR_H_
#define DASHBOARD_APP_COMPARE_BAR_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "dashboard/app/comparison.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/selection.h"
#include "dashboard/views/theme.h"

namespace millrace::dashboard {

// What was asked for that Comparison cannot do.
struct CompareActions {
  std::optional<Panel> panel;
  bool palette = false;
  bool leave = false;
};

class CompareBar {
 public:
  // In screen pixels.
  [[nodiscard]] static float Height(const Comparison& comparison);
  // Within a window of its own, as high as that without its padding; changes the comparison's time.
  CompareActions Draw(const Theme& theme, float scale, Panel panel,
                      const std::array<const DashboardModel*, 2>& models, Comparison* comparison);

 private:
  float right_width_ = 0;  // of the controls at the right
};

// Of one of both: its line, and another one if something is wrong with its connection.
struct CompareHead {
  size_t place = 0;  // 0: A, 1: B
  std::string title;
  std::string trouble;  // empty: none
  Mood mood = Mood::kNeutral;
};
[[nodiscard]] float CompareHeadHeight(const CompareHead& head, float width);
void DrawCompareHead(const Theme& theme, float scale, const CompareHead& head,
                     const DashboardModel& model, const Comparison& comparison);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_COMPARE_BAR_H_
