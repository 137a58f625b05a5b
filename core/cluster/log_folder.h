// File: core/cluster/log_folder.h
//
// The folder of logs as people write it: a path, or a file URL.
//
//   MILLRACE_ASSIGN_OR_RETURN(options.log_dir, LogFolder("log_dir", options.log_dir));

#ifndef CORE_CLUSTER_LOG_FOLDER_H_
#define CORE_CLUSTER_LOG_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// `folder` as a path of each node's host: "file:///x" is "/x". Returns INVALID_ARGUMENT, which
// calls it `name`, for other URLs. Thread safety: a pure function.
[[nodiscard]] absl::StatusOr<std::string> LogFolder(absl::string_view name,
                                                    absl::string_view folder);

}  // namespace millrace

#endif  // CORE_CLUSTER_LOG_FOLDER_H_
