// File: feed/source/tfrecord/input_files.h
//
// The files that paths of folders and patterns stand for.
//
// Defines: FindInputFiles().

#ifndef FEED_SOURCE_TFRECORD_INPUT_FILES_H_
#define FEED_SOURCE_TFRECORD_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace {

// The files of all paths, in the order of the paths. A path is a file, a folder, or a pattern as
// glob(7) has it, if there is no file of that name. Of a folder, and of what a pattern finds, the
// regular files are taken, in the order of their names, except those whose names begin with "." or
// "_". Returns NOT_FOUND for a path that is no file, and for a folder or a pattern without one;
// otherwise the system's errors, with the path. Blocking: disk I/O.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> FindInputFiles(
    const std::vector<std::string>& paths);

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_INPUT_FILES_H_
