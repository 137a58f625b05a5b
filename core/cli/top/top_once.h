// File: core/cli/top/top_once.h
//
// A cluster as `millrace top --once` prints it.
//
// Defines: PrintTopOnce().
#ifndef CORE_CLI_TOP_TOP_ONCE_H_
#define CORE_CLI_TOP_TOP_ONCE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/cli/top/text_grid.h"
#include "core/client/raw_cluster_client.h"

namespace millrace::cli {

// Watches for two intervals, since rates are between two samples, and prints what is known then on
// stdout: as text in lines of `format.columns`, or as one JSON object (docs/cli.md). Returns the
// errors of the watch, and of stdout. Blocking: that long.
[[nodiscard]] absl::Status PrintTopOnce(RawClusterClient* client, absl::Duration interval,
                                        bool json, const GridOptions& format);

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_TOP_ONCE_H_
