#include "dashboard/app/fonts.h"

#include <cstdio>

#include "dashboard/app/font_data.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

ImFont* Add(absl::string_view data, const char* name, float size, bool merge) {
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.MergeMode = merge;
  if (merge) {
    config.GlyphMinAdvanceX = size * 1.15F;
    config.GlyphOffset.y = 0.5F;
    size *= 0.86F;
  }
  std::snprintf(config.Name, sizeof config.Name, "%s", name);
  // The atlas only reads it.
  void* bytes = const_cast<char*>(data.data());
  return ImGui::GetIO().Fonts->AddFontFromMemoryTTF(bytes, static_cast<int>(data.size()), size,
                                                    &config);
}

ImFont* AddWithIcons(absl::string_view data, const char* name, float size) {
  ImFont* font = Add(data, name, size, /*merge=*/false);
  Add(kFontAwesome, "icons", size, /*merge=*/true);
  return font;
}

}  // namespace

Fonts LoadFonts() {
  Fonts fonts;
  fonts.text = AddWithIcons(kInterRegular, "Inter", kTextSize);
  fonts.strong = AddWithIcons(kInterSemiBold, "Inter SemiBold", kTextSize);
  fonts.mono = AddWithIcons(kJetBrainsMono, "JetBrains Mono", kMonoSize);
  ImGui::GetIO().FontDefault = fonts.text;
  return fonts;
}

}  // namespace millrace::dashboard
