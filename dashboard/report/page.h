// File: dashboard/report/page.h
//
// The frame of a report's page: its style, its script, and the policy that allows these two and
// nothing else.
//
// Defines: Page().
//
// Thread safety: a pure function.

#ifndef DASHBOARD_REPORT_PAGE_H_
#define DASHBOARD_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace::dashboard {

// `title` is text, `body` is HTML.
[[nodiscard]] std::string Page(absl::string_view title, absl::string_view body);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_REPORT_PAGE_H_
