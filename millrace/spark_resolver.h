// File: millrace/spark_resolver.h
//
// The executors of a running Spark application as a ClusterResolver, from Spark's monitoring REST
// API: for clusters whose nodes run on executors and listen on ports that are agreed on.
//
// Defines: SparkResolverOptions, SparkResolver.
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<SparkResolver> resolver,
//       SparkResolver::Create({.url = "http://driver:4040",
//                              .jobs = {{"ps", 1}, {"worker", std::nullopt}}}));
//   resolver->cluster_spec();   // {"ps": ["h1:2222"], "worker": ["h1:2223", "h2:2222"]}
//
// A Millrace cluster on Spark knows its own addresses: ask its coordinator
// (cluster_members_resolver.h).

#ifndef MILLRACE_SPARK_RESOLVER_H_
#define MILLRACE_SPARK_RESOLVER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"
#include "millrace/membership.h"
#include "millrace/option_defaults.h"
#include "millrace/resolver_base.h"
#include "millrace/spark_executor.h"
#include "millrace/tls_options.h"

namespace millrace {

struct SparkResolverOptions {
  // The driver's UI ("http://driver:4040", 4041 for the second on a host, ...), a History Server
  // ("https://history:18480"), or a proxy of one of them, with its path.
  std::string url;
  // "app-...", with "/1" for its first attempt; the newest otherwise. Empty: the only one that
  // runs there.
  std::string application_id;
  TlsOptions tls;
  absl::Duration timeout = absl::Seconds(10);  // of one answer

  // Job to its number of tasks; nullopt, for one of them: all executors that the others leave, at
  // least one. Empty: all of them are workers.
  std::vector<std::pair<std::string, std::optional<int>>> jobs;
  // The port of jobs that `ports` does not name.
  int port_base = 2222;
  std::map<std::string, int> ports;

  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
  absl::Duration wait_timeout = kDefaultWaitTimeout;

  // Which executor this process runs on: its task is then this one's. Empty: SPARK_EXECUTOR_ID,
  // which Spark sets on Kubernetes.
  std::string executor_id;
  TaskProperties properties;
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// Members are the executors that are active and not excluded; the driver is not one. In the order
// of their ids they are dealt to ps, chief or master, evaluator, other jobs in the order given, and
// worker last. Executors that no job takes (the last ones) are not members.
//
// The k-th task on a host of the jobs that have the same port listens on that port + k. The host is
// the one by which executors know each other.
//
// An executor that Spark starts in place of a lost one has a new, higher id: the tasks after the
// lost one then move, ports included. A watch tells every move; with kRequireAll it first tells
// that one is missing. Programs that cannot follow should have a cluster that keeps its roles.
//
// TensorFlow has no such resolver, hence there is no ResolverBehavior.
//
// Thread safety: see ClusterResolver. Spark does not push: a watch asks.
class SparkResolver final : public ResolverBase {
 public:
  // Connects to nothing. Returns INVALID_ARGUMENT for options that make no sense.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SparkResolver>> Create(
      SparkResolverOptions options);
  ~SparkResolver() override;

  // FAILED_PRECONDITION ("have 3 of 4") while executors are missing; INVALID_ARGUMENT if the ports
  // of two tasks collide, or if several applications run there, which it names; UNAVAILABLE if
  // nobody answers there, or the application is just starting; DEADLINE_EXCEEDED; NOT_FOUND if
  // there is no such application, it has ended, or none runs; PERMISSION_DENIED where the UI has
  // ACLs; DATA_LOSS if what answers is no such API. All name the URL.
  [[nodiscard]] absl::StatusOr<ClusterSpec> cluster_spec() override;

  // Asks every `poll_interval`; never waits for completeness.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(
      MembershipCallback callback, const WatchOptions& options) override;
  using ClusterResolver::Watch;

  // Of a task given, or of this one: what Spark gave its executor, by resource name in capitals
  // ({"GPU": 2}). NOT_FOUND if there is no such task. Where no task is known: the GPUs of this
  // host.
  [[nodiscard]] absl::StatusOr<std::map<std::string, int>> num_accelerators(
      std::optional<std::string> task_type = std::nullopt,
      std::optional<int> task_id = std::nullopt) override;

  // The tasks with their executors: hosts, cores, addresses of GPUs. Errors as cluster_spec(),
  // never waits for completeness.
  [[nodiscard]] absl::StatusOr<std::vector<SparkTask>> Tasks();

 protected:
  // The task of `executor_id`; nullopt if that is not known or no member.
  absl::StatusOr<std::optional<std::string>> SourceTaskType() override;
  absl::StatusOr<std::optional<int>> SourceTaskId() override;

 private:
  class Impl;
  SparkResolver(BaseOptions base, std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_SPARK_RESOLVER_H_
