// File: dashboard/app/shell_testing.h
//
// The inside of the window with the real ImGui but without a window: frames are built and rendered
// into draw lists, input is injected, errors of ImGui and shared ids are collected.
//
// Defines: ShellTest, FakeHost, FakeActions.
//
//   class MyTest : public ShellTest {};
//   TEST_F(MyTest, Draws) { Open(8, "oom-cascade"); Press(KeyOf(Panel::kGpus)); ... }
//
// Time of frames passes by frames, 60 a second. Thread safety: one at a time.

#ifndef DASHBOARD_APP_SHELL_TESTING_H_
#define DASHBOARD_APP_SHELL_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dashboard/app/panels.h"
#include "dashboard/app/session.h"
#include "dashboard/app/shell.h"
#include "dashboard/source/update_source.h"
#include "gtest/gtest.h"
#include "imgui.h"

struct ImGuiWindow;

namespace millrace::dashboard {

class FakeHost : public ShellHost {
 public:
  void Copy(const std::string& text) override { copied = text; }
  absl::StatusOr<std::string> Save(const std::string& name, const std::string& csv) override {
    saved_name = name;
    saved = csv;
    return "somewhere.csv";
  }
  void Quit() override { quit = true; }

  std::string copied, saved_name, saved;
  bool quit = false;
};

class FakeActions : public OperatorActions {
 public:
  [[nodiscard]] bool allowed() const override { return true; }
  void RestartNode(int executor_id, absl::string_view) override { restarted = executor_id; }
  void StopCluster(bool) override { ++stopped; }
  [[nodiscard]] std::vector<ActionResult> TakeResults() override {
    return std::exchange(results, {});
  }

  int restarted = -1;
  int stopped = 0;
  std::vector<ActionResult> results;
};

[[nodiscard]] inline ImGuiKey KeyOf(Panel panel) {
  return static_cast<ImGuiKey>(ImGuiKey_0 + (PanelKey(panel) - '0'));
}

class ShellTest : public testing::Test {
 protected:
  ShellTest();
  ~ShellTest() override;

  // Adds a simulated cluster and begins a shell with all that there are. All of it has come.
  void Open(int nodes, const std::string& scenario, FakeActions* actions = nullptr,
            std::string select = "");
  // Adds any source.
  void Open(std::unique_ptr<UpdateSource> source, std::string select = "");
  // Ends shell and sessions; ImGui stays.
  void Close();

  void Frame();
  void Frames(int count);
  void Press(ImGuiKey key, ImGuiKey modifier = ImGuiKey_None);
  void Type(const std::string& text);
  void MoveTo(float x, float y);
  void Click(float x, float y, int button = 0);
  void Drag(float x0, float y0, float x1, float y1);
  // Presses an IconButton() of any window that is open, wherever it is.
  void PressIcon(const char* icon, const char* what);
  void Resize(float width, float height) { ImGui::GetIO().DisplaySize = ImVec2(width, height); }
  [[nodiscard]] ImGuiWindow* Window(Panel panel);
  [[nodiscard]] Session& session() { return *sessions_.front(); }

  std::vector<std::string> errors_;
  Fonts fonts_;
  FakeHost host_;
  float scale_ = 1;  // of the next shell
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Shell> shell_;
  int vertices_ = 0;  // of the last frame
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_SHELL_TESTING_H_
