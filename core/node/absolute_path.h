// File: core/node/absolute_path.h
//
// The path rules of TFNode.hdfs_path: what a path means on a cluster with a default file system.
//
// Defines: AbsolutePath(), PathUser().
#ifndef CORE_NODE_ABSOLUTE_PATH_H_
#define CORE_NODE_ABSOLUTE_PATH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// A path with a scheme ("s3a://bucket/x", "file:/x") stays as it is; an absolute one gets
// `default_fs` in front; a relative one lies in the user's home on hdfs and viewfs
// ("<default_fs>/user/<user>/<path>"), in `working_dir` on file, and at the root of any other file
// system. An empty default_fs is "file://".
//
//   AbsolutePath("mnist", "hdfs://nn:8020", "/tmp", "ann")  -> "hdfs://nn:8020/user/ann/mnist"
//   AbsolutePath("mnist", "file://", "/home/ann", "ann")    -> "file:///home/ann/mnist"
//
// Where it departs from TFNode: every scheme counts, not ten known ones; slashes at the end of
// default_fs and working_dir do not matter. Thread safety: pure function.
[[nodiscard]] std::string AbsolutePath(absl::string_view path, absl::string_view default_fs,
                                       absl::string_view working_dir, absl::string_view user);

// Whose home a relative path lies in, as Python's getpass.getuser() (which TFNode asks) finds it:
// the first of LOGNAME, USER, LNAME, USERNAME that is set, or the account's name; "nobody" without
// one. Thread safety: thread-safe unless another thread changes the environment.
[[nodiscard]] std::string PathUser();

}  // namespace millrace

#endif  // CORE_NODE_ABSOLUTE_PATH_H_
