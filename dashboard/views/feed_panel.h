// File: dashboard/views/feed_panel.h
//
// The feed: what each partition ledger has done and will need, the cluster's throughput beside what
// its nodes wait for, and one lane per node and queue with the shares of its time.
//
// Defines: FeedPanel.
#ifndef DASHBOARD_VIEWS_FEED_PANEL_H_
#define DASHBOARD_VIEWS_FEED_PANEL_H_

#include <string>
#include <vector>

#include "dashboard/views/panel.h"
#include "dashboard/views/table.h"

namespace millrace::dashboard {

class FeedPanel : public PanelView {
 public:
  FeedPanel();
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  struct Lane {
    int node = -1;
    int queue = 0;  // into NodeState::queues
  };
  void Refresh(const ViewContext& context);
  void Ledgers(const ViewContext& context, Commands* commands);
  void Throughput(const ViewContext& context, float height, Commands* commands);
  void Lanes(const ViewContext& context, Commands* commands);
  void LaneRow(const ViewContext& context, const Lane& lane, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;

  std::string filter_;
  std::vector<Lane> lanes_;
  uint64_t version_ = 0;
  bool dirty_ = true;
  SortableTable table_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_FEED_PANEL_H_
