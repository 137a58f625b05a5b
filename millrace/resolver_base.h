// File: millrace/resolver_base.h
//
// What all resolvers have in common: the settable properties, the usual master(), and the counting
// of this host's accelerators. For those who write a resolver.
//
// Defines: ResolverBase, TaskProperties, AcceleratorCounter, CheckTaskId(), TellOnce(),
// ResolvedTaskAddress().
//
//   class MyResolver final : public ResolverBase {
//    public:
//     explicit MyResolver(Options options) : ResolverBase({.properties = options.properties}) {}
//     absl::StatusOr<ClusterSpec> cluster_spec() override;   // the rest is there
//   };

#ifndef MILLRACE_RESOLVER_BASE_H_
#define MILLRACE_RESOLVER_BASE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/cluster_resolver.h"

namespace millrace {

// What a resolver's options may set of its properties; nullopt leaves it to the source.
struct TaskProperties {
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  std::optional<std::string> rpc_layer;
};

// Counts the accelerators of this host: device type to how many. Must end within a limit.
using AcceleratorCounter = std::function<absl::StatusOr<std::map<std::string, int>>()>;

// Thread safety: as ClusterResolver's.
class ResolverBase : public ClusterResolver {
 public:
  // The address of the task given, or of this one; "" if neither is known. A given rpc_layer of ""
  // means no prefix.
  absl::StatusOr<std::string> master(std::optional<std::string> task_type = std::nullopt,
                                     std::optional<int> task_id = std::nullopt,
                                     std::optional<std::string> rpc_layer = std::nullopt) override;
  absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override;
  absl::StatusOr<std::optional<std::string>> environment() override;

  // What was set, else what the source says.
  absl::StatusOr<std::optional<std::string>> task_type() override;
  absl::StatusOr<std::optional<int>> task_id() override;
  absl::StatusOr<std::optional<std::string>> rpc_layer() override;
  absl::Status set_task_type(std::optional<std::string> task_type) override;
  absl::Status set_task_id(std::optional<int> task_id) override;  // INVALID_ARGUMENT if negative
  absl::Status set_rpc_layer(std::optional<std::string> rpc_layer) override;

 protected:
  struct BaseOptions {
    TaskProperties properties;
    // Empty: what `millrace-gpu` sees.
    AcceleratorCounter count_accelerators;
  };
  explicit ResolverBase(BaseOptions options);
  ~ResolverBase() override;

  // What the source says where nothing was set: by default nothing.
  virtual absl::StatusOr<std::optional<std::string>> SourceTaskType();
  virtual absl::StatusOr<std::optional<int>> SourceTaskId();
  virtual absl::StatusOr<std::optional<std::string>> SourceRpcLayer();

  // Fills what is missing of a task with this one's.
  absl::Status CompleteTask(std::optional<std::string>* task_type, std::optional<int>* task_id);
  // What was set, without the source.
  [[nodiscard]] TaskProperties overrides() const;
  // set_task_id() without a look at the number.
  void OverrideTaskId(std::optional<int> task_id);
  [[nodiscard]] absl::StatusOr<std::map<std::string, int>> CountLocalAccelerators() const;

 private:
  const AcceleratorCounter count_accelerators_;
  struct Overrides;
  const std::unique_ptr<Overrides> overrides_;
};

// The watch of a source that cannot change: calls `callback` with `answer`, and never again.
[[nodiscard]] std::unique_ptr<MembershipWatch> TellOnce(const absl::StatusOr<ClusterSpec>& answer,
                                                        MembershipCallback callback);

// INVALID_ARGUMENT if it is negative: what the Create() of a resolver checks.
[[nodiscard]] absl::Status CheckTaskId(const std::optional<int>& task_id);

// Address of a task as `spec` has it. Errors as ClusterSpec::TaskAddress; NOT_FOUND too if the task
// is not known.
[[nodiscard]] absl::StatusOr<std::string> ResolvedTaskAddress(
    const ClusterSpec& spec, const std::optional<std::string>& task_type,
    const std::optional<int>& task_id);

}  // namespace millrace

#endif  // MILLRACE_RESOLVER_BASE_H_
