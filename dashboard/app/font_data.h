// File: dashboard/app/font_data.h
//
// The font files, within the program, so that it looks the same wherever it is copied to.
//
// Defines: kInterRegular, kInterSemiBold, kJetBrainsMono, kFontAwesome.
//
// Thread safety: constants. Lifetime: static; not to be used before main().

#ifndef DASHBOARD_APP_FONT_DATA_H_
#define DASHBOARD_APP_FONT_DATA_H_

#include "absl/strings/string_view.h"

namespace millrace::dashboard {

extern const absl::string_view kInterRegular;
extern const absl::string_view kInterSemiBold;
extern const absl::string_view kJetBrainsMono;
extern const absl::string_view kFontAwesome;

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_FONT_DATA_H_
