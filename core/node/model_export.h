// File: model_export.h
//
// A directory that appears whole or not at all.
#ifndef CORE_NODE_MODEL_EXPORT_H_
#define CORE_NODE_MODEL_EXPORT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace millrace {

// Lets `write` fill a new directory beside `path` ("file:///…" or a plain absolute path), makes it
// durable, and gives it the name `path` in one step; a directory that was there before is removed
// after. Parents are made. Returns UNIMPLEMENTED for any other file system, what `write` returned, or
// the file system's error; `path` is then as it was and nothing is left beside it.
absl::Status ExportDirectory(
    const std::string& path,
    const std::function<absl::Status(const std::string& directory)>& write);

}  // namespace millrace

#endif  // CORE_NODE_MODEL_EXPORT_H_
