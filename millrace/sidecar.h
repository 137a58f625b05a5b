// File: millrace/sidecar.h
//
// Programs beside nodes: TensorBoard, an exporter, a profiler.
//
// Defines: Sidecar, TensorBoardSidecar().
//
// Thread safety: ordinary values and a pure function.

#ifndef MILLRACE_SIDECAR_H_
#define MILLRACE_SIDECAR_H_

#include <map>
#include <string>
#include <vector>

namespace millrace {

// A program beside one node, in a process group of its own: started by the node's agent once the
// node runs, killed with it, started again with its next attempt. Its URL is published among the
// node's endpoints under `name` as soon as its port takes connections. How it ends is no failure.
struct Sidecar {
  std::string name;     // 1 to 40 of a-z 0-9 -
  std::string node;     // "worker:0". Empty: the chief or master; worker:0 in clusters without
  std::string program;  // a path on the agent's host, or a name that is looked up in PATH there
  // After argv[0]. "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced.
  std::vector<std::string> args;
  std::map<std::string, std::string> env;  // added to the agent's environment
};

// TensorBoard on the cluster's log_dir, as "tensorboard": `tensorboard` from the host's PATH, or
// else python3's module. A host that has neither says so in one line and goes on without it.
[[nodiscard]] Sidecar TensorBoardSidecar();

}  // namespace millrace

#endif  // MILLRACE_SIDECAR_H_
