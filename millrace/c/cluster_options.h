// File: millrace/c/cluster_options.h
//
// What the options of the C interface are in C++.
#ifndef MILLRACE_C_CLUSTER_OPTIONS_H_
#define MILLRACE_C_CLUSTER_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/c/cluster.h"
#include "millrace/cluster_options.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_status.h"
#include "millrace/launcher.h"
#include "millrace/node_program.h"

namespace millrace {

// NULL is the default, which is in *into already; and so is zero.
void TakeOption(const char* text, std::string* into);
void TakeOption(int64_t ms, absl::Duration* into);

// A failure as callbacks are told of it; holds on to `failure`.
class FailureForC {
 public:
  explicit FailureForC(const NodeFailure& failure);
  FailureForC(const FailureForC&) = delete;
  FailureForC& operator=(const FailureForC&) = delete;

  // Lives as long as this.
  [[nodiscard]] const millrace_failure& get() const { return told_; }

 private:
  const std::string node_;
  const std::string exit_;
  std::vector<const char*> lines_;
  millrace_failure told_ = {};
};

// Both return INVALID_ARGUMENT for a NULL where none is allowed, and for a struct_size that is
// none.
[[nodiscard]] absl::StatusOr<NodeProgram> ProgramOf(const millrace_cluster_options& given);
// Without stop_request and on_failure, which belong to the cluster.
[[nodiscard]] absl::StatusOr<ClusterOptions> OptionsOf(const millrace_cluster_options& given);

// What starts the agents, or adopts those that a resolver names.
struct Agents {
  std::unique_ptr<ClusterResolver> resolver;  // null: agents of this host
  std::unique_ptr<Launcher> launcher;         // uses it
};
// Returns the errors of ResolverFromJson() too.
[[nodiscard]] absl::StatusOr<Agents> AgentsOf(const millrace_cluster_options& given);
// The nodes that the resolver names, if there is one and `given` does not say how many there are.
// Blocks. Returns the resolver's error, or that of ShapeOf().
[[nodiscard]] absl::Status TakeShape(const millrace_cluster_options& given, const Agents& agents,
                                     ClusterOptions* options);

}  // namespace millrace

#endif  // MILLRACE_C_CLUSTER_OPTIONS_H_
