// File: core/cli/view/view_text.h
//
// A cluster as text for people.
//
// Thread safety: pure functions.
#ifndef CORE_CLI_VIEW_VIEW_TEXT_H_
#define CORE_CLI_VIEW_VIEW_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "core/cli/output/terminal.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"
#include "core/proto/watch.pb.h"

namespace millrace::cli {

// `width` in columns. Lines with their ends.
[[nodiscard]] std::string StatusText(const ClusterView& view, const Styler& style, size_t width);
[[nodiscard]] std::string NodesText(const ClusterView& view, const Styler& style, size_t width);
[[nodiscard]] std::string EventText(const v1::Event& event, const Styler& style);
[[nodiscard]] std::string ClustersText(const ClusterFileList& files, absl::Time now,
                                       const Styler& style, size_t width);

}  // namespace millrace::cli

#endif  // CORE_CLI_VIEW_VIEW_TEXT_H_
