// A million log lines in the real panel: bounded, followed, searched, read while more of them come.

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dashboard/app/shell_testing.h"
#include "dashboard/app/text_audit.h"
#include "dashboard/source/lines_source.h"
#include "gtest/gtest.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

constexpr uint64_t kKept = 1'000'000;
constexpr size_t kMaxBytes = size_t{300} << 20;

class LogsTest : public ShellTest {
 protected:
  // With the panel alone in the window.
  void OpenLines(uint64_t count) {
    auto source = std::make_unique<LinesSource>();
    lines_ = source.get();
    lines_->Write(count);
    Open(std::move(source));
    Press(KeyOf(Panel::kLogs));
    Press(ImGuiKey_Z);
    Search();
  }

  void Write(uint64_t count) {
    lines_->Write(count);
    while (session().Poll(absl::Now(), absl::Seconds(20))) {
    }
    Frames(2);
  }

  // Until the panel has looked at all lines.
  void Search() {
    for (int i = 0; i < 1000 && (i < 3 || absl::StrContains(VisibleLetters(), "searching")); ++i) {
      Frame();
    }
    Frames(3);
  }

  [[nodiscard]] static bool Shows(uint64_t line) {
    return absl::StrContains(VisibleLetters(), absl::StrCat("step", line, "loss"));
  }

  // The one that scrolls.
  [[nodiscard]] static ImGuiWindow* List() {
    for (ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      if (window->WasActive && absl::StrContains(window->Name, "/lines_")) return window;
    }
    return nullptr;
  }

  LinesSource* lines_ = nullptr;
};

TEST_F(LogsTest, AMillionLinesAreKeptAndFollowedWithinBounds) {
  OpenLines(1'200'000);
  EXPECT_EQ(session().model().logs().size(), kKept);
  EXPECT_LT(session().model().memory_bytes(), kMaxBytes);
  EXPECT_TRUE(Shows(1'199'999)) << VisibleLetters();
  EXPECT_TRUE(absl::StrContains(VisibleLetters(), "1,000,000of1,000,000")) << VisibleLetters();
  Write(5'000);
  EXPECT_TRUE(Shows(1'204'999)) << "it is followed";
  EXPECT_EQ(session().model().logs().size(), kKept);
  EXPECT_LT(session().model().memory_bytes(), kMaxBytes);
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

TEST_F(LogsTest, WhatIsReadStaysWhereItIsWhileLinesComeAndTheOldestGo) {
  OpenLines(1'000'000);
  ImGuiWindow* const list = List();
  ASSERT_NE(list, nullptr);
  MoveTo(list->Pos.x + 300, list->Pos.y + list->Size.y / 2);
  for (const float wheel : {3.0F, 3.0F, 3.0F}) {
    ImGui::GetIO().AddMouseWheelEvent(0, wheel);
    Frames(2);
  }
  ImGui::SetScrollY(list, list->ScrollMax.y / 2);
  Frames(3);
  ASSERT_TRUE(Shows(500'000)) << VisibleLetters();
  const std::string read = VisibleLetters().substr(VisibleLetters().find("step"), 400);
  for (int i = 0; i < 5; ++i) {
    Write(2'345);
    EXPECT_TRUE(absl::StrContains(VisibleLetters(), read)) << VisibleLetters();
  }
  // What was read is gone at last: the oldest that there is.
  Write(600'000);
  Search();
  EXPECT_TRUE(Shows(611'725)) << VisibleLetters();
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

TEST_F(LogsTest, OneLineAmongAMillionIsFound) {
  OpenLines(1'000'000);
  Press(ImGuiKey_Slash);
  Type("STEP 765432 ");
  Search();
  EXPECT_TRUE(Shows(765'432)) << VisibleLetters();
  EXPECT_TRUE(absl::StrContains(VisibleLetters(), "1of1,000,000")) << VisibleLetters();
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

}  // namespace
}  // namespace millrace::dashboard
