// File: dashboard/views/nodes_panel.h
//
// All nodes as a table: sorted by any column, filtered by text and state, exported as CSV.
//
// Defines: NodesPanel.
#ifndef DASHBOARD_VIEWS_NODES_PANEL_H_
#define DASHBOARD_VIEWS_NODES_PANEL_H_

#include <string>
#include <vector>

#include "dashboard/views/panel.h"
#include "dashboard/views/table.h"

namespace millrace::dashboard {

class NodesPanel : public PanelView {
 public:
  NodesPanel();
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  void Toolbar(const ViewContext& context, Commands* commands);
  void Refresh(const ViewContext& context);
  void Row(const ViewContext& context, const NodeState& node, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  std::string filter_;
  int states_ = 0;          // 0: all, 1: not running, 2: failed or lost
  std::vector<int> order_;  // executor ids that are shown
  uint64_t order_version_ = 0;
  bool dirty_ = true;
  SortableTable table_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_NODES_PANEL_H_
