#include "dashboard/app/panels.h"

#include "dashboard/views/details_panel.h"
#include "dashboard/views/feed_panel.h"
#include "dashboard/views/gpus_panel.h"
#include "dashboard/views/logs_panel.h"
#include "dashboard/views/membership_panel.h"
#include "dashboard/views/metrics_panel.h"
#include "dashboard/views/nodes_panel.h"
#include "dashboard/views/reservations_panel.h"
#include "dashboard/views/timeline_panel.h"
#include "dashboard/views/verdict_panel.h"

namespace millrace::dashboard {

std::unique_ptr<PanelView> MakePanel(Panel panel) {
  switch (panel) {
    case Panel::kVerdict:
      return std::make_unique<VerdictPanel>();
    case Panel::kReservations:
      return std::make_unique<ReservationsPanel>();
    case Panel::kNodes:
      return std::make_unique<NodesPanel>();
    case Panel::kGpus:
      return std::make_unique<GpusPanel>();
    case Panel::kFeed:
      return std::make_unique<FeedPanel>();
    case Panel::kMetrics:
      return std::make_unique<MetricsPanel>();
    case Panel::kLogs:
      return std::make_unique<LogsPanel>();
    case Panel::kMembership:
      return std::make_unique<MembershipPanel>();
    case Panel::kTimeline:
      return std::make_unique<TimelinePanel>();
    case Panel::kDetails:
      return std::make_unique<DetailsPanel>();
  }
  return nullptr;
}

const char* PanelTitle(Panel panel) {
  switch (panel) {
    case Panel::kVerdict:
      return "Verdict";
    case Panel::kReservations:
      return "Reservations";
    case Panel::kNodes:
      return "Nodes";
    case Panel::kGpus:
      return "GPUs";
    case Panel::kFeed:
      return "Feed";
    case Panel::kMetrics:
      return "Metrics";
    case Panel::kLogs:
      return "Logs";
    case Panel::kMembership:
      return "Membership";
    case Panel::kTimeline:
      return "Timeline";
    case Panel::kDetails:
      return "Details";
  }
  return "";
}

char PanelKey(Panel panel) {
  switch (panel) {
    case Panel::kReservations:
      return '1';
    case Panel::kNodes:
      return '2';
    case Panel::kGpus:
      return '3';
    case Panel::kFeed:
      return '4';
    case Panel::kMetrics:
      return '5';
    case Panel::kLogs:
      return '6';
    case Panel::kMembership:
      return '7';
    case Panel::kTimeline:
      return '8';
    case Panel::kDetails:
      return '9';
    case Panel::kVerdict:
      return '0';
  }
  return '0';
}

}  // namespace millrace::dashboard
