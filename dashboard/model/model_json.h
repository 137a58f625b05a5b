// File: dashboard/model/model_json.h
//
// The model as JSON (--dump-json): what the window would show, for scripts and tests.
//
// Defines: ModelToJson(), kModelJsonFormat.
//
//   {"format": 1, "time": "2026-01-01T10:41:07.3Z", "link": {...}, "cluster": {...},
//    "verdict": {"start": {"mood": "good", "text": "..."}, ...}, "warnings": [...],
//    "nodes": [...], "hosts": [...], "gpus": [...], "feeds": [...], "events": [...],
//    "metrics": [...], "membership": {...}, "logs": {...}}
//
// What is not known is left out, never 0. Units are in the names: "rss_bytes", "starved_fraction".
// Times are RFC 3339 in UTC.
//
// Thread safety: pure functions.

#ifndef DASHBOARD_MODEL_MODEL_JSON_H_
#define DASHBOARD_MODEL_MODEL_JSON_H_

#include "core/base/json.h"
#include "dashboard/model/dashboard_model.h"

namespace millrace::dashboard {

// Grows when a member changes its meaning or goes; new members may come without that.
inline constexpr int kModelJsonFormat = 1;

struct ModelJsonOptions {
  int log_lines = 100;  // the last ones
  int events = 1000;    // the last ones
};

[[nodiscard]] OrderedJson ModelToJson(const DashboardModel& model,
                                      const ModelJsonOptions& options = {});

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_MODEL_JSON_H_
