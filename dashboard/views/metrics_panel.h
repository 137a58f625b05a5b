// File: dashboard/views/metrics_panel.h
//
// What programs report of themselves: one plot for each metric, one line for each node, smoothed
// and on a logarithmic scale where that helps.
//
// Defines: MetricsPanel.

#ifndef DASHBOARD_VIEWS_METRICS_PANEL_H_
#define DASHBOARD_VIEWS_METRICS_PANEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dashboard/model/metric_book.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class MetricsPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  struct Line {
    int executor_id = 0;
    std::string label;
    std::vector<double> x, y;  // smoothed, at most kMaxPoints
    std::vector<double> raw;   // as reported; empty without smoothing
    double last = 0;           // as reported
  };
  struct Plot {
    std::string name;
    std::vector<Line> lines;
    size_t left_out = 0;  // lines that are too many
    double x_min = 0, x_max = 1, y_min = 0, y_max = 1;
  };

  void Refresh(const ViewContext& context);
  void Toolbar(const ViewContext& context, Commands* commands);
  void DrawPlot(const ViewContext& context, const Plot& plot, ImVec2 size, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  std::vector<Plot> plots_;
  std::string filter_;
  std::string alone_;  // the metric that has all the room; empty: none
  float smoothing_ = 0.6F;
  int axis_ = 0;  // 0 steps, 1 time
  bool log_ = false;
  bool dirty_ = true;
  uint64_t version_ = 0;
  int cluster_ = -1;
  int selected_ = -1;
  absl::Time refreshed_ = absl::InfinitePast();
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_METRICS_PANEL_H_
