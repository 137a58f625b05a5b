// File: dashboard/views/timeline_panel.h
//
// What happened, on the time axis that all panels share: phases and epochs, events, throughput and
// GPUs above each other; beside it the events as a list, the first cause on top and what followed
// from it folded below.
//
// Defines: TimelinePanel.
//
// Dragging over the lanes sets the time brush, a double click goes back to live, Ctrl and the wheel
// zoom. A click on an event selects it and its node, a second one leads to the logs around it.

#ifndef DASHBOARD_VIEWS_TIMELINE_PANEL_H_
#define DASHBOARD_VIEWS_TIMELINE_PANEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dashboard/model/history.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class TimelinePanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  void Lanes(const ViewContext& context, ImVec2 size, Commands* commands);
  void PhaseLane(const ViewContext& context, ImVec2 min, ImVec2 max);
  // Returns the event at the mouse; nullptr if there is none.
  const TimelineEvent* EventLane(const ViewContext& context, ImVec2 min, ImVec2 max);
  void Strip(const ViewContext& context, ClusterMetric metric, ImVec2 min, ImVec2 max,
             float ceiling, ImU32 color);
  void Axis(const ViewContext& context, ImVec2 min, ImVec2 max);
  void Interact(const ViewContext& context, ImVec2 min, ImVec2 max, const TimelineEvent* hit,
                Commands* commands);
  void Refresh(const ViewContext& context);
  void List(const ViewContext& context, Commands* commands);
  void Row(const ViewContext& context, const TimelineEvent& event, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  std::vector<uint64_t> rows_;  // numbers of the events in the list, as they are shown
  uint64_t version_ = 0;
  int cluster_ = -1;
  bool dirty_ = true;
  bool unfolded_ = false;
  int severity_ = 0;  // 0 all, 1 warnings and errors, 2 errors
  std::string filter_;
  std::vector<HistoryPoint> points_;
  bool dragging_ = false;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_TIMELINE_PANEL_H_
