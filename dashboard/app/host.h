// File: dashboard/app/host.h
//
// Where the window keeps things on disk: exports in the working folder, the layout in the user's
// configuration.
//
// Defines: SaveCsv(), LayoutPath().
//
// Thread safety: thread-safe. Blocking: disk I/O.

#ifndef DASHBOARD_APP_HOST_H_
#define DASHBOARD_APP_HOST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

// Writes `<folder>/millrace-<name>-<time>.csv` and returns its path, or the error of the disk.
[[nodiscard]] absl::StatusOr<std::string> SaveCsv(const std::string& folder, absl::string_view name,
                                                  absl::string_view csv, absl::Time now);

// $XDG_CONFIG_HOME/millrace/dashboard.ini, else ~/.config/millrace/dashboard.ini; the folder is
// made. Empty if there is no place for it: the layout is then not kept.
[[nodiscard]] std::string LayoutPath();

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_HOST_H_
