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
//   , .          earlier, later (of a recording: 5 s)      - =      more time, less time
//   Ctrl+= - 0   larger, smaller, as it was                Ctrl+Q   ends the window
//
// Thread safety: on the window's thread. Lifetime: as CellGrid (dashboard/views/cell_grid.h).

#ifndef DASHBOARD_APP_SHELL_H_
#define DASHBOARD_APP_SHELL_H_

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
  void ShowCluster(int index) { cluster_ = index; }
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
  struct Notice {
    std::string text;
    Mood mood = Mood::kNeutral;
    double until = 0;
  };
  void BuildLayout(unsigned dockspace, float width, float height);
  float DrawStatus(const ViewContext& context, Session* session, absl::Duration frame);
  void DrawPanel(const ViewContext& context, Panel panel);
  void DrawQuestions(Session* session);
  void DrawNotices();
  void DrawKeys();
  // Each of -1, 0, 1: earlier or later, less or more time.
  void MoveTime(Session* session, int move, int widen);
  void Keys(Session* session);  // nullptr: there is none
  void RunPalette(const ViewContext& context, Session* session);
  void Carry(Session* session);
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
  StatusBar status_bar_;
  Palette palette_;
  Commands commands_;
  std::vector<Notice> notices_;
  int cluster_ = 0;
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
