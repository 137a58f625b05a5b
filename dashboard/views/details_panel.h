// File: dashboard/views/details_panel.h
//
// All that is known of what is selected: a node, GPU, feed, event or host. Facts, the last five
// minutes as small lines, the last log lines, what an operator may do.
//
// Defines: DetailsPanel.
#ifndef DASHBOARD_VIEWS_DETAILS_PANEL_H_
#define DASHBOARD_VIEWS_DETAILS_PANEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dashboard/model/membership.h"
#include "dashboard/views/history_plot.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class DetailsPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;

 private:
  void Node(const ViewContext& context, const NodeState& node, Commands* commands);
  void NodeLines(const ViewContext& context, const NodeState& node);
  void NodeGpus(const ViewContext& context, const NodeState& node, Commands* commands);
  void NodeEnvironment(const ViewContext& context, const NodeState& node, Commands* commands);
  void NodeLogs(const ViewContext& context, const NodeState& node, Commands* commands);
  void Gpu(const ViewContext& context, int index, Commands* commands);
  void Feed(const ViewContext& context, const FeedState& feed, Commands* commands);
  void Event(const ViewContext& context, const TimelineEvent& event, Commands* commands);
  void Cluster(const ViewContext& context);
  void Host(const ViewContext& context, const HostState& host, Commands* commands);
  // A small line with its name and newest value.
  void Line(const ViewContext& context, const char* name, const std::string& value, float ceiling,
            ImU32 color, bool old);

  std::vector<HistoryPoint> points_;
  BridgeMemo bridges_;
  // The last lines of one node, found once per change of the ring.
  std::vector<uint64_t> tail_;
  int tail_cluster_ = -1;
  int tail_node_ = -1;
  uint64_t tail_end_ = 0;
};

// Everything about a node as plain text: what "copy diagnosis" puts on the clipboard.
[[nodiscard]] std::string NodeDiagnosis(const DashboardModel& model, const NodeState& node);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_DETAILS_PANEL_H_
