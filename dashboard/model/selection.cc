#include "dashboard/model/selection.h"

namespace millrace::dashboard {

absl::string_view PanelName(Panel panel) {
  switch (panel) {
    case Panel::kVerdict:
      return "verdict";
    case Panel::kReservations:
      return "reservations";
    case Panel::kNodes:
      return "nodes";
    case Panel::kGpus:
      return "gpus";
    case Panel::kFeed:
      return "feed";
    case Panel::kMetrics:
      return "metrics";
    case Panel::kLogs:
      return "logs";
    case Panel::kMembership:
      return "membership";
    case Panel::kTimeline:
      return "timeline";
    case Panel::kDetails:
      return "details";
  }
  return "unknown";
}

std::optional<Panel> PanelFromName(absl::string_view name) {
  for (const Panel panel : kPanels) {
    if (PanelName(panel) == name) return panel;
  }
  return std::nullopt;
}

}  // namespace millrace::dashboard
