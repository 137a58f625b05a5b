// File: dashboard/views/logs_panel.h
//
// The lines of all nodes, merged: levels, search, the selected node alone, follow. A million lines
// cost what is seen of them.
//
// Defines: LogsPanel.
//
// Selecting an event leads to the lines of five seconds before it.

#ifndef DASHBOARD_VIEWS_LOGS_PANEL_H_
#define DASHBOARD_VIEWS_LOGS_PANEL_H_

#include <cstdint>
#include <string>

#include "dashboard/model/log_ring.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class LogsPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  void Toolbar(const ViewContext& context, Commands* commands);
  void Lines(const ViewContext& context, Commands* commands);
  void Row(const ViewContext& context, uint64_t number, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  LogFilter filter_;
  std::string text_;
  int level_ = 0;  // 0 all, 1 information and above, 2 warnings and above, 3 errors
  bool only_selected_ = false;
  bool follow_ = true;
  bool complete_ = true;      // the filter has seen every line
  int64_t shown_event_ = -1;  // the selected event that was scrolled to
  int shown_cluster_ = -1;
  TimeBrush shown_brush_;
  int64_t scroll_to_ = -1;  // number of a line; -1: stay
  // What was on top in the last frame: the number of the line, and the pixels of it that were cut.
  uint64_t top_line_ = 0;
  double top_offset_ = 0;
  uint64_t front_ = 0;  // number of the oldest line that matched then
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_LOGS_PANEL_H_
