// File: dashboard/app/fonts.h
//
// Loads the embedded fonts into ImGui's atlas.
//
// Defines: LoadFonts().
//
// Thread safety: on the window's thread, after ImGui::CreateContext(). The fonts belong to the
// atlas.

#ifndef DASHBOARD_APP_FONTS_H_
#define DASHBOARD_APP_FONTS_H_

#include "dashboard/views/theme.h"

namespace millrace::dashboard {

// Text, semi-bold and monospace face, each with the icons merged in; text is the default font.
[[nodiscard]] Fonts LoadFonts();

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_FONTS_H_
