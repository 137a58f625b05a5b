#include "dashboard/app/text_audit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "imgui.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

// The edges of a letter's ink are blurred by about this much.
constexpr float kSlack = 1.0F;
// Letters that share more than this in both directions cannot be told apart.
constexpr float kOverlap = 2.0F;
constexpr float kGrid = 24;

struct Letter {
  ImRect rect;
  ImRect clip;
  unsigned codepoint = 0;
  bool trimmed_sideways = false;  // on the CPU
  bool trimmed_upright = false;
};

struct Uv {
  float u0, v0, u1, v1;
  unsigned codepoint;
};

class GlyphTable {
 public:
  GlyphTable() {
    ImFontAtlasBuilder* builder = ImGui::GetIO().Fonts->Builder;
    for (int i = 0; i < builder->BakedPool.Size; ++i) {
      for (const ImFontGlyph& glyph : builder->BakedPool[i].Glyphs) {
        if (!glyph.Visible) continue;
        const Uv uv{glyph.U0, glyph.V0, glyph.U1, glyph.V1, glyph.Codepoint};
        by_corner_[Key(uv.u0, uv.v0)] = uv;
        all_.push_back(uv);
      }
    }
  }

  // The glyph that these coordinates show, and whether all of it.
  [[nodiscard]] const Uv* Find(float u0, float v0, float u1, float v1, bool* whole) const {
    if (const auto found = by_corner_.find(Key(u0, v0));
        found != by_corner_.end() && found->second.u1 == u1 && found->second.v1 == v1) {
      *whole = true;
      return &found->second;
    }
    *whole = false;
    for (const Uv& uv : all_) {
      if (u0 >= uv.u0 && v0 >= uv.v0 && u1 <= uv.u1 && v1 <= uv.v1) return &uv;
    }
    return nullptr;
  }

 private:
  static uint64_t Key(float u, float v) {
    uint32_t a = 0;
    uint32_t b = 0;
    std::memcpy(&a, &u, sizeof a);
    std::memcpy(&b, &v, sizeof b);
    return uint64_t{a} << 32 | b;
  }
  std::unordered_map<uint64_t, Uv> by_corner_;
  std::vector<Uv> all_;
};

std::vector<Letter> LettersOf(const ImDrawList& list, const GlyphTable& glyphs) {
  std::vector<Letter> letters;
  const ImTextureData* atlas = ImGui::GetIO().Fonts->TexData;
  for (const ImDrawCmd& command : list.CmdBuffer) {
    if (command.UserCallback != nullptr || command.TexRef._TexData != atlas) continue;
    const ImRect clip(command.ClipRect.x, command.ClipRect.y, command.ClipRect.z,
                      command.ClipRect.w);
    const ImDrawIdx* index = list.IdxBuffer.Data + command.IdxOffset;
    const ImDrawVert* vertices = list.VtxBuffer.Data + command.VtxOffset;
    for (unsigned i = 0; i + 6 <= command.ElemCount;) {
      // A rectangle: 0 1 2, 0 2 3.
      const ImDrawIdx first = index[i];
      const bool quad = index[i + 1] == first + 1 && index[i + 2] == first + 2 &&
                        index[i + 3] == first && index[i + 4] == first + 2 &&
                        index[i + 5] == first + 3;
      if (!quad) {
        i += 3;
        continue;
      }
      i += 6;
      const ImDrawVert& a = vertices[first];
      const ImDrawVert& b = vertices[first + 2];
      if (a.uv.x >= b.uv.x || a.uv.y >= b.uv.y) continue;  // a plain colour, or a line
      if ((a.col & IM_COL32_A_MASK) == 0) continue;
      bool whole = false;
      const Uv* glyph = glyphs.Find(a.uv.x, a.uv.y, b.uv.x, b.uv.y, &whole);
      if (glyph == nullptr) continue;
      // What the CPU took away, in pixels of the letter as it is drawn.
      const float lost_x = (b.pos.x - a.pos.x) * ((glyph->u1 - glyph->u0) / (b.uv.x - a.uv.x) - 1);
      const float lost_y = (b.pos.y - a.pos.y) * ((glyph->v1 - glyph->v0) / (b.uv.y - a.uv.y) - 1);
      letters.push_back({ImRect(a.pos, b.pos), clip, glyph->codepoint, !whole && lost_x > kSlack,
                         !whole && lost_y > kSlack});
    }
  }
  return letters;
}

// The letters drawn around one of them, which is in brackets.
std::string Around(const std::vector<Letter>& letters, size_t place) {
  std::string text;
  const size_t begin = place < 24 ? 0 : place - 24;
  for (size_t i = begin; i < letters.size() && i < place + 12; ++i) {
    if (std::fabs(letters[i].rect.Min.y - letters[place].rect.Min.y) > 14) continue;
    char utf8[5];
    ImTextCharToUtf8(utf8, letters[i].codepoint);
    absl::StrAppend(&text, i == place ? "[" : "", utf8, i == place ? "]" : "");
  }
  return text;
}

bool ScrollsDown(const ImGuiWindow* window) {
  for (; window != nullptr; window = window->ParentWindow) {
    if (window->ScrollMax.y > 0 &&
        (window->Flags & (ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse)) == 0)
      return true;
  }
  return false;
}

std::string NameOf(const ImGuiWindow& window) {
  absl::string_view name(window.Name);
  return std::string(
      absl::StripPrefix(name.substr(std::min(name.find("###"), name.size())), "###"));
}

void FindCut(const std::string& window, bool scrolls_down, const std::vector<Letter>& letters,
             std::vector<std::string>* found) {
  std::set<int> told;  // one finding for each line
  for (size_t i = 0; i < letters.size(); ++i) {
    const Letter& letter = letters[i];
    const bool sideways = letter.trimmed_sideways ||
                          letter.rect.Min.x < letter.clip.Min.x - kSlack ||
                          letter.rect.Max.x > letter.clip.Max.x + kSlack;
    const bool upright = letter.trimmed_upright || letter.rect.Min.y < letter.clip.Min.y - kSlack ||
                         letter.rect.Max.y > letter.clip.Max.y + kSlack;
    if (!sideways && (!upright || scrolls_down)) continue;
    if (!told.insert(static_cast<int>(letter.rect.Min.y) / 4).second) continue;
    found->push_back(absl::StrFormat("%s: cut at %.0f,%.0f: %s", window, letter.rect.Min.x,
                                     letter.rect.Min.y, Around(letters, i)));
  }
}

void FindOverlaps(const std::string& window, const std::vector<Letter>& letters,
                  std::vector<std::string>* found) {
  std::map<std::pair<int, int>, std::vector<size_t>> cells;
  std::set<int> told;
  for (size_t i = 0; i < letters.size(); ++i) {
    ImRect seen = letters[i].rect;
    seen.ClipWithFull(letters[i].clip);
    if (seen.GetWidth() <= kOverlap || seen.GetHeight() <= kOverlap) continue;
    for (int y = static_cast<int>(seen.Min.y / kGrid); y <= static_cast<int>(seen.Max.y / kGrid);
         ++y) {
      for (int x = static_cast<int>(seen.Min.x / kGrid); x <= static_cast<int>(seen.Max.x / kGrid);
           ++x) {
        std::vector<size_t>& cell = cells[{x, y}];
        for (const size_t other : cell) {
          ImRect both = seen;
          both.ClipWithFull(letters[other].rect);
          both.ClipWithFull(letters[other].clip);
          if (both.GetWidth() <= kOverlap || both.GetHeight() <= kOverlap) continue;
          if (!told.insert(static_cast<int>(seen.Min.y) / 4).second) continue;
          found->push_back(absl::StrFormat("%s: text upon text at %.0f,%.0f: %s and %s", window,
                                           both.Min.x, both.Min.y, Around(letters, other),
                                           Around(letters, i)));
        }
        cell.push_back(i);
      }
    }
  }
}

void FindOverflows(std::vector<std::string>* found) {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  for (const ImGuiWindow* window : g.Windows) {
    if (!window->Active || window->Hidden || window->SkipItems) continue;
    const ImGuiWindowFlags flags = window->Flags;
    if ((flags & ImGuiWindowFlags_DockNodeHost) != 0) continue;  // what is in it is a window too
    const bool down =
        (flags & (ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse)) == 0;
    if (window->ScrollMax.x > kSlack) {
      found->push_back(absl::StrFormat("%s: its content is %.0f px wider than it", NameOf(*window),
                                       window->ScrollMax.x));
    }
    if (window->ScrollMax.y > kSlack && !down) {
      found->push_back(absl::StrFormat("%s: its content is %.0f px higher than it", NameOf(*window),
                                       window->ScrollMax.y));
    }
  }
  for (int i = 0; i < g.Tables.GetMapSize(); ++i) {
    const ImGuiTable* table = const_cast<ImGuiContext&>(g).Tables.TryGetMapData(i);
    if (table == nullptr || table->LastFrameActive != g.FrameCount) continue;
    if (table->OuterWindow == nullptr || table->OuterWindow->Hidden) continue;
    for (int column = 0; column < table->ColumnsCount; ++column) {
      const ImGuiTableColumn& state = table->Columns[column];
      if (!state.IsVisibleX) continue;
      const float beyond =
          std::max(state.ContentMaxXFrozen, state.ContentMaxXUnfrozen) - state.WorkMaxX;
      if (beyond <= kSlack) continue;
      const char* name = ImGui::TableGetColumnName(table, column);
      found->push_back(absl::StrFormat("%s: column \"%s\" has %.0f px too little",
                                       NameOf(*table->OuterWindow), name, beyond));
    }
  }
  for (int i = 0; i < g.TabBars.GetMapSize(); ++i) {
    ImGuiTabBar* bar = const_cast<ImGuiContext&>(g).TabBars.TryGetMapData(i);
    if (bar == nullptr || bar->CurrFrameVisible < g.FrameCount - 1) continue;
    for (ImGuiTabItem& tab : bar->Tabs) {
      if (tab.Width + kSlack < tab.ContentWidth)
        found->push_back(absl::StrFormat("tab \"%s\" has %.0f px too little",
                                         ImGui::TabBarGetTabName(bar, &tab),
                                         tab.ContentWidth - tab.Width));
    }
  }
}

}  // namespace

std::string VisibleLetters() {
  std::string text;
  const GlyphTable glyphs;
  for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
    for (const Letter& letter : LettersOf(*list, glyphs)) {
      char utf8[5];
      ImTextCharToUtf8(utf8, letter.codepoint);
      text += utf8;
    }
  }
  return text;
}

std::vector<std::string> FindUnreadableText() {
  std::vector<std::string> found;
  const GlyphTable glyphs;
  for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
    const ImGuiWindow* window =
        list->_OwnerName == nullptr ? nullptr : ImGui::FindWindowByName(list->_OwnerName);
    const std::string name = window == nullptr ? "overlay" : NameOf(*window);
    const std::vector<Letter> letters = LettersOf(*list, glyphs);
    FindCut(name, ScrollsDown(window), letters, &found);
    FindOverlaps(name, letters, &found);
  }
  FindOverflows(&found);
  return found;
}

}  // namespace millrace::dashboard
