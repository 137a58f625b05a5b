// File: millrace/cluster_members_resolver.h
//
// The nodes of a running Millrace cluster as a ClusterResolver, from its coordinator: for programs
// that are not nodes of it, wherever it runs (on Spark, on this machine, ...).
//
// Defines: ClusterMembersResolverOptions, ClusterMembersResolver.
//
//   // the cluster that this user runs
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ClusterMembersResolver> resolver,
//                             ClusterMembersResolver::Create({}));
//   resolver->cluster_spec();   // {"chief": ["h1:40213"], "worker": ["h2:39114"]}

#ifndef MILLRACE_CLUSTER_MEMBERS_RESOLVER_H_
#define MILLRACE_CLUSTER_MEMBERS_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/client.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"
#include "millrace/membership.h"
#include "millrace/option_defaults.h"
#include "millrace/resolver_base.h"

namespace millrace {

struct ClusterMembersResolverOptions {
  // How the coordinator is reached; `timeout` is that of each answer. No address: `cluster`.
  ClusterClientOptions client;
  // A cluster's id, the beginning of one, or a cluster file; empty: the only one of this
  // user on this machine.
  std::string cluster;

  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
  absl::Duration wait_timeout = kDefaultWaitTimeout;

  // The task, if not that of the environment: a node of this cluster has MILLRACE_CONTEXT_FILE.
  TaskProperties properties;
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// Members are the nodes that have registered their address and have not ended. A node that is
// started again is a member when its next attempt has registered; its address may differ. Roles
// never move.
//
// TensorFlow has no such resolver, hence there is no ResolverBehavior.
//
// Thread safety: see ClusterResolver. Watch() is pushed by the coordinator ("client-watch" in
// docs/threads.md); when that cannot be heard, the status says so within 15 s of silence, and it
// resumes by itself.
class ClusterMembersResolver final : public ResolverBase {
 public:
  // Connects to nothing; finds the cluster file. Returns the errors of FindClusterFile() and
  // ClusterClient::Connect(), INVALID_ARGUMENT for other options that make no sense, and where
  // several clusters run and none is named.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ClusterMembersResolver>> Create(
      ClusterMembersResolverOptions options);
  ~ClusterMembersResolver() override;

  // FAILED_PRECONDITION, naming nodes, while some are missing; UNAVAILABLE if the coordinator
  // cannot be reached, or the cluster has ended or failed; the other errors of ClusterClient.
  [[nodiscard]] absl::StatusOr<ClusterSpec> cluster_spec() override;

  // Of a task given, or of this one: {"GPU": n} for the GPUs that the cluster dealt it, {} if none.
  // NOT_FOUND if there is no such task, FAILED_PRECONDITION before its node has reported itself.
  // Where no task is known: the GPUs of this host.
  [[nodiscard]] absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override;

  // `options` does not matter: nothing is polled.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(
      MembershipCallback callback, const WatchOptions& options) override;
  using ClusterResolver::Watch;

 protected:
  // Of the node that this process is, or was started by; nullopt if it is none of this cluster.
  absl::StatusOr<std::optional<std::string>> SourceTaskType() override;
  absl::StatusOr<std::optional<int>> SourceTaskId() override;

 private:
  class Impl;
  ClusterMembersResolver(BaseOptions base, std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_MEMBERS_RESOLVER_H_
