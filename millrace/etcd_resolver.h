// File: millrace/etcd_resolver.h
//
// Members that are keys in etcd as a ClusterResolver.
//
// Defines: EtcdResolverOptions, EtcdResolver.
//
//   $ etcdctl put /clusters/train/worker/0 h0:7077
//   $ etcdctl put /clusters/train/worker/1 h1:7077
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<EtcdResolver> resolver,
//       EtcdResolver::Create({.endpoints = {"https://etcd0:2379", "https://etcd1:2379"},
//                             .prefix = "/clusters/train"}));
//   resolver->cluster_spec();   // {"worker": ["h0:7077", "h1:7077"]}

#ifndef MILLRACE_ETCD_RESOLVER_H_
#define MILLRACE_ETCD_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"
#include "millrace/membership.h"
#include "millrace/option_defaults.h"
#include "millrace/resolver_base.h"
#include "millrace/tls_options.h"

namespace millrace {

struct EtcdResolverOptions {
  // URLs of the cluster's members, etcd 3.4 or later; the first that answers is asked.
  std::vector<std::string> endpoints;
  // Of the keys: PREFIX/JOB/INDEX.
  std::string prefix;

  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
  // Job to its number of tasks. A job that is not named has those that are there; without any job
  // here, there must be one task at least.
  std::map<std::string, int> expected_tasks;
  absl::Duration wait_timeout = kDefaultWaitTimeout;

  // A user of etcd and the file with the password, which is read for each login; both or neither.
  std::string user;
  std::string password_file;
  TlsOptions tls;
  // Our certificate and its key, PEM, for servers that ask for one; both or neither. Read by
  // Create().
  std::string certificate_file;
  std::string key_file;
  absl::Duration timeout = absl::Seconds(10);  // of one answer

  TaskProperties properties;
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// The value of a key PREFIX/JOB/INDEX is the address of that task. Whoever starts a task puts its
// key, with a lease so that it goes when the task does, or an operator does. All keys are read at
// one revision. Any other key below the prefix is an error: it would be a task that is missing.
//
// Asks etcd's JSON gateway, which listens at the same ports as its gRPC. The right to read the keys
// from PREFIX/ to PREFIX0 (etcdctl role grant-permission --prefix=true ROLE read PREFIX/) is all
// that it needs. That gateway takes no user from the name in a certificate: a user logs in by
// password.
//
// TensorFlow has no such resolver, hence there is no ResolverBehavior.
//
// Thread safety: see ClusterResolver.
class EtcdResolver final : public ResolverBase {
 public:
  // Connects to nothing. Returns INVALID_ARGUMENT for options that make no sense, and what reading
  // the files returns.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EtcdResolver>> Create(
      EtcdResolverOptions options);
  ~EtcdResolver() override;

  // FAILED_PRECONDITION ("have 3 of 4") while tasks are missing; INVALID_ARGUMENT for a key or a
  // value that is no task; UNAUTHENTICATED and PERMISSION_DENIED, which say what is needed;
  // UNAVAILABLE if no endpoint answers, with what each said; DEADLINE_EXCEEDED; DATA_LOSS if what
  // answers is no etcd.
  [[nodiscard]] absl::StatusOr<ClusterSpec> cluster_spec() override;

  // etcd pushes changes. While it cannot be heard it is asked every `poll_interval`; a stream is
  // renewed each minute, so that a network that has gone silent is noticed. Never waits for
  // completeness.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(
      MembershipCallback callback, const WatchOptions& options) override;
  using ClusterResolver::Watch;

 private:
  class Impl;
  EtcdResolver(BaseOptions base, std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_ETCD_RESOLVER_H_
