// File: dashboard/views/theme.h
//
// How the dashboard looks: colours, which mean state and nothing else, fonts and icons.
//
// Defines: ThemeKind, Theme, Fonts, Icon names, StateColor(), StateLetter(), PhaseColor(),
// MoodColor(), Viridis().
//
//   Theme theme = MakeTheme(ThemeKind::kDark, fonts);
//   ApplyTheme(theme, scale);      // to the current contexts of ImGui and ImPlot
//   draw_list->AddText(pos, theme.dim, "age");
//
// Colours are ImGui's packed RGBA (ImU32). A colour never stands alone: StateLetter() goes with it.
//
// Ownership: fonts belong to ImGui's atlas. Thread safety: values; ApplyTheme() on the window's
// thread.

#ifndef DASHBOARD_VIEWS_THEME_H_
#define DASHBOARD_VIEWS_THEME_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/watch.pb.h"
#include "dashboard/model/verdict.h"
#include "imgui.h"

namespace millrace::dashboard {

enum class ThemeKind { kDark, kLight, kColorBlind };
// "dark", "light", "colour-blind": as --theme takes them.
[[nodiscard]] absl::string_view ThemeName(ThemeKind kind);
[[nodiscard]] std::optional<ThemeKind> ThemeFromName(absl::string_view name);

// Sizes are before HiDPI scaling. Icons are merged into all of them.
struct Fonts {
  ImFont* text = nullptr;    // Inter
  ImFont* strong = nullptr;  // Inter SemiBold
  ImFont* mono = nullptr;    // JetBrains Mono: numbers, addresses, logs
};
inline constexpr float kTextSize = 15.0F;
inline constexpr float kMonoSize = 14.0F;
inline constexpr float kSmallSize = 12.5F;

// Of Font Awesome; what is not listed here is not in the atlas for sure, though it may be.
namespace icon {
inline constexpr const char* kCheck = "\xef\x80\x8c";
inline constexpr const char* kCross = "\xef\x80\x8d";
inline constexpr const char* kWarning = "\xef\x81\xb1";
inline constexpr const char* kClock = "\xef\x80\x97";
inline constexpr const char* kDot = "\xef\x84\x91";
inline constexpr const char* kPlay = "\xef\x81\x8b";
inline constexpr const char* kPause = "\xef\x81\x8c";
inline constexpr const char* kSearch = "\xef\x80\x82";
inline constexpr const char* kCopy = "\xef\x83\x85";
inline constexpr const char* kDownload = "\xef\x80\x99";
inline constexpr const char* kStop = "\xef\x81\x8d";
inline constexpr const char* kRestart = "\xef\x80\x9e";
inline constexpr const char* kPlug = "\xef\x87\xa6";
inline constexpr const char* kEye = "\xef\x81\xae";
inline constexpr const char* kKey = "\xef\x82\x84";
inline constexpr const char* kArrow = "\xef\x81\x94";
inline constexpr const char* kFirst = "\xef\x80\xa4";
inline constexpr const char* kFire = "\xef\x81\xad";
}  // namespace icon

struct Theme {
  ThemeKind kind = ThemeKind::kDark;
  Fonts fonts;

  ImU32 background = 0;  // behind panels
  ImU32 panel = 0;
  ImU32 raised = 0;  // cards, table headers, input fields
  ImU32 line = 0;    // hairlines
  ImU32 text = 0;
  ImU32 dim = 0;
  ImU32 accent = 0;  // what is selected

  ImU32 waiting = 0;  // requested, started
  ImU32 joined = 0;   // connected, registered
  ImU32 good = 0;     // ready, running
  ImU32 caution = 0;  // draining, backpressure, warnings
  ImU32 finished = 0;
  ImU32 bad = 0;         // failed, lost
  ImU32 unknown = 0;     // drawn hatched
  ImU32 starved = 0;     // share of time: waits for rows
  ImU32 compute = 0;     // share of time: works
  ImU32 decode = 0;      // share of time: decodes
  ImU32 series[8] = {};  // lines of a plot with several

  bool stale = false;  // of values that are no longer known to be true
};

[[nodiscard]] Theme MakeTheme(ThemeKind kind, const Fonts& fonts);
// The same with the colours of good and of passing states greyed, for data that have stopped
// coming. What is wrong stays red and amber.
[[nodiscard]] Theme StaleTheme(const Theme& theme);
// Colours, spacing and plot style. `scale`: of HiDPI, 1 for 96 dpi.
void ApplyTheme(const Theme& theme, float scale);

[[nodiscard]] ImU32 StateColor(const Theme& theme, v1::SlotState state);
// One letter for small cells: "Q", "S", "C", "G", "Y", "R", "D", "F", "X", "L", "?".
[[nodiscard]] const char* StateLetter(v1::SlotState state);
[[nodiscard]] ImU32 PhaseColor(const Theme& theme, v1::ClusterInfo::Phase phase);
[[nodiscard]] ImU32 MoodColor(const Theme& theme, Mood mood);
[[nodiscard]] const char* MoodIcon(Mood mood);

// `color` with its alpha multiplied.
[[nodiscard]] ImU32 Fade(ImU32 color, float alpha);
// Black or white, whichever can be read on `background`.
[[nodiscard]] ImU32 ReadableOn(ImU32 background);
// A perceptual map of 0 to 1; beyond it, its ends.
[[nodiscard]] ImU32 Viridis(float value);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_THEME_H_
