// All text can be read: every panel in every scenario, in the smallest window that is promised.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "dashboard/app/shell_testing.h"
#include "dashboard/app/text_audit.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/update_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReadableTest : public ShellTest {
 protected:
  void ExpectReadable(const std::string& where) {
    const std::vector<std::string> found = FindUnreadableText();
    EXPECT_THAT(found, IsEmpty()) << where << ":\n  " << absl::StrJoin(found, "\n  ");
    EXPECT_TRUE(errors_.empty()) << where << ": " << errors_.front();
    errors_.clear();
  }

  void LookAtAll(const std::string& what) {
    for (const Panel panel : kPanels) {
      Press(KeyOf(panel));
      Frames(4);
      const std::string name(PanelName(panel));
      ExpectReadable(what + ", " + name);
      Press(ImGuiKey_Z);
      Frames(4);
      ExpectReadable(what + ", " + name + " alone");
      Press(ImGuiKey_Z);
    }
  }
};

// Parametrised by the scenario.
class TextTest : public ReadableTest, public testing::WithParamInterface<std::string> {};

TEST_P(TextTest, EveryPanelCanBeReadAt1280x720) {
  Open(8, GetParam());
  LookAtAll("nothing selected");
}

TEST_P(TextTest, TheDetailsOfANodeCanBeRead) {
  Open(200, GetParam(), nullptr, "worker:3");
  LookAtAll("worker:3");
}

TEST_P(TextTest, TwoBesideEachOtherCanBeRead) {
  Open(8, GetParam());
  Open(200, "", nullptr, "worker:3");
  Press(ImGuiKey_C);
  ASSERT_TRUE(shell_->comparing());
  for (const Panel panel : kPanels) {
    Press(KeyOf(panel));
    Frames(4);
    ExpectReadable("beside another one, " + std::string(PanelName(panel)));
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, TextTest, testing::ValuesIn(DemoScenarios()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// A cluster that nothing comes from.
class TroubledSource : public UpdateSource {
 public:
  explicit TroubledSource(LinkState link) : link_(std::move(link)) {}
  [[nodiscard]] std::string title() const override { return "4538179c3d1942e4 at 10.0.0.5:41233"; }
  void Poll(absl::Time now, size_t, std::vector<SourceUpdate>* updates) override {
    if (std::exchange(told_, true)) return;
    SourceUpdate& update = updates->emplace_back();
    update.arrived = now;
    update.link = link_;
  }

 private:
  const LinkState link_;
  bool told_ = false;
};

TEST_F(ReadableTest, WhatIsWrongWithAConnectionStandsInTheWindow) {
  struct Trouble {
    LinkState::Kind kind;
    std::string reason;
  };
  for (const Trouble& trouble : {
           Trouble{LinkState::Kind::kConnecting,
                   "10.0.0.5:41233 does not answer: connection refused"},
           Trouble{LinkState::Kind::kRefused, "the token is not known to this cluster"},
           Trouble{
               LinkState::Kind::kRefused,
               "what listens on 10.0.0.5:41233 does not have the certificate of this cluster: "
               "the cluster has "
               "ended and another one took its port, or the address is wrong, or a certificate has "
               "expired; this line is as long as no other and goes on beyond the edge of the "
               "window"},
           Trouble{LinkState::Kind::kRefused,
                   "the coordinator is of another version: it knows no Watch"},
           Trouble{LinkState::Kind::kLost, "the cluster is gone: its driver has ended"},
           Trouble{LinkState::Kind::kEnded,
                   "run.mrec is damaged at byte 4096; it plays up to there"},
       }) {
    LinkState link;
    link.kind = trouble.kind;
    link.reason = trouble.reason;
    Open(std::make_unique<TroubledSource>(link));
    const std::string said = absl::StrReplaceAll(trouble.reason, {{" ", ""}});
    EXPECT_THAT(VisibleLetters(), HasSubstr(said));
    LookAtAll(trouble.reason);
    Close();
  }
}

// The audit finds what it is there for.
class TextAuditTest : public ShellTest {
 protected:
  std::vector<std::string> Audit(void (*draw)()) {
    for (int i = 0; i < 3; ++i) {
      ImGui::GetIO().DeltaTime = 1.0F / 60;
      ImGui::NewFrame();
      ImGui::SetNextWindowPos(ImVec2(10, 10));
      ImGui::SetNextWindowSize(ImVec2(300, 200));
      ImGui::Begin("###w", nullptr,
                   ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
      draw();
      ImGui::End();
      ImGui::Render();
      for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
        if (texture->Status != ImTextureStatus_OK) texture->SetTexID(1);
        texture->SetStatus(ImTextureStatus_OK);
      }
    }
    return FindUnreadableText();
  }
};

constexpr const char* kLong =
    "A sentence that is much too long for so small a window as this one is.";

TEST_F(TextAuditTest, FindsNothingInATextThatFits) {
  EXPECT_THAT(Audit([] { ImGui::TextUnformatted("It fits."); }), IsEmpty());
}

TEST_F(TextAuditTest, FindsALineThatIsTooLong) {
  EXPECT_THAT(absl::StrJoin(Audit([] { ImGui::TextUnformatted(kLong); }), "\n"),
              testing::AllOf(HasSubstr("cut at"), HasSubstr("wider")));
}

TEST_F(TextAuditTest, FindsWhatIsTrimmedOnTheCpu) {
  EXPECT_THAT(absl::StrJoin(Audit([] {
                              const ImVec4 clip(20, 20, 100, 60);
                              ImGui::GetWindowDrawList()->AddText(nullptr, 0, ImVec2(25, 30), ~0U,
                                                                  kLong, nullptr, 0, &clip);
                            }),
                            "\n"),
              HasSubstr("cut at"));
}

TEST_F(TextAuditTest, FindsTextUponText) {
  EXPECT_THAT(absl::StrJoin(Audit([] {
                              ImGui::TextUnformatted("Mountains");
                              ImGui::SameLine(20);
                              ImGui::TextUnformatted("Windows");
                            }),
                            "\n"),
              HasSubstr("text upon text"));
}

TEST_F(TextAuditTest, FindsAColumnThatIsTooNarrowAndLinesBelowTheWindow) {
  EXPECT_THAT(absl::StrJoin(Audit([] {
                              if (ImGui::BeginTable("t", 2)) {
                                ImGui::TableSetupColumn("a", ImGuiTableColumnFlags_WidthFixed, 40);
                                ImGui::TableNextColumn();
                                ImGui::TextUnformatted("Mountains");
                                ImGui::TableNextColumn();
                                ImGui::TextUnformatted("!");
                                ImGui::EndTable();
                              }
                              ImGui::Dummy(ImVec2(10, 400));
                            }),
                            "\n"),
              testing::AllOf(HasSubstr("column \"a\""), HasSubstr("higher")));
}

}  // namespace
}  // namespace millrace::dashboard
