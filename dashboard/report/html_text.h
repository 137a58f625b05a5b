// File: dashboard/report/html_text.h
//
// Foreign text within an HTML page or an SVG picture.
//
// Defines: EscapeHtml().
//
//   page += absl::StrCat("<td>", EscapeHtml(node.error), "</td>");
//
// Thread safety: a pure function.

#ifndef DASHBOARD_REPORT_HTML_TEXT_H_
#define DASHBOARD_REPORT_HTML_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::dashboard {

inline constexpr size_t kMostText = 600;

// `text` so that a browser shows it and does nothing else with it, between tags and within quoted
// attributes. Of what is longer than `max_bytes`, the beginning with "..."; control characters and
// bytes that are not UTF-8 are written as C escapes.
[[nodiscard]] std::string EscapeHtml(absl::string_view text, size_t max_bytes = kMostText);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_REPORT_HTML_TEXT_H_
