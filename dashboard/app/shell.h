// File: dashboard/app/shell.h
//
// The inside of the window: the dock layout with all panels, the status bar, keys, the command
// palette, questions before an operator's action, and short notices. ImGui only: it runs without a
// window too, which is how its tests drive it.
//
// Defines: Shell, ShellOptions, ShellHost.
//
//   Shell shell(options, &host);
//   window->Frame([&] { shell.Draw(sessions); });     // between NewFrame() and Render()
//
// Keys, while no text is typed:
//   1 to 9, 0    the panels, in the order of the tabs      Ctrl+P   palette: panels, nodes, actions
//   /            filter of the panel in front              Space    pause and go on
//   Esc          back to live, then nothing selected       T        next theme
//   Z            the panel in front alone, and back        F1       these keys
//   C            the panel in front of two clusters beside each other, and back
//   , .          earlier, later (of a recording: 5 s)      - =      more time, less time
//   Ctrl+= - 0   larger, smaller, as it was                Ctrl+Q   ends the window
//
// Thread safety: on the window's thread. Lifetime: as CellGrid (dashboard/views/cell_grid.h).

#ifndef DASHBOARD_APP_SHELL_H_
#define DASHBOARD_APP_SHELL_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dashboard/app/palette.h"
#include "dashboard/app/session.h"
#include "dashboard/app/settings.h"
#include "dashboard/views/panel.h"
#include "dashboard/views/status_bar.h"

namespace millrace::dashboard {

struct ShellOptions {
  std::optional<ThemeKind> theme;  // nullopt: the one that was chosen last
  Fonts fonts;
  float scale = 1;
  std::optional<Panel> panel;  // in front at first
  bool zoomed = false;         // `panel` alone
  std::string select;          // node that is selected as soon as it is known; empty: none
  // Session::number() of the one beside which the first other one is shown; 0: one alone.
  uint64_t beside = 0;
};

// What the shell needs of the world around it.
class ShellHost {
 public:
  virtual ~ShellHost() = default;
  virtual void Copy(const std::string& text) = 0;
  // Writes a file and returns its path.
  [[nodiscard]] virtual absl::StatusOr<std::string> Save(const std::string& name,
                                                         const std::string& csv) = 0;
  virtual void Quit() = 0;
};

class Shell {
 public:
  Shell(ShellOptions options, ShellHost* host);
  ~Shell();

  // One frame. Without a session it says how to get one; `frame` is what the last frames took to
  // build.
  void Draw(const std::vector<Session*>& sessions, absl::Duration frame);

  // Of `sessions`, the one that is shown.
  [[nodiscard]] int cluster() const { return cluster_; }
  void ShowCluster(int index);
  // Two clusters are shown beside each other, and this is one of them.
  [[nodiscard]] bool Compares(const Session& session) const;
  [[nodiscard]] bool comparing() const { return compared_ != nullptr; }
  // What may be why there is no session; empty: nothing.
  void SetTrouble(std::string trouble) { trouble_ = std::move(trouble); }
  // A short notice in the corner.
  void Notify(std::string text, Mood mood);

  // Of the frame before, for tests.
  [[nodiscard]] Panel front() const { return front_; }
  // The panel that has the window to itself.
  [[nodiscard]] std::optional<Panel> zoomed() const { return zoomed_; }
  [[nodiscard]] ThemeKind theme() const { return theme_.kind; }
  void Show(Panel panel);

 private:
  struct Compared;  // two clusters beside each other
  struct Notice {
    std::string text;
    Mood mood = Mood::kNeutral;
    double until = 0;
  };
  void BuildLayout(unsigned dockspace, float width, float height);
  // The panel that has the keyboard, be it a tab or not.
  [[nodiscard]] static std::optional<Panel> FocusedPanel();
  [[nodiscard]] static Mood TroubleMood(const LinkState& link);
  // Which clusters there are, for lists of them; nothing if there is but one.
  [[nodiscard]] static std::vector<ClusterEntry> Entries(const std::vector<Session*>& sessions);
  float DrawStatus(const ViewContext& context, Session* session, absl::Duration frame);
  void DrawPanel(const ViewContext& context, Panel panel);
  void DrawQuestions(Session* session);
  void DrawNotices();
  void DrawKeys();
  // Each of -1, 0, 1: earlier or later, less or more time.
  void MoveTime(Session* session, int move, int widen);
  void Keys(Session* session);  // nullptr: there is none
  void TimeKeys(Session* session);
  void ShowLive(Session* session);
  void ShowBothLive();
  void SelectNothing(Session* session);
  [[nodiscard]] bool BothLive() const;
  void CompareTimeKeys();
  void Compare(Session* first, Session* second);
  // Both are there, or one alone is shown from now on; nullptr: that.
  [[nodiscard]] Session* FollowCompared(const std::vector<Session*>& sessions);
  void ToggleCompare(const std::vector<Session*>& sessions);
  void LeaveCompare(const std::vector<Session*>& sessions);
  void DrawCompared(const std::vector<Session*>& sessions, const std::array<Session*, 2>& two);
  float DrawCompareBar(const std::array<Session*, 2>& two);
  void DrawHalves(const std::vector<Session*>& sessions, const std::array<Session*, 2>& two,
                  float top);
  void SetBrush(Session* session, int half, const TimeBrush& brush);
  void KeepSpan(absl::Duration span);
  // Lets `half` (0, 1; -1: the only one) be of another cluster.
  void ShowClusterIn(int half, int index);
  void ShareSelection(const std::array<Session*, 2>& two, bool first_counts);
  void RunPalette(const ViewContext& context, Session* session);
  // `half`: of two; -1: there is one.
  void Carry(Session* session, Commands* commands, int half);
  void DrawWelcome();
  void SetTheme(ThemeKind kind);
  void Choose(ThemeKind kind);  // and keep it
  void SetZoom(float zoom);
  [[nodiscard]] float Scale() const { return options_.scale * settings_.zoom; }

  ShellOptions options_;
  ShellHost* const host_;
  Settings settings_;
  Theme theme_;
  Theme stale_theme_;
  std::map<Panel, std::unique_ptr<PanelView>> panels_;
  // Of the second of two; once made they stay, as their textures do.
  std::map<Panel, std::unique_ptr<PanelView>> second_panels_;
  StatusBar status_bar_;
  Palette palette_;
  Commands commands_;
  std::vector<Notice> notices_;
  int cluster_ = 0;
  bool other_cluster_ = false;     // it was asked for, rather than that its place has changed
  std::vector<uint64_t> numbers_;  // Session::number() of the last frame's
  std::unique_ptr<Compared> compared_;
  bool toggle_compare_ = false;
  bool palette_compares_ = false;  // it is open to ask with which one
  uint64_t compare_with_ = 0;      // Session::number() of the second; 0: nothing was asked for
  std::string trouble_;
  Panel front_ = Panel::kReservations;
  std::optional<Panel> show_;  // next frame
  std::optional<Panel> zoomed_;
  bool focus_filter_ = false;
  bool show_keys_ = false;
  int ask_restart_ = -1;  // executor id
  bool ask_stop_ = false;
  bool layout_built_ = false;
  int frames_ = 0;
  int welcomes_ = 0;  // frames before there was a session
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_SHELL_H_
