// File: dashboard/model/selection.h
//
// What is selected and which time is looked at, shared by all panels: plain data that the app owns,
// the panels read, and their commands change.
//
// Defines: Panel, PanelName(), PanelFromName(), kPanels, Selection, Jump, TimeBrush.
//
// Thread safety: values.

#ifndef DASHBOARD_MODEL_SELECTION_H_
#define DASHBOARD_MODEL_SELECTION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

enum class Panel {
  kVerdict,
  kReservations,
  kNodes,
  kGpus,
  kFeed,
  kMetrics,
  kLogs,
  kMembership,
  kTimeline,
  kDetails,
};

inline constexpr std::array<Panel, 10> kPanels = {
    Panel::kVerdict, Panel::kReservations, Panel::kNodes,      Panel::kGpus,     Panel::kFeed,
    Panel::kMetrics, Panel::kLogs,         Panel::kMembership, Panel::kTimeline, Panel::kDetails};

// "verdict", ..., "details": as --panel takes them.
[[nodiscard]] absl::string_view PanelName(Panel panel);
[[nodiscard]] std::optional<Panel> PanelFromName(absl::string_view name);

// At most one of each; -1 and empty mean none.
struct Selection {
  int node = -1;       // executor id
  int gpu = -1;        // index into DashboardModel::gpus()
  int host = -1;       // index into DashboardModel::hosts()
  int64_t event = -1;  // Event.number
  std::string feed;    // feed id
  std::string queue;   // of the node
  friend bool operator==(const Selection&, const Selection&) = default;
};

// Where a sentence, an event or a cell leads: the panel to show and what to select there.
struct Jump {
  Panel panel = Panel::kDetails;
  Selection selection;
  absl::Time at = absl::InfinitePast();  // a moment to look at; InfinitePast(): none
  friend bool operator==(const Jump&, const Jump&) = default;
};

// The span of time that all panels show, on the coordinator's clock.
struct TimeBrush {
  bool live = true;  // follows the newest data; `from` and `to` are then not read
  absl::Duration span = absl::Minutes(5);  // of the live view
  absl::Time from;
  absl::Time to;
  friend bool operator==(const TimeBrush&, const TimeBrush&) = default;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_SELECTION_H_
