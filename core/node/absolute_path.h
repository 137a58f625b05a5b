// File: absolute_path.h
//
// The path rules of TFNode.hdfs_path: what a path means on a cluster with a default file system.
#ifndef CORE_NODE_ABSOLUTE_PATH_H_
#define CORE_NODE_ABSOLUTE_PATH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// A path with a scheme ("s3a://bucket/x") stays as it is; an absolute one gets `default_fs` in front;
// a relative one lies in the user's home on hdfs and viewfs ("<default_fs>/user/<user>/<path>"), in
// `working_dir` on file, and at the root of any other file system.
//
//   AbsolutePath("mnist", "hdfs://nn:8020", "/tmp", "ann")  -> "hdfs://nn:8020/user/ann/mnist"
//   AbsolutePath("mnist", "file://", "/home/ann", "ann")    -> "file:///home/ann/mnist"
[[nodiscard]] std::string AbsolutePath(absl::string_view path, absl::string_view default_fs,
                                       absl::string_view working_dir, absl::string_view user);

}  // namespace millrace

#endif  // CORE_NODE_ABSOLUTE_PATH_H_
