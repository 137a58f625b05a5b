// File: core/cli/view/view_json.h
//
// What --json prints. docs/cli.md is the contract: members are added, never renamed or removed;
// times are ..._ms since the Unix epoch; what is not known is null.
//
// Thread safety: pure functions.
#ifndef CORE_CLI_VIEW_VIEW_JSON_H_
#define CORE_CLI_VIEW_VIEW_JSON_H_

#include <string>

#include "core/base/json.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"
#include "core/proto/watch.pb.h"

namespace millrace::cli {

// {"time_ms", "cluster": {...}, "nodes": [...], "feeds": [...]}
[[nodiscard]] OrderedJson StatusJson(const ClusterView& view);
// {"time_ms", "nodes": [...]}
[[nodiscard]] OrderedJson NodesJson(const ClusterView& view);
// `node` is the name of event.executor_id; empty: unknown or nobody's.
[[nodiscard]] OrderedJson EventJson(const v1::Event& event, const std::string& node);
[[nodiscard]] OrderedJson LogLineJson(const v1::LogBatch& batch, const std::string& node,
                                      const std::string& line);
// Without tokens.
[[nodiscard]] OrderedJson ClusterFileJson(const ClusterFile& file);

// "info", "warning", "error".
[[nodiscard]] const char* SeverityText(v1::Event::Severity severity);

}  // namespace millrace::cli

#endif  // CORE_CLI_VIEW_VIEW_JSON_H_
