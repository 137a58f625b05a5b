// File: dashboard/views/verdict_panel.h
//
// The three sentences, each with its jump, what deserves attention, and below them the clusters of
// this window, the roles and the hosts.
//
// Defines: VerdictPanel.
#ifndef DASHBOARD_VIEWS_VERDICT_PANEL_H_
#define DASHBOARD_VIEWS_VERDICT_PANEL_H_

#include <array>
#include <string>
#include <vector>

#include "dashboard/views/panel.h"

namespace millrace::dashboard {

class VerdictPanel : public PanelView {
 public:
  void Draw(const ViewContext& context, Commands* commands) override;

 private:
  struct Role {
    std::string job;
    int total = 0;
    std::array<int, kSlotStates> by_state{};
  };
  void Sentence(const ViewContext& context, const char* question, const VerdictSentence& sentence,
                Commands* commands);
  void Warnings(const ViewContext& context, Commands* commands);
  void Clusters(const ViewContext& context, Commands* commands);
  void Roles(const ViewContext& context, Commands* commands);
  void Hosts(const ViewContext& context, Commands* commands);

  std::vector<Role> roles_;
  uint64_t roles_version_ = 0;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_VERDICT_PANEL_H_
