// File: dashboard/app/settings.h
//
// What a person chose and finds again in the next window: theme, size of the text, span of the live
// view. It is a section of ImGui's own .ini text, beside the layout.
//
// Defines: Settings.
//
//   Settings settings;                 // before the first NewFrame(), which reads the file
//   if (settings.TakeLoaded()) SetTheme(settings.theme);
//   settings.theme = kind;
//   settings.Changed();                // ImGui writes it a few seconds later
//
// Entries that it does not understand are left as they are. Lifetime: within that of ImGui's
// context; what ImGui writes afterwards lacks the section. Thread safety: on the window's thread.

#ifndef DASHBOARD_APP_SETTINGS_H_
#define DASHBOARD_APP_SETTINGS_H_

#include <utility>

#include "absl/time/time.h"
#include "dashboard/model/selection.h"
#include "dashboard/views/theme.h"

struct ImGuiContext;
struct ImGuiSettingsHandler;
struct ImGuiTextBuffer;

namespace millrace::dashboard {

class Settings {
 public:
  Settings();
  ~Settings();
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  ThemeKind theme = ThemeKind::kDark;
  float zoom = 1;  // of the text, on top of the monitor's scale; 0.5 to 3
  absl::Duration span = TimeBrush().span;

  // True once after the settings have been read.
  [[nodiscard]] bool TakeLoaded() { return std::exchange(loaded_, false); }
  void Changed();

 private:
  static void* Open(ImGuiContext*, ImGuiSettingsHandler* handler, const char* name);
  static void ReadLine(ImGuiContext*, ImGuiSettingsHandler*, void* entry, const char* line);
  static void Write(ImGuiContext*, ImGuiSettingsHandler* handler, ImGuiTextBuffer* text);

  bool loaded_ = false;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_SETTINGS_H_
