// File: millrace/node_program.h
//
// Which executable the nodes of a cluster run, and with what arguments.
//
// Defines: NodeProgram.
#ifndef MILLRACE_NODE_PROGRAM_H_
#define MILLRACE_NODE_PROGRAM_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// A value type.
//
//   NodeProgram::File("bazel-bin/examples/digits/digits_node").Args({"--hidden=64"})
class NodeProgram {
 public:
  // A file of the driver's host: shipped to every node, its sha256 checked, its run bit set. A
  // relative path is relative to the driver's working directory.
  [[nodiscard]] static NodeProgram File(std::string path) { return {std::move(path), true}; }
  // A file that every host has. A name without a slash is looked up in PATH there.
  [[nodiscard]] static NodeProgram Path(std::string path) { return {std::move(path), false}; }

  // After argv[0].
  NodeProgram& Args(std::vector<std::string> args) {
    args_ = std::move(args);
    return *this;
  }
  // Added to the node's environment. The variables of docs/control_protocol.md win over it.
  NodeProgram& Env(std::map<std::string, std::string> env) {
    env_ = std::move(env);
    return *this;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool shipped() const { return shipped_; }
  [[nodiscard]] const std::vector<std::string>& args() const { return args_; }
  [[nodiscard]] const std::map<std::string, std::string>& env() const { return env_; }

 private:
  NodeProgram(std::string path, bool shipped) : path_(std::move(path)), shipped_(shipped) {}

  std::string path_;
  bool shipped_;
  std::vector<std::string> args_;
  std::map<std::string, std::string> env_;
};

}  // namespace millrace

#endif  // MILLRACE_NODE_PROGRAM_H_
