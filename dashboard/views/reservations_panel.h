// File: dashboard/views/reservations_panel.h
//
// The bring-up: every slot on the state ladder, how long each step took, and which one is slowest.
//
// Defines: ReservationsPanel.
#ifndef DASHBOARD_VIEWS_RESERVATIONS_PANEL_H_
#define DASHBOARD_VIEWS_RESERVATIONS_PANEL_H_

#include <array>
#include <string>
#include <vector>

#include "dashboard/views/cell_grid.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class ReservationsPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  // Of one step of the ladder, over the slots that have taken it.
  struct Step {
    v1::SlotState state = v1::SLOT_STATE_UNSPECIFIED;
    int count = 0;
    absl::Duration p50;
    absl::Duration p99;
    int slowest = -1;  // executor id
    absl::Duration max;
  };
  void Refresh(const ViewContext& context);
  void Ladder(const ViewContext& context);
  [[nodiscard]] CellGrid::Layout GridLayout(const ViewContext& context) const;
  void Grid(const ViewContext& context, float height, Commands* commands);
  void Waterfall(const ViewContext& context, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  int state_filter_ = -1;  // a v1::SlotState; -1: all
  bool slowest_first_ = true;
  uint64_t version_ = 0;
  std::vector<Step> steps_;
  int last_ = -1;           // executor id of who is furthest behind
  int slowest_step_ = -1;   // into steps_
  absl::Duration longest_;  // bring-up of any slot
  absl::Time origin_;
  std::vector<int> order_;  // of the waterfall
  CellGrid grid_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_RESERVATIONS_PANEL_H_
