// Drives the whole inside of the window with the real ImGui, without a window: frames are built and
// rendered into draw lists, input is injected.

#include "dashboard/app/shell.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dashboard/app/fonts.h"
#include "dashboard/app/panels.h"
#include "dashboard/source/demo_source.h"
#include "imgui.h"
#include "imgui_internal.h"
#include "implot.h"

namespace millrace::dashboard {
namespace {

// Counts instead of ending the test, and keeps the texts.
std::vector<std::string>* errors = nullptr;
void CountError(ImGuiContext*, void*, const char* text) { errors->emplace_back(text); }

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

// The demo with an operator.
class OperatedSource : public UpdateSource {
 public:
  OperatedSource(std::unique_ptr<UpdateSource> source, FakeActions* actions)
      : source_(std::move(source)), actions_(actions) {}
  [[nodiscard]] std::string title() const override { return source_->title(); }
  void Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) override {
    source_->Poll(now, max_updates, updates);
  }
  [[nodiscard]] OperatorActions* actions() override { return actions_; }

 private:
  std::unique_ptr<UpdateSource> source_;
  FakeActions* const actions_;
};

class ShellTest : public testing::Test {
 protected:
  ShellTest() {
    errors = &errors_;
    ImGui::CreateContext();
    ImPlot::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.DisplaySize = ImVec2(1280, 720);
    io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
    io.ConfigWindowsMoveFromTitleBarOnly = true;
    io.ConfigErrorRecoveryEnableAssert = false;
    io.BackendFlags |=
        ImGuiBackendFlags_RendererHasTextures | ImGuiBackendFlags_RendererHasVtxOffset;
    ImGui::GetCurrentContext()->ErrorCallback = CountError;
    fonts_ = LoadFonts();
  }

  ~ShellTest() override {
    for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
      texture->SetTexID(ImTextureID_Invalid);
      texture->SetStatus(ImTextureStatus_Destroyed);
    }
    shell_.reset();
    sessions_.clear();
    ImPlot::DestroyContext();
    ImGui::DestroyContext();
    errors = nullptr;
  }

  void Open(int nodes, const std::string& scenario, FakeActions* actions = nullptr,
            std::string select = "") {
    DemoOptions options;
    options.nodes = nodes;
    options.scenario = scenario;
    if (nodes > 1000 || scenario == "huge") options.begin_at = absl::Seconds(6);
    auto source = MakeDemoSource(options);
    ASSERT_TRUE(source.ok()) << source.status();
    std::unique_ptr<UpdateSource> taken = std::move(*source);
    if (actions != nullptr) taken = std::make_unique<OperatedSource>(std::move(taken), actions);
    sessions_.push_back(std::make_unique<Session>(std::move(taken)));
    const absl::Time now = absl::Now();
    while (sessions_.back()->Poll(now, absl::Seconds(20))) {
    }
    shell_ =
        std::make_unique<Shell>(ShellOptions{.fonts = fonts_, .select = std::move(select)}, &host_);
    Frames(8);
  }

  void Frame() {
    ImGuiIO& io = ImGui::GetIO();
    io.DeltaTime = 1.0F / 60;
    ImGui::NewFrame();
    std::vector<Session*> sessions;
    for (const auto& session : sessions_) sessions.push_back(session.get());
    shell_->Draw(sessions, absl::Milliseconds(1));
    ImGui::Render();
    // What a renderer does with textures.
    for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
      if (texture->Status == ImTextureStatus_WantCreate ||
          texture->Status == ImTextureStatus_WantUpdates) {
        texture->SetTexID(1);
        texture->SetStatus(ImTextureStatus_OK);
      } else if (texture->Status == ImTextureStatus_WantDestroy) {
        texture->SetTexID(ImTextureID_Invalid);
        texture->SetStatus(ImTextureStatus_Destroyed);
      }
    }
    if (ImGui::GetCurrentContext()->HoveredIdPreviousFrameItemCount > 1) {
      const ImVec2 at = io.MousePos;
      errors_.push_back(absl::StrCat("two items share an id at ", at.x, ",", at.y, " of ",
                                     PanelName(shell_->front())));
    }
    vertices_ = ImGui::GetDrawData()->TotalVtxCount;
  }
  void Frames(int count) {
    for (int i = 0; i < count; ++i) Frame();
  }

  void Press(ImGuiKey key, ImGuiKey modifier = ImGuiKey_None) {
    ImGuiIO& io = ImGui::GetIO();
    if (modifier != ImGuiKey_None) io.AddKeyEvent(modifier, true);
    io.AddKeyEvent(key, true);
    Frames(2);
    io.AddKeyEvent(key, false);
    if (modifier != ImGuiKey_None) io.AddKeyEvent(modifier, false);
    Frames(3);
  }
  void Type(const std::string& text) {
    ImGui::GetIO().AddInputCharactersUTF8(text.c_str());
    Frames(3);
  }
  void MoveTo(float x, float y) {
    ImGui::GetIO().AddMousePosEvent(x, y);
    Frames(2);
  }
  void Click(float x, float y) {
    MoveTo(x, y);
    ImGui::GetIO().AddMouseButtonEvent(0, true);
    Frames(2);
    ImGui::GetIO().AddMouseButtonEvent(0, false);
    Frames(3);
  }
  void Drag(float x0, float y0, float x1, float y1) {
    MoveTo(x0, y0);
    ImGui::GetIO().AddMouseButtonEvent(0, true);
    Frames(2);
    for (int i = 1; i <= 4; ++i)
      MoveTo(x0 + (x1 - x0) * static_cast<float>(i) / 4,
             y0 + (y1 - y0) * static_cast<float>(i) / 4);
    ImGui::GetIO().AddMouseButtonEvent(0, false);
    Frames(3);
  }
  ImGuiWindow* Window(Panel panel) {
    return ImGui::FindWindowByName(
        absl::StrCat(PanelTitle(panel), "###", PanelName(panel)).c_str());
  }
  Session& session() { return *sessions_.front(); }

  std::vector<std::string> errors_;
  Fonts fonts_;
  FakeHost host_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Shell> shell_;
  int vertices_ = 0;
};

ImGuiKey KeyOf(Panel panel) { return static_cast<ImGuiKey>(ImGuiKey_0 + (PanelKey(panel) - '0')); }

class ShellSizeTest : public ShellTest, public testing::WithParamInterface<int> {};

TEST_P(ShellSizeTest, EveryPanelDrawsAndCanBeHoveredEverywhere) {
  Open(GetParam(), "");
  const int step = GetParam() > 1000 ? 256 : 128;
  for (const Panel panel : kPanels) {
    Press(KeyOf(panel));
    for (int y = 10; y < 720; y += step / 2) {
      for (int x = 10; x < 1280; x += step) {
        ImGui::GetIO().AddMousePosEvent(static_cast<float>(x), static_cast<float>(y));
        Frames(2);
      }
    }
    EXPECT_TRUE(errors_.empty()) << PanelName(panel) << ": " << errors_.front();
    EXPECT_GT(vertices_, 500) << PanelName(panel);
    errors_.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShellSizeTest, testing::Values(0, 1, 50, 10'000));

TEST_F(ShellTest, EveryScenarioIsDrawnAtAllSizesAndThemes) {
  for (const std::string& scenario : DemoScenarios()) {
    Open(20, scenario, nullptr, "worker:1");
    for (const Panel panel : kPanels) Press(KeyOf(panel));
    Press(ImGuiKey_T);
    ImGui::GetIO().DisplaySize = ImVec2(3840, 2160);
    Frames(3);
    ImGui::GetIO().DisplaySize = ImVec2(1280, 720);
    Frames(2);
    EXPECT_TRUE(errors_.empty()) << scenario << ": " << errors_.front();
    errors_.clear();
    shell_.reset();
    sessions_.clear();
  }
}

TEST_F(ShellTest, OneKeyBringsEachTabToTheFront) {
  Open(8, "");
  for (const Panel panel : {Panel::kNodes, Panel::kGpus, Panel::kFeed, Panel::kMetrics,
                            Panel::kLogs, Panel::kMembership, Panel::kReservations}) {
    Press(KeyOf(panel));
    EXPECT_EQ(shell_->front(), panel) << PanelName(panel);
  }
}

TEST_F(ShellTest, NothingReachesBeyondTheWindowAt1280x720) {
  Open(8, "oom-cascade");
  for (const Panel panel : kPanels) {
    const ImGuiWindow* window = Window(panel);
    ASSERT_NE(window, nullptr) << PanelName(panel);
    EXPECT_LE(window->Pos.x + window->Size.x, 1280.5F) << PanelName(panel);
    EXPECT_LE(window->Pos.y + window->Size.y, 720.5F) << PanelName(panel);
  }
}

TEST_F(ShellTest, TheFailureSentenceLeadsToItsNode) {
  Open(8, "oom-cascade");
  const ImGuiWindow* verdict = Window(Panel::kVerdict);
  ASSERT_NE(verdict, nullptr);
  bool jumped = false;
  for (float y = verdict->Pos.y + 10; y < verdict->Pos.y + verdict->Size.y && !jumped; y += 12) {
    Click(verdict->Pos.x + 60, y);
    jumped = session().selection == session().model().verdict().failure.jump.selection &&
             session().selection != Selection();
  }
  EXPECT_TRUE(jumped);
}

TEST_F(ShellTest, AClickInTheTableSelectsTheNodeEverywhere) {
  Open(8, "");
  Press(KeyOf(Panel::kNodes));
  const ImGuiWindow* nodes = Window(Panel::kNodes);
  Click(nodes->Pos.x + 60, nodes->Pos.y + 84);
  EXPECT_GE(session().selection.node, 0);
  EXPECT_GE(session().selection.host, 0);
  Press(ImGuiKey_Escape);
  EXPECT_EQ(session().selection, Selection());
}

TEST_F(ShellTest, ThePaletteFindsANodeByName) {
  Open(50, "");
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("wrk17");
  Press(ImGuiKey_Enter);
  EXPECT_EQ(session().model().NodeName(session().selection.node), "worker:17");
}

TEST_F(ShellTest, TypingDoesNotPressKeys) {
  Open(8, "");
  Press(KeyOf(Panel::kNodes));
  Press(ImGuiKey_Slash);
  Frames(3);
  Press(ImGuiKey_3);
  EXPECT_EQ(shell_->front(), Panel::kNodes);
}

TEST_F(ShellTest, ADragOverAPlotIsTheBrushOfAllPanelsAndEscGoesBack) {
  Open(8, "");
  Press(KeyOf(Panel::kFeed));
  const ImGuiWindow* feed = Window(Panel::kFeed);
  Drag(feed->Pos.x + 120, feed->Pos.y + 160, feed->Pos.x + 220, feed->Pos.y + 160);
  EXPECT_FALSE(session().brush.live);
  EXPECT_GT(session().brush.to, session().brush.from);
  Press(ImGuiKey_Escape);
  EXPECT_TRUE(session().brush.live);
}

TEST_F(ShellTest, SpacePausesAndGoesOn) {
  Open(8, "");
  Press(ImGuiKey_Space);
  EXPECT_FALSE(session().brush.live);
  Press(ImGuiKey_Space);
  EXPECT_TRUE(session().brush.live);
}

TEST_F(ShellTest, AViewerSeesNoOperatorsActions) {
  Open(8, "", nullptr, "worker:1");
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("Stop the cluster");
  Press(ImGuiKey_Enter);
  EXPECT_FALSE(ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup));
}

TEST_F(ShellTest, StoppingTheClusterIsAskedFirst) {
  FakeActions actions;
  Open(8, "", &actions, "worker:1");
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("Stop the cluster");
  Press(ImGuiKey_Enter);
  Frames(4);
  EXPECT_EQ(actions.stopped, 0);
  const ImGuiWindow* question = ImGui::FindWindowByName("stop");
  ASSERT_NE(question, nullptr);
  ASSERT_TRUE(question->Active);
  Press(ImGuiKey_Escape);
  EXPECT_EQ(actions.stopped, 0);

  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("Restart worker:1");
  Press(ImGuiKey_Enter);
  Frames(4);
  EXPECT_EQ(actions.restarted, -1);
  question = ImGui::FindWindowByName("restart");
  ASSERT_NE(question, nullptr);
  Click(question->Pos.x + 40, question->Pos.y + question->Size.y - 18);
  EXPECT_EQ(actions.restarted, session().model().FindNode("worker:1"));
  EXPECT_EQ(actions.stopped, 0);
}

TEST_F(ShellTest, SeveralClustersAreSwitchedByThePalette) {
  Open(4, "");
  Open(6, "slow-source");
  Frames(3);
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("Cluster slow-source");
  Press(ImGuiKey_Enter);
  Press(ImGuiKey_Space);
  EXPECT_TRUE(sessions_[0]->brush.live);
  EXPECT_FALSE(sessions_[1]->brush.live);
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

TEST_F(ShellTest, CtrlQEndsTheWindow) {
  Open(1, "");
  Press(ImGuiKey_Q, ImGuiMod_Ctrl);
  EXPECT_TRUE(host_.quit);
}

TEST(FuzzyScoreTest, LettersInOrderMatchAndBeginningsOfWordsAreBetter) {
  EXPECT_LT(FuzzyScore("wx", "worker:1"), 0);
  EXPECT_GE(FuzzyScore("w1", "worker:1"), 0);
  EXPECT_GT(FuzzyScore("worker:1", "worker:1"), FuzzyScore("worker:1", "worker:11"));
  EXPECT_GT(FuzzyScore("gp", "GPUs"), FuzzyScore("gp", "Log up"));
}

}  // namespace
}  // namespace millrace::dashboard
