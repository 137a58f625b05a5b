// Drives the whole inside of the window: every panel, key and click.

#include "dashboard/app/shell.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dashboard/app/palette.h"
#include "dashboard/app/shell_testing.h"
#include "dashboard/app/text_audit.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/views/theme.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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
    Resize(3840, 2160);
    Frames(3);
    Resize(1280, 720);
    Frames(2);
    EXPECT_TRUE(errors_.empty()) << scenario << ": " << errors_.front();
    errors_.clear();
    Close();
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

TEST_F(ShellTest, OneKeyLeadsToEachPanelAndASecondGivesItTheWindow) {
  Open(8, "oom-cascade", nullptr, "worker:3");
  for (const Panel panel : kPanels) {
    Press(KeyOf(panel));
    const ImGuiWindow* window = Window(panel);
    ASSERT_NE(window, nullptr) << PanelName(panel);
    EXPECT_TRUE(window->Active && !window->Hidden) << PanelName(panel);
    EXPECT_EQ(ImGui::GetCurrentContext()->NavWindow->RootWindow, window->RootWindow)
        << PanelName(panel);
    Press(ImGuiKey_Z);
    const ImGuiWindow* zoomed = ImGui::FindWindowByName("###zoomed");
    ASSERT_NE(zoomed, nullptr);
    EXPECT_TRUE(zoomed->Active) << PanelName(panel);
    EXPECT_EQ(shell_->zoomed(), panel);
    Press(ImGuiKey_Z);
    EXPECT_FALSE(shell_->zoomed().has_value());
  }
}

TEST_F(ShellTest, WhatWasChosenIsFoundAgain) {
  Open(2, "");
  Press(ImGuiKey_T);
  Press(ImGuiKey_Equal, ImGuiMod_Ctrl);
  ASSERT_EQ(shell_->theme(), ThemeKind::kLight);
  const float size = ImGui::GetStyle().FontScaleDpi;
  ASSERT_GT(size, 1.0F);
  const std::string kept = ImGui::SaveIniSettingsToMemory();
  Close();
  Open(2, "");
  EXPECT_EQ(shell_->theme(), ThemeKind::kDark);
  ImGui::LoadIniSettingsFromMemory(kept.c_str(), kept.size());
  Frames(2);
  EXPECT_EQ(shell_->theme(), ThemeKind::kLight);
  EXPECT_EQ(ImGui::GetStyle().FontScaleDpi, size);
  // What somebody else wrote there is no reason to fail.
  constexpr absl::string_view kOdd = "[Millrace][Window]\nTheme=pink\nZoom=1e9\nSpan=x\nMore=1\n";
  ImGui::LoadIniSettingsFromMemory(kOdd.data(), kOdd.size());
  Frames(2);
  EXPECT_EQ(shell_->theme(), ThemeKind::kLight);
  EXPECT_TRUE(errors_.empty()) << errors_.front();
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

TEST_F(ShellTest, AFailureIsMarkedOnPlotsAndAClickSelectsItWithItsNode) {
  Open(8, "oom-cascade");
  const TimelineEvent* cause = session().model().timeline().first_cause();
  ASSERT_NE(cause, nullptr);
  for (const Panel panel : {Panel::kFeed, Panel::kGpus}) {
    session().selection = Selection();
    Press(KeyOf(panel));
    const ImGuiWindow* window = Window(panel);
    const float y = window->Pos.y + (panel == Panel::kFeed ? 160 : window->Size.y - 60);
    for (float x = window->Pos.x + 60;
         x < window->Pos.x + window->Size.x && session().selection.node < 0; x += 4) {
      Click(x, y);
    }
    EXPECT_EQ(session().selection.event, static_cast<int64_t>(cause->number));
    EXPECT_EQ(session().selection.node, cause->executor_id);
  }
}

TEST_F(ShellTest, SpacePausesAndGoesOn) {
  Open(8, "");
  Press(ImGuiKey_Space);
  EXPECT_FALSE(session().brush.live);
  Press(ImGuiKey_Space);
  EXPECT_TRUE(session().brush.live);
}

TEST_F(ShellTest, KeysMoveTheSpanOfTime) {
  Open(8, "");
  const absl::Duration span = session().brush.span;
  Press(ImGuiKey_Minus);
  EXPECT_TRUE(session().brush.live);
  EXPECT_EQ(session().brush.span, 2 * span);
  Press(ImGuiKey_Equal);
  Press(ImGuiKey_Equal);
  EXPECT_EQ(session().brush.span, span / 2);
  Press(ImGuiKey_Comma);
  ASSERT_FALSE(session().brush.live);
  const absl::Time to = session().brush.to;
  EXPECT_EQ(to - session().brush.from, span / 2);
  EXPECT_LT(to, session().model().now());
  Press(ImGuiKey_Period);
  EXPECT_GT(session().brush.to, to);
  for (int i = 0; i < 3; ++i) Press(ImGuiKey_Period);  // not beyond now
  EXPECT_LE(session().brush.to, session().model().now());
  Press(ImGuiKey_Equal);
  EXPECT_EQ(session().brush.to - session().brush.from, span / 4);
  Press(ImGuiKey_Escape);
  EXPECT_TRUE(session().brush.live);
}

TEST_F(ShellTest, KeysMoveThePlaceInARecording) {
  Open(8, "replay");
  Playback* playback = session().source().playback();
  ASSERT_NE(playback, nullptr);
  playback->SetPaused(true);
  const absl::Time position = playback->position();
  Press(ImGuiKey_Comma);
  EXPECT_EQ(playback->position(), position - absl::Seconds(5));
  Press(ImGuiKey_Period);
  EXPECT_EQ(playback->position(), position);
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

TEST_F(ShellTest, EveryTableIsExportedAsCsv) {
  struct Table {
    Panel panel;
    const char* button;
    const char* name;
    const char* header;
    int rows;  // at least
  };
  Open(50, "slow-node");
  for (const Table& table : {
           Table{Panel::kReservations, "Export the bring-up as CSV", "reservations",
                 "executor_id,node,host,state,", 50},
           Table{Panel::kNodes, "Export this table as CSV", "nodes", "executor_id,node,", 50},
           Table{Panel::kGpus, "Export all GPUs as CSV", "gpus", "host,index,uuid,", 50 * 8},
           Table{Panel::kFeed, "Export these lanes as CSV", "feed", "node,queue,", 1},
           Table{Panel::kMetrics, "Export these metrics as CSV", "metrics", "metric,executor_id,",
                 10},
           Table{Panel::kTimeline, "Export all events as CSV", "events", "number,time,", 1},
           Table{Panel::kLogs, "Export these lines as CSV", "logs", "time,executor_id,", 10},
           Table{Panel::kMembership, "Export all epochs and what they changed as CSV", "membership",
                 "epoch,time,change,task,address,before", 1},
       }) {
    SCOPED_TRACE(table.name);
    host_.saved_name.clear();
    host_.saved.clear();
    Press(KeyOf(table.panel));
    PressIcon(icon::kDownload, table.button);
    EXPECT_EQ(host_.saved_name, table.name);
    EXPECT_THAT(host_.saved, StartsWith(table.header));
    EXPECT_GT(std::count(host_.saved.begin(), host_.saved.end(), '\n'), table.rows);
  }
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

TEST_F(ShellTest, WithoutAClusterItSaysWhatToDoUntilOneComes) {
  shell_ = std::make_unique<Shell>(ShellOptions{.fonts = fonts_}, &host_);
  Frames(3);
  EXPECT_THAT(VisibleLetters(), HasSubstr("Noclusterofyoursrunsonthishost"));
  EXPECT_THAT(FindUnreadableText(), IsEmpty());
  shell_->SetTrouble("x.json is open to other users: chmod 600 x.json");
  for (const ImGuiKey key : {ImGuiKey_1, ImGuiKey_Space, ImGuiKey_Z, ImGuiKey_Escape, ImGuiKey_T})
    Press(key);
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  EXPECT_THAT(VisibleLetters(), HasSubstr("chmod600x.json"));
  EXPECT_EQ(shell_->theme(), ThemeKind::kLight);
  for (float y = 200; y < 600 && host_.copied.empty(); y += 10) Click(640, y);
  EXPECT_THAT(host_.copied, HasSubstr("millrace run"));

  DemoOptions options;
  options.nodes = 8;
  auto source = MakeDemoSource(options);
  ASSERT_TRUE(source.ok());
  sessions_.push_back(std::make_unique<Session>(*std::move(source)));
  while (session().Poll(absl::Now(), absl::Seconds(20))) {
  }
  Frames(8);
  EXPECT_THAT(VisibleLetters(), HasSubstr("8/8running"));
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

TEST_F(ShellTest, ClustersOfOneWindowAreToldApart) {
  Open(50, "");
  Open(2, "oom-cascade");
  for (const Panel panel : kPanels) {
    for (const int cluster : {0, 1, 0}) {
      shell_->ShowCluster(cluster);
      Press(KeyOf(panel));
      ImGui::GetIO().AddMousePosEvent(600, 300);
      Frames(2);
      EXPECT_THAT(VisibleLetters(), HasSubstr(cluster == 0 ? "50/50running" : "0/2running"));
    }
  }
  EXPECT_THAT(VisibleLetters(), HasSubstr("CLUSTERS"));
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

TEST_F(ShellTest, ValuesThatAreNoLongerKnownAreGrey) {
  Open(8, "stale");
  const auto green = [] {
    int count = 0;
    const ImDrawData* data = ImGui::GetDrawData();
    const ImU32 good = MakeTheme(ThemeKind::kDark, Fonts()).good;
    for (const ImDrawList* list : data->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) count += vertex.col == good ? 1 : 0;
    }
    return count;
  };
  EXPECT_THAT(VisibleLetters(), HasSubstr("connectionlost"));
  EXPECT_EQ(green(), 0);
  Close();
  Open(8, "");
  EXPECT_GT(green(), 100);
}

}  // namespace
}  // namespace millrace::dashboard
