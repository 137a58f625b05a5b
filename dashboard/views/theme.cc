#include "dashboard/views/theme.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "implot.h"

namespace millrace::dashboard {
namespace {

constexpr ImU32 Rgb(uint32_t rgb) {
  return IM_COL32((rgb >> 16) & 0xFF, (rgb >> 8) & 0xFF, rgb & 0xFF, 0xFF);
}

ImVec4 Vec(ImU32 color) { return ImGui::ColorConvertU32ToFloat4(color); }

ImU32 Mix(ImU32 a, ImU32 b, float share_of_b) {
  const ImVec4 x = Vec(a);
  const ImVec4 y = Vec(b);
  const auto mix = [&](float p, float q) { return p + (q - p) * share_of_b; };
  return ImGui::ColorConvertFloat4ToU32(
      ImVec4(mix(x.x, y.x), mix(x.y, y.y), mix(x.z, y.z), mix(x.w, y.w)));
}

void SetSeries(Theme* theme, std::array<uint32_t, 8> colors) {
  for (size_t i = 0; i < colors.size(); ++i) theme->series[i] = Rgb(colors[i]);
}

Theme Dark() {
  Theme theme;
  theme.background = Rgb(0x0f1216);
  theme.panel = Rgb(0x161a20);
  theme.raised = Rgb(0x1d232b);
  theme.line = Rgb(0x262c35);
  theme.text = Rgb(0xd7dde5);
  theme.dim = Rgb(0x8b95a3);
  theme.accent = Rgb(0x4cc2ff);
  theme.waiting = Rgb(0x6d7683);
  theme.joined = Rgb(0x4a86d8);
  theme.good = Rgb(0x3fb56b);
  theme.caution = Rgb(0xe2a33c);
  theme.finished = Rgb(0x3a6b4c);
  theme.bad = Rgb(0xe5534b);
  theme.unknown = Rgb(0x3a414c);
  theme.starved = Rgb(0x5b6ee1);
  theme.compute = Rgb(0x3fb56b);
  theme.decode = Rgb(0x2aa5a0);
  SetSeries(&theme,
            {0x4cc2ff, 0xf0a35e, 0x7ad17a, 0xd98cf0, 0xf2d35c, 0x5fd9c7, 0xff8f8f, 0xa8b3ff});
  return theme;
}

Theme Light() {
  Theme theme;
  theme.background = Rgb(0xe9ecf0);
  theme.panel = Rgb(0xfafbfc);
  theme.raised = Rgb(0xeff2f5);
  theme.line = Rgb(0xd3d9e0);
  theme.text = Rgb(0x1d2530);
  theme.dim = Rgb(0x5d6875);
  theme.accent = Rgb(0x0a7cc4);
  theme.waiting = Rgb(0x98a2ae);
  theme.joined = Rgb(0x3a73c4);
  theme.good = Rgb(0x2a9352);
  theme.caution = Rgb(0xc07f12);
  theme.finished = Rgb(0x9dc3aa);
  theme.bad = Rgb(0xcb3a32);
  theme.unknown = Rgb(0xc9d0d8);
  theme.starved = Rgb(0x4a5ad0);
  theme.compute = Rgb(0x2a9352);
  theme.decode = Rgb(0x178f8a);
  SetSeries(&theme,
            {0x0a7cc4, 0xc46a10, 0x2a9352, 0x9340b8, 0x8f7a00, 0x128a7c, 0xcb3a32, 0x4a5ad0});
  return theme;
}

// Okabe and Ito's colours, which differ for all common kinds of colour blindness.
Theme ColorBlind() {
  Theme theme = Dark();
  theme.waiting = Rgb(0x7a8390);
  theme.joined = Rgb(0x56b4e9);
  theme.good = Rgb(0x009e73);
  theme.caution = Rgb(0xf0e442);
  theme.finished = Rgb(0x2d6f5c);
  theme.bad = Rgb(0xd55e00);
  theme.starved = Rgb(0x0072b2);
  theme.compute = Rgb(0x009e73);
  theme.decode = Rgb(0xcc79a7);
  SetSeries(&theme,
            {0x56b4e9, 0xe69f00, 0x009e73, 0xcc79a7, 0xf0e442, 0x0072b2, 0xd55e00, 0xbfc7d1});
  return theme;
}

void SetPlotStyle(const Theme& theme, float scale) {
  ImPlotStyle& style = ImPlot::GetStyle();
  style = ImPlotStyle();
  style.PlotPadding = ImVec2(6 * scale, 8 * scale);  // half a line above the highest tick
  style.PlotMinSize = ImVec2(60 * scale, 48 * scale);
  style.LabelPadding = ImVec2(4 * scale, 2 * scale);
  style.LegendPadding = ImVec2(6 * scale, 4 * scale);
  style.MousePosPadding = ImVec2(6 * scale, 4 * scale);
  style.PlotBorderSize = 0;
  style.MinorAlpha = 0;
  style.MajorTickLen = ImVec2(0, 0);
  style.MinorTickLen = ImVec2(0, 0);
  style.Colors[ImPlotCol_FrameBg] = ImVec4(0, 0, 0, 0);
  style.Colors[ImPlotCol_PlotBg] = ImVec4(0, 0, 0, 0);
  style.Colors[ImPlotCol_PlotBorder] = Vec(theme.line);
  style.Colors[ImPlotCol_LegendBg] = Vec(Fade(theme.panel, 0.85F));
  style.Colors[ImPlotCol_LegendBorder] = ImVec4(0, 0, 0, 0);
  style.Colors[ImPlotCol_LegendText] = Vec(theme.dim);
  style.Colors[ImPlotCol_TitleText] = Vec(theme.text);
  style.Colors[ImPlotCol_InlayText] = Vec(theme.dim);
  style.Colors[ImPlotCol_AxisText] = Vec(theme.dim);
  style.Colors[ImPlotCol_AxisGrid] = Vec(theme.line);
  style.Colors[ImPlotCol_AxisBg] = ImVec4(0, 0, 0, 0);
  style.Colors[ImPlotCol_AxisBgHovered] = Vec(theme.raised);
  style.Colors[ImPlotCol_Selection] = Vec(theme.accent);
  style.Colors[ImPlotCol_Crosshairs] = Vec(Fade(theme.dim, 0.6F));
}

}  // namespace

absl::string_view ThemeName(ThemeKind kind) {
  switch (kind) {
    case ThemeKind::kDark:
      return "dark";
    case ThemeKind::kLight:
      return "light";
    case ThemeKind::kColorBlind:
      return "colour-blind";
  }
  return "dark";
}

std::optional<ThemeKind> ThemeFromName(absl::string_view name) {
  for (const ThemeKind kind : {ThemeKind::kDark, ThemeKind::kLight, ThemeKind::kColorBlind}) {
    if (ThemeName(kind) == name) return kind;
  }
  return std::nullopt;
}

Theme MakeTheme(ThemeKind kind, const Fonts& fonts) {
  Theme theme = kind == ThemeKind::kDark    ? Dark()
                : kind == ThemeKind::kLight ? Light()
                                            : ColorBlind();
  theme.kind = kind;
  theme.fonts = fonts;
  return theme;
}

Theme StaleTheme(const Theme& theme) {
  Theme stale = theme;
  const auto grey = [&](ImU32 color) {
    const ImVec4 from = Vec(color);
    const float light = 0.3F * from.x + 0.59F * from.y + 0.11F * from.z;
    return Mix(Mix(color, ImGui::ColorConvertFloat4ToU32(ImVec4(light, light, light, 1)), 0.85F),
               theme.panel, 0.35F);
  };
  for (ImU32* color : {&stale.waiting, &stale.joined, &stale.good, &stale.finished, &stale.starved,
                       &stale.compute, &stale.decode}) {
    *color = grey(*color);
  }
  for (ImU32& color : stale.series) color = grey(color);
  stale.stale = true;
  return stale;
}

void ApplyTheme(const Theme& theme, float scale) {
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  style.FontSizeBase = kTextSize;
  style.WindowPadding = ImVec2(10, 8);
  style.FramePadding = ImVec2(7, 3);
  style.ItemSpacing = ImVec2(8, 5);
  style.ItemInnerSpacing = ImVec2(6, 4);
  style.CellPadding = ImVec2(6, 2);
  style.IndentSpacing = 14;
  style.ScrollbarSize = 11;
  style.GrabMinSize = 9;
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 0;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = 0;
  style.TabBorderSize = 0;
  style.TabBarBorderSize = 1;
  style.TabBarOverlineSize = 2;
  style.WindowRounding = 0;
  style.ChildRounding = 4;
  style.PopupRounding = 5;
  style.FrameRounding = 4;
  style.GrabRounding = 4;
  style.ScrollbarRounding = 6;
  style.TabRounding = 3;
  style.DockingSeparatorSize = 3;
  style.SeparatorTextBorderSize = 1;
  style.HoverStationaryDelay = 0.1F;
  style.HoverDelayNormal = 0.3F;
  style.ScaleAllSizes(scale);
  style.FontScaleDpi = scale;

  ImVec4* colors = style.Colors;
  const ImVec4 none(0, 0, 0, 0);
  const ImVec4 hover = Vec(Mix(theme.raised, theme.accent, 0.18F));
  const ImVec4 active = Vec(Mix(theme.raised, theme.accent, 0.32F));
  for (int i = 0; i < ImGuiCol_COUNT; ++i) colors[i] = Vec(theme.raised);
  colors[ImGuiCol_Text] = Vec(theme.text);
  colors[ImGuiCol_TextDisabled] = Vec(theme.dim);
  colors[ImGuiCol_WindowBg] = Vec(theme.panel);
  colors[ImGuiCol_ChildBg] = none;
  colors[ImGuiCol_PopupBg] = Vec(Mix(theme.panel, theme.raised, 0.5F));
  colors[ImGuiCol_Border] = Vec(theme.line);
  colors[ImGuiCol_BorderShadow] = none;
  colors[ImGuiCol_FrameBg] = Vec(theme.raised);
  colors[ImGuiCol_FrameBgHovered] = hover;
  colors[ImGuiCol_FrameBgActive] = active;
  colors[ImGuiCol_TitleBg] = colors[ImGuiCol_TitleBgActive] = Vec(theme.background);
  colors[ImGuiCol_TitleBgCollapsed] = Vec(theme.background);
  colors[ImGuiCol_MenuBarBg] = Vec(theme.background);
  colors[ImGuiCol_ScrollbarBg] = none;
  colors[ImGuiCol_ScrollbarGrab] = Vec(theme.line);
  colors[ImGuiCol_ScrollbarGrabHovered] = Vec(theme.waiting);
  colors[ImGuiCol_ScrollbarGrabActive] = Vec(theme.dim);
  colors[ImGuiCol_CheckMark] = Vec(theme.accent);
  colors[ImGuiCol_SliderGrab] = Vec(theme.waiting);
  colors[ImGuiCol_SliderGrabActive] = Vec(theme.accent);
  colors[ImGuiCol_Button] = Vec(theme.raised);
  colors[ImGuiCol_ButtonHovered] = hover;
  colors[ImGuiCol_ButtonActive] = active;
  colors[ImGuiCol_Header] = Vec(Fade(theme.accent, 0.16F));
  colors[ImGuiCol_HeaderHovered] = Vec(Fade(theme.accent, 0.10F));
  colors[ImGuiCol_HeaderActive] = Vec(Fade(theme.accent, 0.24F));
  colors[ImGuiCol_Separator] = Vec(theme.line);
  colors[ImGuiCol_SeparatorHovered] = Vec(theme.accent);
  colors[ImGuiCol_SeparatorActive] = Vec(theme.accent);
  colors[ImGuiCol_ResizeGrip] = none;
  colors[ImGuiCol_ResizeGripHovered] = colors[ImGuiCol_ResizeGripActive] = Vec(theme.accent);
  colors[ImGuiCol_InputTextCursor] = Vec(theme.accent);
  colors[ImGuiCol_Tab] = colors[ImGuiCol_TabDimmed] = Vec(theme.background);
  colors[ImGuiCol_TabHovered] = hover;
  colors[ImGuiCol_TabSelected] = colors[ImGuiCol_TabDimmedSelected] = Vec(theme.panel);
  colors[ImGuiCol_TabSelectedOverline] = Vec(theme.accent);
  colors[ImGuiCol_TabDimmedSelectedOverline] = Vec(Fade(theme.accent, 0.5F));
  colors[ImGuiCol_DockingPreview] = Vec(Fade(theme.accent, 0.4F));
  colors[ImGuiCol_DockingEmptyBg] = Vec(theme.background);
  colors[ImGuiCol_PlotLines] = colors[ImGuiCol_PlotHistogram] = Vec(theme.accent);
  colors[ImGuiCol_PlotLinesHovered] = colors[ImGuiCol_PlotHistogramHovered] = Vec(theme.text);
  colors[ImGuiCol_TableHeaderBg] = Vec(theme.panel);
  colors[ImGuiCol_TableBorderStrong] = colors[ImGuiCol_TableBorderLight] = Vec(theme.line);
  colors[ImGuiCol_TableRowBg] = none;
  colors[ImGuiCol_TableRowBgAlt] = Vec(Fade(theme.raised, 0.35F));
  colors[ImGuiCol_TextLink] = Vec(theme.accent);
  colors[ImGuiCol_TextSelectedBg] = Vec(Fade(theme.accent, 0.35F));
  colors[ImGuiCol_TreeLines] = Vec(theme.line);
  colors[ImGuiCol_DragDropTarget] = Vec(theme.accent);
  colors[ImGuiCol_NavCursor] = Vec(Fade(theme.accent, 0.7F));
  colors[ImGuiCol_NavWindowingHighlight] = Vec(theme.accent);
  colors[ImGuiCol_NavWindowingDimBg] = colors[ImGuiCol_ModalWindowDimBg] =
      Vec(Fade(theme.background, 0.6F));
  if (ImPlot::GetCurrentContext() != nullptr) SetPlotStyle(theme, scale);
}

ImU32 PhaseColor(const Theme& theme, v1::ClusterInfo::Phase phase) {
  switch (phase) {
    case v1::ClusterInfo::PHASE_RESERVING:
      return theme.joined;
    case v1::ClusterInfo::PHASE_RUNNING:
      return theme.good;
    case v1::ClusterInfo::PHASE_STOPPING:
      return theme.caution;
    case v1::ClusterInfo::PHASE_ENDED:
      return theme.finished;
    case v1::ClusterInfo::PHASE_FAILED:
      return theme.bad;
    default:
      return theme.unknown;
  }
}

ImU32 StateColor(const Theme& theme, v1::SlotState state) {
  switch (state) {
    case v1::SLOT_STATE_REQUESTED:
    case v1::SLOT_STATE_STARTED:
      return theme.waiting;
    case v1::SLOT_STATE_CONNECTED:
    case v1::SLOT_STATE_REGISTERED:
      return theme.joined;
    case v1::SLOT_STATE_READY:
    case v1::SLOT_STATE_RUNNING:
      return theme.good;
    case v1::SLOT_STATE_DRAINING:
      return theme.caution;
    case v1::SLOT_STATE_FINISHED:
      return theme.finished;
    case v1::SLOT_STATE_FAILED:
    case v1::SLOT_STATE_LOST:
      return theme.bad;
    default:
      return theme.unknown;
  }
}

const char* StateLetter(v1::SlotState state) {
  static constexpr const char* kLetters[] = {"?", "Q", "S", "C", "G", "Y", "R", "D", "F", "X", "L"};
  const int index = static_cast<int>(state);
  return index >= 0 && index < 11 ? kLetters[index] : "?";
}

ImU32 MoodColor(const Theme& theme, Mood mood) {
  switch (mood) {
    case Mood::kGood:
      return theme.good;
    case Mood::kNeutral:
      return theme.dim;
    case Mood::kBusy:
      return theme.joined;
    case Mood::kWarning:
      return theme.caution;
    case Mood::kBad:
      return theme.bad;
  }
  return theme.dim;
}

const char* MoodIcon(Mood mood) {
  switch (mood) {
    case Mood::kGood:
      return icon::kCheck;
    case Mood::kNeutral:
      return icon::kDot;
    case Mood::kBusy:
      return icon::kClock;
    case Mood::kWarning:
      return icon::kWarning;
    case Mood::kBad:
      return icon::kCross;
  }
  return icon::kDot;
}

ImU32 Fade(ImU32 color, float alpha) {
  const auto old = static_cast<float>((color >> IM_COL32_A_SHIFT) & 0xFF);
  const auto faded = static_cast<ImU32>(old * std::clamp(alpha, 0.0F, 1.0F));
  return (color & ~IM_COL32_A_MASK) | (faded << IM_COL32_A_SHIFT);
}

ImU32 ReadableOn(ImU32 background) {
  const ImVec4 color = Vec(background);
  const float luminance = 0.299F * color.x + 0.587F * color.y + 0.114F * color.z;
  return luminance > 0.5F ? IM_COL32(0x10, 0x14, 0x18, 0xFF) : IM_COL32(0xF4, 0xF6, 0xF8, 0xFF);
}

ImU32 Viridis(float value) {
  static constexpr std::array<uint32_t, 9> kAnchors = {
      0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c, 0x28ae80, 0x5ec962, 0xaddc30, 0xfde725};
  const float place = std::clamp(value, 0.0F, 1.0F) * (kAnchors.size() - 1);
  const auto below = std::min(static_cast<size_t>(place), kAnchors.size() - 2);
  return Mix(Rgb(kAnchors[below]), Rgb(kAnchors[below + 1]), place - static_cast<float>(below));
}

}  // namespace millrace::dashboard
