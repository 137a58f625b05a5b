// File: dashboard/app/panels.h
//
// Defines: MakePanel(), PanelTitle(): which class draws which panel, and what its tab says.
//
// Thread safety: pure functions.

#ifndef DASHBOARD_APP_PANELS_H_
#define DASHBOARD_APP_PANELS_H_

#include <memory>

#include "dashboard/model/selection.h"
#include "dashboard/views/panel.h"

namespace millrace::dashboard {

[[nodiscard]] std::unique_ptr<PanelView> MakePanel(Panel panel);
[[nodiscard]] const char* PanelTitle(Panel panel);
// The key that shows it: '1' to '9', '0'.
[[nodiscard]] char PanelKey(Panel panel);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_PANELS_H_
