// File: core/node/model_export.h
//
// A directory that appears whole or not at all.
//
// Defines: ExportDirectory().
//
//   MILLRACE_RETURN_IF_ERROR(ExportDirectory("/models/digits", [&](const std::string& directory) {
//     return Save(weights, JoinPath(directory, "weights.bin"));
//   }));
#ifndef CORE_NODE_MODEL_EXPORT_H_
#define CORE_NODE_MODEL_EXPORT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace millrace {

// Lets `write` fill a new directory beside `path` ("file:///…", "file:/…" or a plain absolute
// path), makes it durable, and gives it the name `path` in one step; what had that name before (a
// directory, a file, a symbolic link) is removed after. Parents are made. On file systems without
// an atomic exchange (NFS) a replacement takes two steps, between which there is nothing at `path`.
//
// Returns UNIMPLEMENTED for any other file system, INVALID_ARGUMENT for the root, what `write`
// returned, or the file system's error; `path` is then as it was and nothing is left beside it. If
// this process is killed meanwhile, a "<path>.tmp-…" may stay.
//
// Thread safety: thread-safe; of two exports to one path the later stays. Blocking: disk I/O.
absl::Status ExportDirectory(
    const std::string& path,
    const std::function<absl::Status(const std::string& directory)>& write);

namespace model_export_internal {

// Gives `staged` the name `target`; what had it before has the name `staged` then, or is gone if it
// was an empty directory. Absolute paths in one directory. The second is the way of file systems
// that know plain rename(2) only. Exposed for the test.
absl::Status TakeName(const std::string& staged, const std::string& target);
absl::Status TakeNameByRename(const std::string& staged, const std::string& target);

}  // namespace model_export_internal
}  // namespace millrace

#endif  // CORE_NODE_MODEL_EXPORT_H_
