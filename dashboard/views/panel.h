// File: dashboard/views/panel.h
//
// What every panel is: a class that draws a model and says what the user asked for. It does no I/O
// and changes neither model nor selection; the app carries out its commands after the frame.
//
// Defines: ViewContext, SharedAxes, Command and its kinds, Commands, PanelView, Range().
//
//   class NodesPanel : public PanelView {
//    public:
//     void Draw(const ViewContext& context, Commands* commands) override;
//   };
//   panel->Draw(context, &commands);       // between Begin() and End() of its window, which are
//   the app's for (const Command& command : commands.all()) app.Carry(command);
//
// A panel keeps what is its own between frames (sort order, scroll place, filter text).
//
// Thread safety: all on the window's thread. Blocking: never.

#ifndef DASHBOARD_VIEWS_PANEL_H_
#define DASHBOARD_VIEWS_PANEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/selection.h"
#include "dashboard/views/theme.h"

namespace millrace::dashboard {

struct SelectCommand {
  Selection selection;
};
struct BrushCommand {
  TimeBrush brush;
};
struct CopyCommand {
  std::string text;
};
// A table or plot as a file: `name` without folder and ending, `csv` with a header line.
struct ExportCommand {
  std::string name;
  std::string csv;
};
// The app asks before it does it.
struct RestartNodeCommand {
  int executor_id = -1;
};
struct StopClusterCommand {};
// Shows another cluster of this window.
struct ShowClusterCommand {
  int index = 0;
};
using Command = std::variant<Jump, SelectCommand, BrushCommand, CopyCommand, ExportCommand,
                             RestartNodeCommand, StopClusterCommand, ShowClusterCommand>;

// What a frame's panels ask for, in order.
class Commands {
 public:
  // Shows a panel, selects, and moves the time brush.
  void Go(Jump jump) { commands_.push_back(std::move(jump)); }
  void Select(Selection selection) { commands_.push_back(SelectCommand{std::move(selection)}); }
  void SetBrush(const TimeBrush& brush) { commands_.push_back(BrushCommand{brush}); }
  void Copy(std::string text) { commands_.push_back(CopyCommand{std::move(text)}); }
  void Export(std::string name, std::string csv) {
    commands_.push_back(ExportCommand{std::move(name), std::move(csv)});
  }
  void RestartNode(int executor_id) { commands_.push_back(RestartNodeCommand{executor_id}); }
  void StopCluster() { commands_.push_back(StopClusterCommand{}); }
  void ShowCluster(int index) { commands_.push_back(ShowClusterCommand{index}); }

  [[nodiscard]] const std::vector<Command>& all() const { return commands_; }
  void Clear() { commands_.clear(); }

 private:
  std::vector<Command> commands_;
};

// A cluster of this window, for the list of them.
struct ClusterEntry {
  std::string title;
  Mood mood = Mood::kNeutral;
  std::string summary;  // "running · 8/8"
  uint64_t number = 0;  // stays, whatever its place in the list is
};

// What the span of time covers, on the coordinator's clock.
struct TimeRange {
  absl::Time from;
  absl::Time to;
};

// Of a cluster that is drawn beside another one: both have the same axes.
struct SharedAxes {
  TimeRange range;  // of the live view
  absl::Time zero;  // what both count their time from
  // The greatest value of each plot, by its id: of this cluster, which plots fill in, and what the
  // other one's were when it was drawn last. Both outlive the frame.
  std::map<std::string, double>* mine = nullptr;
  const std::map<std::string, double>* theirs = nullptr;
};

// All that a panel may look at. References are valid during Draw().
struct ViewContext {
  const DashboardModel& model;
  const Theme& theme;
  const Selection& selection;
  const TimeBrush& brush;
  float scale = 1;                // of HiDPI: multiply sizes in pixels
  bool operator_allowed = false;  // actions are shown at all
  std::vector<ClusterEntry> clusters;
  int cluster = 0;                     // of `clusters`, the one that `model` is of
  bool focus_filter = false;           // the user pressed "/": put the cursor into the filter field
  const SharedAxes* shared = nullptr;  // nullptr: it is alone
};

[[nodiscard]] inline TimeRange Range(const ViewContext& context) {
  const TimeBrush& brush = context.brush;
  if (!brush.live) return {brush.from, brush.to};
  if (context.shared != nullptr) return context.shared->range;
  const absl::Time now = context.model.now();
  // Of a young cluster all that there is, rather than the emptiness before it.
  const absl::Time begun = std::min(context.model.cluster().started, now) - absl::Seconds(2);
  const absl::Time from = std::max(now - brush.span, std::min(begun, now - absl::Seconds(30)));
  return {from, now};
}

class PanelView {
 public:
  PanelView() = default;
  PanelView(const PanelView&) = delete;
  PanelView& operator=(const PanelView&) = delete;
  virtual ~PanelView() = default;

  // Within the panel's window, which fills all that there is.
  virtual void Draw(const ViewContext& context, Commands* commands) = 0;
  // Draws from now on what `other`, a panel of the same class, was told to: its filter, its metric,
  // the order of its rows. What is folded out and scrolled to stays its own.
  virtual void TakeChoices(const PanelView& /*other*/) {}
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_PANEL_H_
