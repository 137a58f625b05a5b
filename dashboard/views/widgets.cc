#include "dashboard/views/widgets.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "dashboard/model/history.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kMaxShownChars = 2000;

void Unformatted(absl::string_view text, ImU32 color) {
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopStyleColor();
}

ImVec2 SizeOf(absl::string_view text) {
  return ImGui::CalcTextSize(text.data(), text.data() + text.size());
}

int GrowString(ImGuiInputTextCallbackData* data) {
  if (data->EventFlag == ImGuiInputTextFlags_CallbackResize) {
    auto* text = static_cast<std::string*>(data->UserData);
    text->resize(static_cast<size_t>(data->BufTextLen));
    data->Buf = text->data();
  }
  return 0;
}

}  // namespace

void Heading(const Theme& theme, absl::string_view text) {
  ImGui::PushFont(theme.fonts.strong, kSmallSize);
  Unformatted(text, theme.dim);
  ImGui::PopFont();
}

void Text(const Theme&, absl::string_view text, ImU32 color) { Unformatted(text, color); }

void Mono(const Theme& theme, absl::string_view text, ImU32 color) {
  ImGui::PushFont(theme.fonts.mono, kMonoSize);
  Unformatted(text, color);
  ImGui::PopFont();
}

void MonoRight(const Theme& theme, absl::string_view text, ImU32 color) {
  ImGui::PushFont(theme.fonts.mono, kMonoSize);
  const float room = ImGui::GetContentRegionAvail().x - SizeOf(text).x;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  Unformatted(text, color);
  ImGui::PopFont();
}

void SmallText(const Theme& theme, absl::string_view text, ImU32 color) {
  ImGui::PushFont(theme.fonts.text, kSmallSize);
  Unformatted(text, color);
  ImGui::PopFont();
}

void DrawShortened(ImDrawList* list, ImVec2 at, float right, absl::string_view text, ImU32 color) {
  // More than fits on any screen is not measured.
  text = text.substr(0, kMaxShownChars);
  const ImVec2 size = SizeOf(text);
  if (at.x + size.x <= right) {
    list->AddText(at, color, text.data(), text.data() + text.size());
    return;
  }
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::RenderTextEllipsis(list, at, ImVec2(right, at.y + size.y), right, text.data(),
                            text.data() + text.size(), &size);
  ImGui::PopStyleColor();
}

void ShortenedText(absl::string_view text, ImU32 color, bool tip) {
  if (ImGui::GetCurrentWindow()->SkipItems) return;  // a column that is left out
  const float room = std::max(1.0F, ImGui::GetContentRegionAvail().x);
  const ImVec2 size = SizeOf(text.substr(0, kMaxShownChars));
  if (size.x <= room) {
    Unformatted(text, color);
    return;
  }
  const ImVec2 at(
      ImGui::GetCursorScreenPos().x,
      ImGui::GetCursorScreenPos().y + ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset);
  DrawShortened(ImGui::GetWindowDrawList(), at, at.x + room, text, color);
  ImGui::Dummy(ImVec2(room, size.y));
  if (tip) Tip(text);
}

std::string WithUnitsKept(absl::string_view text) {
  constexpr absl::string_view kUnits[] = {"ms",  "s",      "min",  "h",    "d",    "µs",   "°C",
                                          "W",   "MHz",    "B",    "kB",   "MB",   "GB",   "KiB",
                                          "MiB", "GiB",    "B/s",  "kB/s", "MB/s", "GB/s", "k",
                                          "M",   "rows/s", "GPUs", "slots"};
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' && i > 0 && absl::ascii_isdigit(static_cast<unsigned char>(text[i - 1]))) {
      absl::string_view word = text.substr(i + 1);
      word = word.substr(0, word.find_first_of(" ,;:)'\n"));
      if (absl::EndsWith(word, ".")) word.remove_suffix(1);
      if (std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits)) {
        kept += "\u00a0";
        continue;
      }
    }
    kept.push_back(text[i]);
  }
  return kept;
}

void WrappedText(absl::string_view text, ImU32 color) {
  ImGui::PushTextWrapPos(0.0F);
  Unformatted(WithUnitsKept(text), color);
  ImGui::PopTextWrapPos();
}

bool BeginFacts(const char* id, float name_px, float scale) {
  if (!ImGui::BeginTable(id, 2, ImGuiTableFlags_SizingFixedFit)) return false;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, name_px * scale);
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
  return true;
}

void Fact(const Theme& theme, const char* name, absl::string_view value) {
  Fact(theme, name, value, theme.text);
}

void Fact(const Theme& theme, const char* name, absl::string_view value, ImU32 color) {
  if (value.empty()) return;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  Unformatted(name, theme.dim);
  ImGui::TableNextColumn();
  ImGui::PushFont(theme.fonts.mono, kMonoSize);
  WrappedText(value, color);
  ImGui::PopFont();
}

void EndFacts() { ImGui::EndTable(); }

void StateShape(ImDrawList* list, ImVec2 center, float radius, const Theme& theme,
                v1::SlotState state) {
  const ImU32 color = StateColor(theme, state);
  switch (state) {
    case v1::SLOT_STATE_FAILED:
    case v1::SLOT_STATE_LOST:
      list->AddNgonFilled(center, radius * 1.25F, color, 4);
      break;
    case v1::SLOT_STATE_READY:
    case v1::SLOT_STATE_RUNNING:
    case v1::SLOT_STATE_DRAINING:
      list->AddCircleFilled(center, radius, color);
      break;
    case v1::SLOT_STATE_FINISHED:
      list->AddCircle(center, radius - 0.5F, color, 0, 2);
      break;
    default:
      list->AddRectFilled(ImVec2(center.x - radius * 0.85F, center.y - radius * 0.85F),
                          ImVec2(center.x + radius * 0.85F, center.y + radius * 0.85F), color);
  }
}

void StateBadge(const Theme& theme, v1::SlotState state, absl::string_view text) {
  if (ImGui::GetCurrentWindow()->SkipItems) return;
  const float height = ImGui::GetTextLineHeight();
  // On the line of a text that is aligned with a button.
  const ImVec2 at(
      ImGui::GetCursorScreenPos().x,
      ImGui::GetCursorScreenPos().y + ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset);
  const float radius = height * 0.27F;
  StateShape(ImGui::GetWindowDrawList(), ImVec2(at.x + radius + 1, at.y + height * 0.54F), radius,
             theme, state);
  ImGui::Dummy(ImVec2(radius * 2 + 4, height));
  ImGui::SameLine(0, 4);
  Unformatted(text, theme.text);
}

void StackedBar(const Theme& theme, ImVec2 size, float total, std::span<const BarPart> parts) {
  if (ImGui::GetCurrentWindow()->SkipItems) return;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 end(at.x + size.x, at.y + size.y);
  list->AddRectFilled(at, end, theme.raised, 2);
  float x = at.x;
  if (total > 0) {
    for (const BarPart& part : parts) {
      if (!Known(part.value) || part.value <= 0) continue;
      const float next = std::min(end.x, x + size.x * part.value / total);
      list->AddRectFilled(ImVec2(x, at.y), ImVec2(next, end.y), part.color);
      x = next;
    }
  }
  ImGui::Dummy(size);
}

void MeterBar(const Theme& theme, ImVec2 size, float value, ImU32 color) {
  if (ImGui::GetCurrentWindow()->SkipItems) return;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 end(at.x + size.x, at.y + size.y);
  list->AddRectFilled(at, end, theme.raised, 2);
  if (!Known(value)) {
    Hatch(list, at, end, theme.unknown);
  } else if (value > 0) {
    list->AddRectFilled(at, ImVec2(at.x + size.x * std::min(value, 1.0F), end.y), color, 2);
  }
  ImGui::Dummy(size);
}

void Hatch(ImDrawList* list, ImVec2 min, ImVec2 max, ImU32 color) {
  const float height = max.y - min.y;
  list->PushClipRect(min, max, true);
  for (float x = min.x - height; x < max.x; x += 5) {
    list->AddLine(ImVec2(x, max.y), ImVec2(x + height, min.y), color, 1);
  }
  list->PopClipRect();
}

void LegendEntry(const Theme& theme, ImU32 color, absl::string_view text) {
  const float px = ImGui::GetStyle().FontScaleDpi;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddRectFilled(ImVec2(at.x, at.y + 7 * px),
                                            ImVec2(at.x + 9 * px, at.y + 16 * px), color, 2 * px);
  ImGui::Dummy(ImVec2(11 * px, 1));
  ImGui::SameLine(0, 4 * px);
  ImGui::AlignTextToFramePadding();
  SmallText(theme, text, theme.dim);
}

void EmptyState(const Theme& theme, const char* icon, absl::string_view title,
                absl::string_view text) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const ImVec2 start = ImGui::GetCursorPos();
  const auto centered = [&](absl::string_view what, ImU32 color, float y) {
    const float width = std::min(SizeOf(what).x, room.x);
    ImGui::SetCursorPos(ImVec2(start.x + (room.x - width) / 2, y));
    WrappedText(what, color);
  };
  float y = start.y + std::max(0.0F, room.y / 2 - line * 2);
  ImGui::PushFont(theme.fonts.text, 26);
  centered(icon, theme.unknown, y);
  y = ImGui::GetCursorPosY() + 4;
  ImGui::PopFont();
  ImGui::PushFont(theme.fonts.strong, kTextSize);
  centered(title, theme.text, y);
  ImGui::PopFont();
  centered(text, theme.dim, ImGui::GetCursorPosY());
}

bool BeginTip() {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_DelayNormal))
    return false;
  if (!ImGui::BeginTooltip()) return false;
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 32);
  return true;
}

void EndTip() {
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void Tip(absl::string_view text) {
  if (text.empty() || !BeginTip()) return;
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  EndTip();
}

bool IconButton(const Theme& theme, const char* icon, const char* what) {
  ImGui::PushID(what);
  ImGui::PushStyleColor(ImGuiCol_Button, ImVec4(0, 0, 0, 0));
  ImGui::PushStyleColor(ImGuiCol_Text, theme.dim);
  const bool pressed = ImGui::Button(icon);
  ImGui::PopStyleColor(2);
  ImGui::PopID();
  Tip(what);
  return pressed;
}

bool Choice(const Theme& theme, const char* id, std::span<const char* const> names, int* chosen) {
  bool changed = false;
  ImGui::PushID(id);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(2, 0));
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_it = *chosen == static_cast<int>(i);
    if (i > 0) ImGui::SameLine();
    ImGui::PushStyleColor(ImGuiCol_Button,
                          is_it ? Fade(theme.accent, 0.22F) : Fade(theme.raised, 0.6F));
    ImGui::PushStyleColor(ImGuiCol_Text, is_it ? theme.text : theme.dim);
    if (ImGui::Button(names[i]) && !is_it) {
      *chosen = static_cast<int>(i);
      changed = true;
    }
    ImGui::PopStyleColor(2);
  }
  ImGui::PopStyleVar();
  ImGui::PopID();
  return changed;
}

bool SpanChoice(const Theme& theme, absl::Duration* span) {
  static constexpr absl::Duration kSpans[] = {absl::Minutes(1), absl::Minutes(5), absl::Minutes(15),
                                              absl::Hours(1)};
  static constexpr const char* kNames[] = {"1 m", "5 m", "15 m", "1 h"};
  int chosen = 3;
  for (int i = 3; i >= 0; --i) {
    if (*span <= kSpans[i]) chosen = i;
  }
  if (!Choice(theme, "span", kNames, &chosen)) return false;
  *span = kSpans[chosen];
  return true;
}

bool SpeedChoice(const Theme& theme, double* speed) {
  static constexpr const char* kSpeeds[] = {"1x", "4x", "16x", "64x"};
  static constexpr double kFactors[] = {1, 4, 16, 64};
  int chosen = 0;
  for (int i = 0; i < 4; ++i) {
    if (*speed >= kFactors[i]) chosen = i;
  }
  if (!Choice(theme, "speed", kSpeeds, &chosen)) return false;
  *speed = kFactors[chosen];
  return true;
}

bool FilterField(const Theme& theme, const char* id, const char* hint, bool focus, float width_px,
                 float scale, std::string* text) {
  ImGui::AlignTextToFramePadding();
  Unformatted(icon::kSearch, theme.dim);
  ImGui::SameLine();
  ImGui::SetNextItemWidth(width_px * scale);
  if (focus) ImGui::SetKeyboardFocusHere();
  return ImGui::InputTextWithHint(
      id, hint, text->data(), text->capacity() + 1,
      ImGuiInputTextFlags_CallbackResize | ImGuiInputTextFlags_EscapeClearsAll, GrowString, text);
}

CsvTable::CsvTable(std::initializer_list<absl::string_view> columns) {
  for (const absl::string_view column : columns) Cell(column);
  EndRow();
}

void CsvTable::Separate() {
  if (row_begun_) text_.push_back(',');
  row_begun_ = true;
}

void CsvTable::Cell(absl::string_view text) {
  Separate();
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) {
    absl::StrAppend(&text_, text);
  } else {
    absl::StrAppend(&text_, "\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
  }
}

void CsvTable::Cell(double number) {
  Separate();
  if (std::isfinite(number)) absl::StrAppendFormat(&text_, "%.9g", number);
}

void CsvTable::Cell(int64_t number) {
  Separate();
  absl::StrAppend(&text_, number);
}

void CsvTable::EndRow() {
  text_.push_back('\n');
  row_begun_ = false;
}

}  // namespace millrace::dashboard
