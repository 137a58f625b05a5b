// File: dashboard/views/membership_panel.h
//
// Who the members are, and what each epoch changed: the ClusterSpec as a tree, as JSON, and as
// TF_CONFIG and the other variables of the selected node, to be copied.
//
// Defines: MembershipPanel.

#ifndef DASHBOARD_VIEWS_MEMBERSHIP_PANEL_H_
#define DASHBOARD_VIEWS_MEMBERSHIP_PANEL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dashboard/model/membership.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class MembershipPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;
  void TakeChoices(const PanelView& other) override;

 private:
  struct Task {
    int index = 0;
    std::string address;
    int executor_id = -1;
  };
  struct Job {
    std::string name;
    std::vector<Task> tasks;
  };

  void Refresh(const ViewContext& context);
  void Epochs(const ViewContext& context, Commands* commands);
  [[nodiscard]] std::string Csv(const DashboardModel& model) const;
  void Tree(const ViewContext& context, Commands* commands);
  void Json(const ViewContext& context, Commands* commands);
  void Environment(const ViewContext& context, Commands* commands);

  int form_ = 0;              // 0 tree, 1 JSON, 2 environment
  uint64_t shown_epoch_ = 0;  // whose changes are listed; 0: the newest
  uint64_t epoch_ = 0;
  int cluster_ = -1;
  std::vector<Job> jobs_;
  std::string json_;  // indented; empty until it is looked at
  BridgeMemo bridges_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_MEMBERSHIP_PANEL_H_
