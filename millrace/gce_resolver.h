// File: millrace/gce_resolver.h
//
// The instances of a Google Compute Engine instance group as a ClusterResolver; TensorFlow's
// GCEClusterResolver.
//
// Defines: GceResolverOptions, GceResolver.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<GceResolver> resolver,
//                             GceResolver::Create({.instance_group = "train", .port = 7077}));
//   resolver->cluster_spec();   // {"worker": ["10.128.0.5:7077", "10.128.0.9:7077"]}

#ifndef MILLRACE_GCE_RESOLVER_H_
#define MILLRACE_GCE_RESOLVER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"
#include "millrace/option_defaults.h"
#include "millrace/resolver_base.h"
#include "millrace/tls_options.h"

namespace millrace {

struct GceResolverOptions {
  ResolverBehavior behavior = ResolverBehavior::kCorrect;
  // Empty: those of the instance on which this process runs (kTensorFlow: required).
  std::string project;
  std::string zone;
  std::string instance_group;  // a zonal one, managed or not
  int port = 8470;             // of every instance
  // With kTensorFlow in place of `port`: it takes any text.
  std::optional<std::string> port_text;

  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
  // How many instances there must be. Nullopt: as many as the group has, at least one.
  std::optional<int> expected_tasks;
  absl::Duration wait_timeout = kDefaultWaitTimeout;

  // Holds an access token, as `gcloud auth print-access-token` prints it; read for every request.
  // Empty: the token of this instance's service account, from the metadata server.
  std::string token_file;
  absl::Duration timeout = absl::Seconds(10);  // of one answer
  std::string api_url = "https://compute.googleapis.com/compute/v1";
  // Empty: http://metadata.google.internal, or the host in GCE_METADATA_HOST.
  std::string metadata_url;
  TlsOptions tls;  // of the API

  // task_type: the job of the instances, "worker" if not set. rpc_layer: "grpc" if not set, none if
  // it is "".
  TaskProperties properties;
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// Every instance of the group is a task of one job, at its internal address (IPv6 where it has no
// IPv4), in the order of the names (train-2 before train-10). Instances that stop or have stopped
// are not members; those that are being started are members that are missing. Task id: that of the
// instance on which this process runs, by the name that the metadata server says, unless there is
// a token_file; nullopt if it is not a member.
//
// One request lists 500 instances of the group, and one more asks for each instance's address: a
// large group should not be watched at the shortest intervals. Each token comes afresh. The token's
// account needs compute.instanceGroups.list and compute.instances.get (roles/compute.viewer), and
// an instance the scope compute-ro.
//
// With kTensorFlow: only running instances are asked for, and addresses are in the order of texts
// (10.0.0.100:1 before 10.0.0.9:1); an empty group is a KeyError; the task id is 0 unless it is
// set; the task type cannot be set anew. TensorFlow 2.21 names an argument of the API wrongly, so
// that it works only with a service object of one's own; here it asks as it means to.
//
// Thread safety: see ClusterResolver. GCE does not push: a watch asks at intervals, and never
// waits for completeness.
class GceResolver : public ResolverBase {
 public:
  // Connects to nothing. Returns INVALID_ARGUMENT for options that make no sense.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GceResolver>> Create(
      GceResolverOptions options);
  ~GceResolver() override;

  // FAILED_PRECONDITION ("have 3 of 4") while instances are missing, or where there is no metadata
  // server to say who this is; NOT_FOUND if there is no such group; UNAUTHENTICATED and
  // PERMISSION_DENIED, which say what the account needs; INVALID_ARGUMENT for what the API does not
  // take; UNAVAILABLE if it cannot be reached or has too much to do; DEADLINE_EXCEEDED; DATA_LOSS
  // if what answers is no such API. All name the URL.
  [[nodiscard]] absl::StatusOr<ClusterSpec> cluster_spec() override = 0;

 protected:
  explicit GceResolver(const GceResolverOptions& options);
};

}  // namespace millrace

#endif  // MILLRACE_GCE_RESOLVER_H_
