// File: millrace/dns_resolver.h
//
// Members that name servers know as a ClusterResolver: SRV records, and the addresses of a name,
// such as that of a headless service of Kubernetes.
//
// Defines: DnsResolverOptions, DnsResolver.
//
//   MILLRACE_ASSIGN_OR_RETURN(
//       std::unique_ptr<DnsResolver> resolver,
//       DnsResolver::Create({.jobs = {{"worker", "_agent._tcp.train.example.org"}}}));
//   resolver->cluster_spec();   // {"worker": ["w-0.train.example.org:7077", ...]}

#ifndef MILLRACE_DNS_RESOLVER_H_
#define MILLRACE_DNS_RESOLVER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"
#include "millrace/membership.h"
#include "millrace/option_defaults.h"
#include "millrace/resolver_base.h"

namespace millrace {

struct DnsResolverOptions {
  // Job to the name whose records are its tasks, in order. A name that begins with "_" has SRV
  // records ("_agent._tcp.train.example.org"), any other one addresses.
  std::vector<std::pair<std::string, std::string>> jobs;
  int port = 8470;  // of addresses; SRV records have their own

  MemberCompleteness completeness = MemberCompleteness::kRequireAll;
  // Job to its number of tasks. A job that is not named must have one at least.
  std::map<std::string, int> expected_tasks;
  absl::Duration wait_timeout = kDefaultWaitTimeout;

  // "10.0.0.10", "10.0.0.10:53" or "[fd00::10]:53". Empty: those of /etc/resolv.conf.
  std::vector<std::string> servers;
  absl::Duration timeout = absl::Seconds(5);  // of one answer

  TaskProperties properties;
  AcceleratorCounter count_accelerators;  // see ResolverBase
};

// Names are asked for as they are, without search domains. A name that does not exist, or has no
// such record, is a job without tasks: so are headless services none of whose pods is ready.
//
// Tasks of SRV records are at their targets and ports, in the order of the targets' names (w-2
// before w-10), so that tasks whose names have numbers keep their places; priorities and weights do
// not count. Tasks of addresses, IPv4 and IPv6, are in the order of the addresses, so that a task
// that comes or goes moves those after it: prefer SRV records.
//
// TensorFlow has no such resolver, hence there is no ResolverBehavior.
//
// Thread safety: see ClusterResolver. Name servers do not push: a watch asks at intervals, whatever
// the records' times to live, and never waits for completeness.
class DnsResolver final : public ResolverBase {
 public:
  // Asks nobody. Returns INVALID_ARGUMENT for options that make no sense.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<DnsResolver>> Create(
      DnsResolverOptions options);
  ~DnsResolver() override;

  // FAILED_PRECONDITION ("have 3 of 4") while tasks are missing; UNAVAILABLE if no name server
  // answers, or one cannot; DEADLINE_EXCEEDED; DATA_LOSS if an answer is malformed. All name the
  // name that was asked for.
  [[nodiscard]] absl::StatusOr<ClusterSpec> cluster_spec() override;
  [[nodiscard]] absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(
      MembershipCallback callback, const WatchOptions& options) override;
  using ClusterResolver::Watch;

 private:
  class Impl;
  DnsResolver(BaseOptions base, std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_DNS_RESOLVER_H_
