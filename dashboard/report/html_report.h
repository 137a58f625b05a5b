// File: dashboard/report/html_report.h
//
// A cluster's run as one page, to keep, print or hand on: what the window would say at the end, and
// what led there.
//
// Defines: HtmlReport(), ReportOptions.
//
//   DashboardModel model;
//   ... all updates of a recording ...
//   MILLRACE_RETURN_IF_ERROR(WriteFileAtomic("run.html", HtmlReport(model, {.source =
//   "run.mrec"})));
//
// The page needs nothing but itself: style, pictures and the script that sorts its table are within
// it, and its policy forbids a browser to load or run anything else. Whatever nodes have said or
// are called is text in it and nothing more. Its size is bounded however large the cluster is: of
// many nodes, events and lines, those that failed come first, and it says what it leaves out.
//
// Thread safety: a pure function.

#ifndef DASHBOARD_REPORT_HTML_REPORT_H_
#define DASHBOARD_REPORT_HTML_REPORT_H_

#include <string>

#include "dashboard/model/dashboard_model.h"

namespace millrace::dashboard {

struct ReportOptions {
  static constexpr int kMostNodes = 1000;  // rows of the table
  static constexpr int kMostLanes = 48;    // nodes whose states are drawn one by one
  static constexpr int kMostEvents = 400;
  static constexpr int kMostMetrics = 12;  // pictures
  static constexpr int kMostLines = 8;     // nodes in each
  static constexpr int kMostFeeds = 20;
  static constexpr int kMostLogLines = 40;  // of each node that failed
  static constexpr int kMostLogs = 3;

  std::string source;  // what the model was made of: "run.mrec"
};

// Of what the model knows now. A model without data gives a page that says so.
[[nodiscard]] std::string HtmlReport(const DashboardModel& model, const ReportOptions& options);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_REPORT_HTML_REPORT_H_
