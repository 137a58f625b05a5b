#include "dashboard/app/settings.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

constexpr const char* kSection = "Millrace";

}  // namespace

Settings::Settings() {
  ImGuiSettingsHandler handler;
  handler.TypeName = kSection;
  handler.TypeHash = ImHashStr(kSection);
  handler.ReadOpenFn = Open;
  handler.ReadLineFn = ReadLine;
  handler.WriteAllFn = Write;
  handler.UserData = this;
  ImGui::AddSettingsHandler(&handler);
}

Settings::~Settings() { ImGui::RemoveSettingsHandler(kSection); }

void Settings::Changed() { ImGui::MarkIniSettingsDirty(); }

void* Settings::Open(ImGuiContext*, ImGuiSettingsHandler* handler, const char*) {
  auto* settings = static_cast<Settings*>(handler->UserData);
  settings->loaded_ = true;
  return settings;
}

void Settings::ReadLine(ImGuiContext*, ImGuiSettingsHandler*, void* entry, const char* line) {
  auto* settings = static_cast<Settings*>(entry);
  absl::string_view text(line);
  int seconds = 0;
  float zoom = 0;
  if (absl::ConsumePrefix(&text, "Theme=")) {
    settings->theme = ThemeFromName(text).value_or(settings->theme);
  } else if (absl::ConsumePrefix(&text, "Zoom=") && absl::SimpleAtof(text, &zoom)) {
    if (zoom >= 0.5F && zoom <= 3.0F) settings->zoom = zoom;
  } else if (absl::ConsumePrefix(&text, "Span=") && absl::SimpleAtoi(text, &seconds)) {
    if (seconds >= 10 && seconds <= 3600) settings->span = absl::Seconds(seconds);
  }
}

void Settings::Write(ImGuiContext*, ImGuiSettingsHandler* handler, ImGuiTextBuffer* text) {
  const auto* settings = static_cast<const Settings*>(handler->UserData);
  text->append(absl::StrFormat("[%s][Window]\nTheme=%s\nZoom=%.3f\nSpan=%d\n\n", kSection,
                               ThemeName(settings->theme), settings->zoom,
                               absl::ToInt64Seconds(settings->span))
                   .c_str());
}

}  // namespace millrace::dashboard
