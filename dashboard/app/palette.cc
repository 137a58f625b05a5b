#include "dashboard/app/palette.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kShown = 14;

}  // namespace

int FuzzyScore(absl::string_view query, absl::string_view text) {
  int score = 0;
  size_t at = 0;
  bool together = true;
  for (const char wanted : query) {
    if (wanted == ' ') continue;
    const size_t before = at;
    while (at < text.size() && absl::ascii_tolower(text[at]) != absl::ascii_tolower(wanted)) ++at;
    if (at == text.size()) return -1;
    together = together && at == before;
    const bool begins_word = at == 0 || !absl::ascii_isalnum(text[at - 1]);
    score += (at == before ? 8 : 1) + (begins_word ? 6 : 0);
    ++at;
  }
  // The whole text is better than its beginning, and a short one better than a long one.
  return score * 4 + (together ? 24 : 0) + (at == text.size() ? 8 : 0) -
         static_cast<int>(std::min<size_t>(text.size(), 40)) / 4 + 16;
}

void Palette::Open() {
  open_ = appearing_ = dirty_ = true;
  query_.clear();
  chosen_ = 0;
}

void Palette::Draw(const Theme& theme, float scale,
                   absl::FunctionRef<std::vector<PaletteItem>(const std::string& query)> items) {
  if (!open_) return;
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const float width = std::min(620 * scale, viewport->Size.x - 40 * scale);
  ImGui::SetNextWindowPos(
      ImVec2(viewport->Pos.x + (viewport->Size.x - width) / 2, viewport->Pos.y + 70 * scale));
  ImGui::SetNextWindowSize(ImVec2(width, 0));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 6 * scale);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                      ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoNav;
  if (appearing_) ImGui::SetNextWindowFocus();
  bool run = false;
  if (ImGui::Begin("palette", nullptr, kFlags)) {
    if (FilterField(theme, "##query", "panel, node or action", appearing_, width / scale - 60,
                    scale, &query_)) {
      dirty_ = true;
      chosen_ = 0;
    }
    if (dirty_) {
      dirty_ = false;
      std::vector<std::pair<int, PaletteItem>> scored;
      for (PaletteItem& item : items(query_)) {
        if (const int score = FuzzyScore(query_, item.text); score >= 0)
          scored.emplace_back(score, std::move(item));
      }
      std::stable_sort(scored.begin(), scored.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      matches_.clear();
      for (auto& [score, item] : scored) {
        if (matches_.size() < kShown) matches_.push_back(std::move(item));
      }
    }
    const int count = static_cast<int>(matches_.size());
    if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) chosen_ = std::min(chosen_ + 1, count - 1);
    if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) chosen_ = std::max(chosen_ - 1, 0);
    if (ImGui::IsKeyPressed(ImGuiKey_Enter) || ImGui::IsKeyPressed(ImGuiKey_KeypadEnter))
      run = chosen_ < count;
    for (int i = 0; i < count; ++i) {
      const PaletteItem& item = matches_[static_cast<size_t>(i)];
      ImGui::PushID(i);
      if (ImGui::Selectable("##item", i == chosen_)) {
        chosen_ = i;
        run = true;
      }
      ImGui::SameLine(0, 0);
      Text(theme, item.text, theme.text);
      ImGui::SameLine();
      MonoRight(theme, item.hint, theme.dim);
      ImGui::PopID();
    }
    if (count == 0) Text(theme, "Nothing matches.", theme.dim);
    const bool lost = !appearing_ && !ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows);
    if (ImGui::IsKeyPressed(ImGuiKey_Escape) || lost) open_ = false;
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
  appearing_ = false;
  if (run) {
    open_ = false;
    matches_[static_cast<size_t>(chosen_)].run();
  }
}

}  // namespace millrace::dashboard
