// What a Shell says to people who look for help: the keys, and what to do where there is no
// cluster.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dashboard/app/shell.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr const char* kKeyHelp[][2] = {
    {"1 to 9, 0", "show a panel: the tabs in order, then timeline, details, verdict"},
    {"Ctrl+P", "find a panel, node or action by name"},
    {"/", "filter of the panel in front"},
    {"Space", "pause, and go on"},
    {"Esc", "back to the live view, then nothing selected"},
    {",  .", "earlier, later: the span of time, or the place in a recording"},
    {"-  =", "more time, less time"},
    {"Z", "the panel in front alone, and back"},
    {"C", "the panel in front of two clusters beside each other, and back"},
    {"T", "dark, light, colour-blind"},
    {"drag", "over any plot: that span of time in all panels"},
    {"Ctrl+wheel", "over a plot: more or less time"},
    {"Ctrl+=  Ctrl+-", "larger, smaller; Ctrl+0 as it was"},
    {"Shift+drag", "moves a tab to another place"},
    {"Ctrl+Q", "end"},
};

// What to type for something to look at.
constexpr const char* kWelcome[][2] = {
    {"START ONE", "millrace run -n 4 -- python3 train.py"},
    {"AN EXAMPLE THAT TRAINS FOR A WHILE",
     "./bazelw run -c opt //examples/digits -- --epochs 1000"},
    {"A SIMULATED ONE, FOR A LOOK AROUND", "./bazelw run -c opt //:dashboard -- --demo 200"},
    {"ONE THAT RUNS ELSEWHERE",
     "millrace-dashboard --connect HOST:PORT --token-file TOKEN --ca CA.pem --identity ID.pem"},
    {"WHAT WAS RECORDED", "millrace-dashboard --replay FILE"},
};

}  // namespace

void Shell::DrawKeys() {
  if (!show_keys_) return;
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport->GetCenter(), ImGuiCond_Always, ImVec2(0.5F, 0.5F));
  ImGui::SetNextWindowFocus();
  if (ImGui::Begin("###keys", nullptr,
                   ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                       ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoSavedSettings)) {
    Heading(theme_, "KEYS");
    for (const auto& [key, what] : kKeyHelp) {
      Mono(theme_, key, theme_.accent);
      ImGui::SameLine(150 * Scale());
      Text(theme_, what, theme_.text);
    }
  }
  ImGui::End();
}

void Shell::DrawWelcome() {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float scale = Scale();
  ImGui::SetNextWindowPos(viewport->Pos);
  ImGui::SetNextWindowSize(viewport->Size);
  if (ImGui::Begin("###welcome", nullptr,
                   ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                       ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                       ImGuiWindowFlags_NoBringToFrontOnFocus)) {
    const float width = std::min(700 * scale, viewport->Size.x - 40 * scale);
    const float left = (viewport->Size.x - width) / 2;
    ImGui::SetCursorPos(ImVec2(left, std::max(16 * scale, viewport->Size.y / 2 - 190 * scale)));
    ImGui::BeginChild("###page", ImVec2(width, 0));
    ImGui::PushFont(theme_.fonts.strong, 24);
    Text(theme_, "No cluster of yours runs on this host", theme_.text);
    ImGui::PopFont();
    WrappedText(
        "The first one that starts is shown here by itself, and each that starts after it joins "
        "the list at the left.",
        theme_.dim);
    if (!trouble_.empty()) {
      ImGui::Spacing();
      WrappedText(absl::StrCat(MoodIcon(Mood::kWarning), "  ", trouble_), theme_.caution);
    }
    ImGui::Dummy(ImVec2(0, 8 * scale));
    for (const auto& [what, command] : kWelcome) {
      ImGui::Spacing();
      Heading(theme_, what);
      ImGui::PushID(command);
      ImGui::PushFont(theme_.fonts.mono, kMonoSize);
      ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, ImVec2(0, 0.5F));
      if (ImGui::Button(command, ImVec2(width, 28 * scale))) {
        host_->Copy(command);
        Notify("Copied", Mood::kGood);
      }
      ImGui::PopStyleVar();
      ImGui::PopFont();
      Tip("Click copies it");
      ImGui::PopID();
    }
    ImGui::Dummy(ImVec2(0, 8 * scale));
    SmallText(theme_, "T  another theme     F1  all keys     Ctrl+Q  end", theme_.dim);
    ImGui::EndChild();
  }
  ImGui::End();
}

}  // namespace millrace::dashboard
