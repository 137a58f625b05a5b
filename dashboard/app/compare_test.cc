// Two clusters beside each other: keys, clicks, both halves, recordings that are longer or begin
// later, live clusters of another age, and clusters that go while they are compared.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "dashboard/app/comparison.h"
#include "dashboard/app/shell.h"
#include "dashboard/app/shell_testing.h"
#include "dashboard/app/text_audit.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/recording.h"
#include "dashboard/source/update_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "imgui.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct RunShape {
  int nodes = 8;
  std::string scenario;
  absl::Time started = absl::FromUnixSeconds(1'700'000'000);
  int from = 0;  // seconds of the cluster that were recorded
  int to = 60;
};

int Count(absl::string_view text, absl::string_view what) {
  int count = 0;
  for (size_t at = text.find(what); at != absl::string_view::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

class CompareTest : public ShellTest {
 protected:
  CompareTest() : dir_(*TempDir::Create("compare")) {}

  std::unique_ptr<UpdateSource> Recorded(const std::string& name, const RunShape& run) {
    DemoOptions options;
    options.nodes = run.nodes;
    options.scenario = run.scenario;
    options.started = run.started;
    options.begin_at = absl::Seconds(run.to);
    auto source = MakeDemoSource(options);
    const std::string path = JoinPath(dir_.path(), name + ".mrec");
    auto writer = RecordingWriter::Create(path);
    EXPECT_THAT(source, IsOk());
    EXPECT_THAT(writer, IsOk());
    std::vector<SourceUpdate> updates;
    (*source)->Poll(run.started + absl::Seconds(run.to), 1'000'000, &updates);
    for (SourceUpdate& update : updates) {
      update.arrived = std::max(update.arrived, run.started + absl::Seconds(run.from));
      EXPECT_THAT((*writer)->Add(update), IsOk());
    }
    writer->reset();
    auto recording = OpenRecording(path);
    EXPECT_THAT(recording, IsOk());
    return *std::move(recording);
  }

  std::unique_ptr<UpdateSource> Live(int nodes, const std::string& scenario, int age) {
    DemoOptions options;
    options.nodes = nodes;
    options.scenario = scenario;
    options.begin_at = absl::Seconds(age);
    auto source = MakeDemoSource(options);
    EXPECT_THAT(source, IsOk());
    return *std::move(source);
  }

  // All sessions at one time, as the window does it.
  void Play(absl::Duration duration) {
    for (const absl::Time end = now_ + duration; now_ < end;) {
      now_ += absl::Milliseconds(500);
      Settle();
      Frame();
    }
  }
  // What has been asked of recordings is done.
  void Settle() {
    for (const auto& session : sessions_) {
      while (session->Poll(now_, absl::Seconds(20))) {
      }
    }
  }
  void OpenBoth(std::unique_ptr<UpdateSource> first, std::unique_ptr<UpdateSource> second) {
    Open(std::move(first));
    Open(std::move(second));
    shell_->ShowCluster(0);
    now_ = absl::Now();
    Settle();
    Press(ImGuiKey_C);
    ASSERT_TRUE(shell_->comparing());
    Settle();
    Frames(3);
  }

  [[nodiscard]] Playback& playback(size_t i) { return *sessions_[i]->source().playback(); }
  // Since the start of its cluster, which the recordings here begin with.
  absl::Duration PlaceOf(size_t i) {
    return playback(i).position() - sessions_[i]->model().cluster().started;
  }
  [[nodiscard]] ImGuiWindow* Half(int i) {
    return ImGui::FindWindowByName(absl::StrCat("###half", i).c_str());
  }
  [[nodiscard]] std::string Letters() {
    Frames(3);
    return VisibleLetters();
  }
  void ExpectTogether() { EXPECT_EQ(PlaceOf(0), PlaceOf(1)); }
  void ExpectNoErrors() { EXPECT_TRUE(errors_.empty()) << errors_.front(); }

  TempDir dir_;
  absl::Time now_ = absl::Now();
};

TEST_F(CompareTest, OneKeyShowsBothAndBackAgain) {
  OpenBoth(Recorded("after", {}), Recorded("before", {.scenario = "slow-source"}));
  for (int i = 0; i < 3; ++i) Press(ImGuiKey_Period);
  Settle();
  const std::string letters = Letters();
  EXPECT_THAT(letters, HasSubstr("after.mrec"));
  EXPECT_THAT(letters, HasSubstr("before.mrec"));
  EXPECT_EQ(Count(letters, "8/8running"), 2);
  for (const Panel panel : kPanels) {
    Press(KeyOf(panel));
    EXPECT_EQ(shell_->front(), panel);
    for (const int half : {0, 1}) {
      ASSERT_NE(Half(half), nullptr);
      EXPECT_TRUE(Half(half)->Active) << PanelName(panel);
      EXPECT_GT(Half(half)->Size.y, 200) << PanelName(panel);
      MoveTo(Half(half)->Pos.x + 200, Half(half)->Pos.y + 120);
    }
    ExpectNoErrors();
  }
  Press(KeyOf(Panel::kGpus));
  Press(ImGuiKey_Z);  // both are alone already
  EXPECT_TRUE(shell_->comparing());
  Press(ImGuiKey_C);
  EXPECT_FALSE(shell_->comparing());
  Frames(8);
  EXPECT_EQ(shell_->front(), Panel::kGpus);
  EXPECT_FALSE(Half(0)->Active);
  EXPECT_THAT(Letters(), Not(HasSubstr("before.mrec8")));
  ExpectNoErrors();
}

TEST_F(CompareTest, HalvesAreSideBySideAndTimelinesOneAboveTheOther) {
  OpenBoth(Recorded("a", {}), Recorded("b", {}));
  Press(KeyOf(Panel::kFeed));
  EXPECT_GE(Half(1)->Pos.x, Half(0)->Pos.x + Half(0)->Size.x);
  EXPECT_EQ(Half(1)->Pos.y, Half(0)->Pos.y);
  EXPECT_EQ(Half(1)->Size.x, Half(0)->Size.x);
  Press(KeyOf(Panel::kTimeline));
  EXPECT_GE(Half(1)->Pos.y, Half(0)->Pos.y + Half(0)->Size.y);
  EXPECT_EQ(Half(1)->Pos.x, Half(0)->Pos.x);
  EXPECT_EQ(Half(0)->Size.x, 1280);
  for (const int half : {0, 1}) EXPECT_LE(Half(half)->Pos.y + Half(half)->Size.y, 720.5F);
}

TEST_F(CompareTest, RecordingsArePlayedPausedAndScrubbedTogether) {
  OpenBoth(Recorded("a", {}),
           Recorded("b", {.started = absl::FromUnixSeconds(1'600'000'000), .to = 90}));
  ExpectTogether();
  Play(absl::Seconds(4));
  EXPECT_GE(PlaceOf(0), absl::Seconds(4));
  ExpectTogether();
  Press(ImGuiKey_Space);
  EXPECT_TRUE(playback(0).paused() && playback(1).paused());
  const absl::Duration place = PlaceOf(0);
  Press(ImGuiKey_Period);
  Press(ImGuiKey_Period);
  EXPECT_EQ(PlaceOf(0), place + absl::Seconds(10));
  EXPECT_EQ(PlaceOf(1), place + absl::Seconds(10));
  Press(ImGuiKey_Comma);
  EXPECT_EQ(PlaceOf(1), place + absl::Seconds(5));
  Play(absl::Seconds(3));
  EXPECT_EQ(PlaceOf(1), place + absl::Seconds(5));
  Press(ImGuiKey_Space);
  EXPECT_FALSE(playback(0).paused() || playback(1).paused());
  Press(ImGuiKey_C);
  EXPECT_FALSE(playback(0).paused() || playback(1).paused());
}

TEST_F(CompareTest, TheScrubberAndTheSpeedAreOfBoth) {
  OpenBoth(Recorded("a", {}), Recorded("b", {.to = 60}));
  const ImGuiWindow* bar = ImGui::FindWindowByName("###compare");
  ASSERT_NE(bar, nullptr);
  const float y = bar->Pos.y + 5 + 1.5F * ImGui::GetFrameHeight() + ImGui::GetStyle().ItemSpacing.y;
  Click(600, y);
  EXPECT_GT(PlaceOf(0), absl::Seconds(20));
  EXPECT_LT(PlaceOf(0), absl::Seconds(40));
  ExpectTogether();
  for (float x = 50; x < 190 && playback(0).speed() != 16; x += 10) Click(x, y);
  EXPECT_EQ(playback(0).speed(), 16);
  EXPECT_EQ(playback(1).speed(), 16);
  ExpectNoErrors();
}

TEST_F(CompareTest, OfUnequalLengthTheShorterStaysAtItsEnd) {
  OpenBoth(Recorded("long", {.to = 90}), Recorded("short", {.to = 40}));
  Press(ImGuiKey_Space);
  for (int i = 0; i < 12; ++i) Press(ImGuiKey_Period);
  Settle();
  EXPECT_GE(PlaceOf(0), absl::Seconds(60));
  EXPECT_EQ(playback(1).position(), playback(1).end());
  std::string letters = Letters();
  EXPECT_THAT(letters, HasSubstr("endedat+40s"));
  EXPECT_EQ(Count(letters, "8/8running"), 2);  // as it ended, rather than nothing
  // The longer one is played on, and both come back.
  Press(ImGuiKey_Space);
  Play(absl::Seconds(5));
  EXPECT_GE(PlaceOf(0), absl::Seconds(65));
  EXPECT_EQ(playback(1).position(), playback(1).end());
  Press(ImGuiKey_Space);
  for (int i = 0; i < 10; ++i) Press(ImGuiKey_Comma);
  Settle();
  EXPECT_LT(PlaceOf(0), absl::Seconds(30));
  ExpectTogether();
  EXPECT_THAT(Letters(), Not(HasSubstr("endedat")));
  ExpectNoErrors();
}

TEST_F(CompareTest, ARecordingThatBeginsLaterWaitsForItsBeginning) {
  OpenBoth(Recorded("whole", {}), Recorded("late", {.from = 30, .to = 60}));
  Press(ImGuiKey_Space);
  ASSERT_TRUE(playback(0).paused());
  Press(ImGuiKey_Period);
  EXPECT_LT(PlaceOf(0), absl::Seconds(20));
  EXPECT_EQ(playback(1).position(), playback(1).begin());
  EXPECT_THAT(Letters(), HasSubstr("recordedfrom+30s"));
  Press(ImGuiKey_Space);
  Play(absl::Seconds(8));
  EXPECT_EQ(playback(1).position(), playback(1).begin());
  for (int i = 0; i < 4; ++i) Press(ImGuiKey_Period);
  ASSERT_GT(PlaceOf(0), absl::Seconds(30));
  ExpectTogether();
  // And by itself, to a frame.
  for (int i = 0; i < 3; ++i) Press(ImGuiKey_Comma);
  ASSERT_LT(PlaceOf(0), absl::Seconds(30));
  EXPECT_TRUE(playback(1).paused());
  Play(absl::Seconds(20));
  EXPECT_GT(PlaceOf(0), absl::Seconds(31));
  EXPECT_FALSE(playback(1).paused());
  EXPECT_LE(absl::AbsDuration(PlaceOf(0) - PlaceOf(1)), absl::Milliseconds(500));
  EXPECT_THAT(Letters(), Not(HasSubstr("recordedfrom")));
  // Whoever leaves finds it playing.
  for (int i = 0; i < 5; ++i) Press(ImGuiKey_Comma);
  ASSERT_TRUE(playback(1).paused());
  Press(ImGuiKey_C);
  EXPECT_FALSE(playback(1).paused());
}

TEST_F(CompareTest, TimeThatNeitherHasIsSkipped) {
  OpenBoth(Recorded("early", {.to = 20}), Recorded("late", {.from = 40, .to = 60}));
  Play(absl::Seconds(22));
  EXPECT_EQ(playback(0).position(), playback(0).end());
  EXPECT_GT(PlaceOf(1), absl::Seconds(40));
  EXPECT_FALSE(playback(1).paused());
}

TEST_F(CompareTest, OfTwoLiveClustersTheOlderIsShownAtTheAgeOfTheYounger) {
  OpenBoth(Live(8, "", 200), Live(8, "", 45));
  Press(KeyOf(Panel::kFeed));
  const std::string letters = Letters();
  const absl::Duration age = sessions_[1]->model().now() - sessions_[1]->model().cluster().started;
  const std::string as_of = absl::StrCat("asof+", absl::ToInt64Seconds(age), "s");
  EXPECT_THAT(letters, HasSubstr(as_of));
  EXPECT_EQ(Count(letters, "+0:30"), 2 * 2);  // on both plots of both
  Press(ImGuiKey_Space);
  Play(absl::Seconds(2));
  EXPECT_EQ(Count(Letters(), as_of), 2);
  Press(ImGuiKey_Escape);
  EXPECT_EQ(Count(Letters(), "asof+"), 1);
  EXPECT_EQ(Count(Letters(), as_of), 0);
  ExpectNoErrors();
}

TEST_F(CompareTest, ALiveClusterIsShownAtThePlaceOfARecording) {
  OpenBoth(Live(8, "", 100), Recorded("before", {}));
  Press(ImGuiKey_Space);
  ASSERT_TRUE(playback(1).paused());
  for (int i = 0; i < 4; ++i) Press(ImGuiKey_Period);
  Settle();
  const absl::Duration place = absl::Trunc(PlaceOf(1), absl::Seconds(1));
  EXPECT_THAT(Letters(), HasSubstr(absl::StrCat("asof+", absl::ToInt64Seconds(place), "s")));
  for (const Panel panel : kPanels) Press(KeyOf(panel));
  ExpectNoErrors();
}

TEST_F(CompareTest, ANodeIsSelectedByNameInBoth) {
  OpenBoth(Recorded("few", {.nodes = 4, .to = 20}), Recorded("many", {.nodes = 50, .to = 20}));
  for (int i = 0; i < 3; ++i) Press(ImGuiKey_Period);
  Settle();
  Press(KeyOf(Panel::kNodes));
  const auto name = [&](size_t i) {
    return sessions_[i]->model().NodeName(sessions_[i]->selection.node);
  };
  Click(Half(0)->Pos.x + 60, Half(0)->Pos.y + 84);
  ASSERT_GE(sessions_[0]->selection.node, 0);
  EXPECT_EQ(name(0), name(1));
  EXPECT_EQ(sessions_[1]->selection.host,
            sessions_[1]->model().nodes()[sessions_[1]->selection.node].host_index);
  // What there is only of the other.
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("One cluster");
  Press(ImGuiKey_Escape);
  EXPECT_TRUE(shell_->comparing());
  Click(Half(1)->Pos.x + 60, Half(1)->Pos.y + 400);
  ASSERT_EQ(sessions_[0]->model().FindNode(name(1)), -1) << name(1);
  EXPECT_EQ(sessions_[0]->selection, Selection());
  Press(ImGuiKey_Escape);
  EXPECT_EQ(sessions_[1]->selection, Selection());
  ExpectNoErrors();
}

TEST_F(CompareTest, ADragOverEitherPlotIsTheSpanOfBoth) {
  OpenBoth(Recorded("a", {}), Recorded("b", {.scenario = "slow-source",
                                             .started = absl::FromUnixSeconds(1'600'000'000)}));
  Press(ImGuiKey_Space);
  for (int i = 0; i < 12; ++i) Press(ImGuiKey_Period);
  Settle();
  Press(KeyOf(Panel::kFeed));
  for (const int half : {0, 1}) {
    Drag(Half(half)->Pos.x + 140, Half(half)->Pos.y + 160, Half(half)->Pos.x + 220,
         Half(half)->Pos.y + 160);
    EXPECT_EQ(Count(Letters(), "asof+"), 2) << half;
    EXPECT_FALSE(sessions_[0]->brush.live == false) << "of one alone";
    Press(ImGuiKey_Escape);
    EXPECT_EQ(Count(Letters(), "asof+"), 0) << half;
  }
  ExpectNoErrors();
}

TEST_F(CompareTest, PlotsHaveTheSameAxesAndTheDifferenceStandsAbove) {
  OpenBoth(Recorded("slow", {.scenario = "slow-source"}), Recorded("good", {}));
  Press(ImGuiKey_Space);
  for (int i = 0; i < 12; ++i) Press(ImGuiKey_Period);
  Settle();
  Press(KeyOf(Panel::kFeed));
  const std::string letters = Letters();
  EXPECT_EQ(Count(letters, "100krows/s"), 2);
  EXPECT_EQ(Count(letters, "50krows/s"), 2);
  EXPECT_THAT(letters, HasSubstr("-74%"));
  EXPECT_THAT(letters, ContainsRegex("-[45][0-9]points"));
  Press(ImGuiKey_C);
  EXPECT_EQ(Count(Letters(), "100krows/s"), 0);
}

TEST_F(CompareTest, WhatIsChosenInOneHalfIsChosenInTheOther) {
  OpenBoth(Recorded("a", {}), Recorded("b", {}));
  for (int i = 0; i < 3; ++i) Press(ImGuiKey_Period);
  Settle();
  Press(KeyOf(Panel::kNodes));
  EXPECT_EQ(Count(Letters(), "8of8"), 2);
  Press(ImGuiKey_Slash);
  Frames(3);
  Type("worker:1");
  EXPECT_EQ(Count(Letters(), "1of8"), 2);
  // A click makes the other half the one that counts.
  Click(Half(1)->Pos.x + 60, Half(1)->Pos.y + 200);
  Press(ImGuiKey_Slash);
  Frames(3);
  Press(ImGuiKey_A, ImGuiMod_Ctrl);
  Type("chief");
  EXPECT_EQ(Count(Letters(), "worker:1"), 0);
  ExpectNoErrors();
}

TEST_F(CompareTest, TimeIsCountedFromTheStartOrFromWhenAllRan) {
  OpenBoth(Recorded("a", {.nodes = 60, .to = 30}), Recorded("b", {.to = 30}));
  Press(ImGuiKey_Space);
  for (int i = 0; i < 4; ++i) Press(ImGuiKey_Period);
  Settle();
  Frames(3);
  const absl::Duration ran[] = {
      sessions_[0]->model().all_ran() - sessions_[0]->model().cluster().started,
      sessions_[1]->model().all_ran() - sessions_[1]->model().cluster().started};
  ASSERT_GT(ran[0], ran[1]);
  const ImGuiWindow* bar = ImGui::FindWindowByName("###compare");
  Click(1230, bar->Pos.y + bar->Size.y - 18);
  Settle();
  Frames(3);
  EXPECT_EQ(PlaceOf(0) - ran[0], PlaceOf(1) - ran[1]);
  Click(1140, bar->Pos.y + bar->Size.y - 18);
  ExpectTogether();
}

TEST_F(CompareTest, TabsAndTheCrossCanBeClicked) {
  OpenBoth(Recorded("a", {.to = 10}), Recorded("b", {.to = 10}));
  const float y = 5 + ImGui::GetFrameHeight() / 2;
  for (float x = 20; x < 200 && shell_->front() != Panel::kNodes; x += 16) Click(x, y);
  EXPECT_EQ(shell_->front(), Panel::kNodes);
  for (float x = 1270; x > 1200 && shell_->comparing(); x -= 8) Click(x, y);
  EXPECT_FALSE(shell_->comparing());
  ExpectNoErrors();
}

TEST_F(CompareTest, AClusterThatGoesLeavesTheOther) {
  for (const size_t gone : {1, 0}) {
    OpenBoth(Recorded("left", {.to = 10}), Recorded("right", {.to = 10}));
    sessions_.erase(sessions_.begin() + static_cast<ptrdiff_t>(gone));
    Frames(3);
    EXPECT_FALSE(shell_->comparing());
    EXPECT_THAT(Letters(),
                HasSubstr(gone == 1 ? "right.mrecisnolongerthere" : "left.mrecisnolongerthere"));
    EXPECT_EQ(shell_->cluster(), 0);
    Press(ImGuiKey_C);
    EXPECT_FALSE(shell_->comparing());
    EXPECT_THAT(Letters(), HasSubstr("--compareFILE"));
    ExpectNoErrors();
    Close();
  }
}

TEST_F(CompareTest, BothMayGoAndOthersMayGoBeforeThem) {
  OpenBoth(Recorded("left", {.to = 10}), Recorded("right", {.to = 10}));
  sessions_.clear();
  Frames(3);
  EXPECT_THAT(VisibleLetters(), HasSubstr("Noclusterofyours"));
  ExpectNoErrors();
  Close();

  Open(1, "");
  Open(Recorded("left", {.to = 10}));
  Open(Recorded("right", {.to = 10}));
  shell_->ShowCluster(1);
  Press(ImGuiKey_C);
  Type("right");
  Press(ImGuiKey_Enter);
  Frames(3);
  ASSERT_TRUE(shell_->comparing());
  sessions_.erase(sessions_.begin());
  Frames(3);
  EXPECT_TRUE(shell_->comparing());
  EXPECT_EQ(shell_->cluster(), 0);
  EXPECT_TRUE(shell_->Compares(*sessions_[0]) && shell_->Compares(*sessions_[1]));
  ExpectNoErrors();
}

TEST_F(CompareTest, OfSeveralThePaletteAsksWhichAndChangesThem) {
  Open(4, "");
  Open(6, "slow-source");
  Open(5, "skewed");
  Press(ImGuiKey_C);
  EXPECT_FALSE(shell_->comparing());
  Type("skewed");
  Press(ImGuiKey_Enter);
  Frames(3);
  ASSERT_TRUE(shell_->comparing());
  EXPECT_TRUE(shell_->Compares(*sessions_[0]) && shell_->Compares(*sessions_[2]));
  // Another one at the left, then both change places.
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("Cluster slow-source");
  Press(ImGuiKey_Enter);
  Frames(3);
  EXPECT_TRUE(shell_->Compares(*sessions_[1]) && shell_->Compares(*sessions_[2]));
  EXPECT_EQ(shell_->cluster(), 1);
  shell_->ShowCluster(2);
  Frames(3);
  EXPECT_TRUE(shell_->Compares(*sessions_[1]) && shell_->Compares(*sessions_[2]));
  EXPECT_EQ(shell_->cluster(), 2);
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("One cluster alone");
  Press(ImGuiKey_Enter);
  Frames(3);
  EXPECT_FALSE(shell_->comparing());
  EXPECT_EQ(shell_->cluster(), 2);
  ExpectNoErrors();
}

TEST_F(CompareTest, LargeClustersAreComparedAgainAndAgain) {
  // Their GPUs are drawn as textures, which outlive a comparison.
  OpenBoth(Live(200, "", 20), Live(300, "gpu-hot", 20));
  Press(KeyOf(Panel::kGpus));
  Frames(3);
  std::vector<ImTextureData*> shown;
  for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
    if (texture->Status == ImTextureStatus_OK) shown.push_back(texture);
  }
  ASSERT_GE(shown.size(), 3U);
  Press(ImGuiKey_C);
  ASSERT_FALSE(shell_->comparing());
  const ImVector<ImTextureData*>& left = ImGui::GetPlatformIO().Textures;
  for (ImTextureData* texture : shown) EXPECT_TRUE(left.contains(texture));
  for (int i = 0; i < 4; ++i) Press(ImGuiKey_C);
  EXPECT_FALSE(shell_->comparing());
  ExpectNoErrors();
}

TEST_F(CompareTest, NobodyIsStoppedWhereTwoAreShown) {
  FakeActions actions;
  Open(8, "", &actions, "worker:1");
  Open(8, "");
  Press(ImGuiKey_C);
  ASSERT_TRUE(shell_->comparing());
  Press(ImGuiKey_P, ImGuiMod_Ctrl);
  Type("Stop the cluster");
  Press(ImGuiKey_Enter);
  Frames(4);
  EXPECT_FALSE(ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup));
  EXPECT_EQ(actions.stopped, 0);
}

TEST_F(CompareTest, TheFirstClusterThatComesIsShownBesideTheOneThatWaits) {
  Open(Recorded("before", {.to = 20}));
  shell_.reset();
  shell_ = std::make_unique<Shell>(
      ShellOptions{.fonts = fonts_, .panel = Panel::kGpus, .beside = session().number()}, &host_);
  Frames(4);
  EXPECT_FALSE(shell_->comparing());
  sessions_.push_back(std::make_unique<Session>(Live(8, "", 10)));
  Frames(2);
  EXPECT_TRUE(shell_->comparing());
  EXPECT_THAT(VisibleLetters(), HasSubstr("alignedassoonas"));  // nothing has come of it
  Settle();
  Frames(3);
  EXPECT_THAT(VisibleLetters(), Not(HasSubstr("alignedassoonas")));
  EXPECT_EQ(shell_->cluster(), 1);
  EXPECT_EQ(shell_->front(), Panel::kGpus);
  ExpectNoErrors();
}

TEST_F(CompareTest, ASelectionIsCalledByNameInAnotherCluster) {
  Open(Live(6, "", 30));
  Open(Live(50, "", 30));
  const DashboardModel& few = sessions_[0]->model();
  const DashboardModel& many = sessions_[1]->model();
  const int worker = few.FindNode("worker:1");
  ASSERT_GE(worker, 0);
  const NodeState& node = few.nodes()[static_cast<size_t>(worker)];
  ASSERT_GT(node.gpus.size(), 3U);
  const Selection selected = {.node = worker,
                              .gpu = node.gpus[3],
                              .host = node.host_index,
                              .event = 7,
                              .feed = few.feeds().begin()->first,
                              .queue = "input"};
  const Selection found = Counterpart(selected, few, many);
  EXPECT_EQ(many.NodeName(found.node), "worker:1");
  EXPECT_EQ(many.nodes()[static_cast<size_t>(found.node)].host_index, found.host);
  EXPECT_EQ(many.nodes()[static_cast<size_t>(found.node)].gpus[3], found.gpu);
  EXPECT_EQ(found.feed, many.feeds().begin()->first);
  EXPECT_EQ(found.queue, "input");
  EXPECT_EQ(found.event, -1);
  const Selection other = {.node = many.FindNode("worker:30"), .event = 3};
  ASSERT_GE(other.node, 0);
  EXPECT_EQ(Counterpart(other, many, few), Selection());
  EXPECT_EQ(Counterpart({.node = 4711, .gpu = 4711, .host = 4711, .feed = "x"}, many, few),
            Selection());
}

}  // namespace
}  // namespace millrace::dashboard
