// File: dashboard/views/gpus_panel.h
//
// The GPU wall: one cell per GPU, a host's side by side, coloured by one metric; below it that
// metric's past, of the selected GPU or of the cluster.
//
// Defines: GpusPanel.
#ifndef DASHBOARD_VIEWS_GPUS_PANEL_H_
#define DASHBOARD_VIEWS_GPUS_PANEL_H_

#include <string>
#include <vector>

#include "dashboard/views/cell_grid.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class GpusPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  // A cell: a GPU, or the place of one on a host that does not tell.
  struct Place {
    int gpu = -1;
    int host = -1;
  };
  void Refresh(const ViewContext& context);
  void Toolbar(const ViewContext& context, Commands* commands);
  void Wall(const ViewContext& context, float height, Commands* commands);
  void Past(const ViewContext& context, Commands* commands);
  void GpuTip(const ViewContext& context, const Place& place);
  [[nodiscard]] float Ceiling(const DashboardModel& model) const;
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  int metric_ = 0;
  uint64_t version_ = 0;
  std::vector<Place> places_;  // a multiple of group_
  std::vector<int> group_hosts_;
  int group_ = 1;
  CellGrid grid_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_GPUS_PANEL_H_
