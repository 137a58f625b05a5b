// File: resolver/dns/dns_query.h
//
// Questions to name servers, over c-ares: SRV records and addresses.
//
// Defines: DnsServers, SrvRecord, QuerySrv(), QueryAddresses(), CheckDnsServers().

#ifndef RESOLVER_DNS_DNS_QUERY_H_
#define RESOLVER_DNS_DNS_QUERY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millrace {

struct DnsServers {
  std::vector<std::string> addresses;  // empty: those of /etc/resolv.conf
  absl::Duration timeout;              // of one question, over all servers and attempts
};

struct SrvRecord {
  std::string target;
  int port = 0;
};

// INVALID_ARGUMENT if one is no address with or without a port.
[[nodiscard]] absl::Status CheckDnsServers(const DnsServers& servers);

// Empty for a name that does not exist or has no such record. Errors as
// DnsResolver::cluster_spec(). Thread safety: thread-safe. Blocking: `timeout` at most.
[[nodiscard]] absl::StatusOr<std::vector<SrvRecord>> QuerySrv(const DnsServers& servers,
                                                              const std::string& name);
// IPv4 first, each in the order of the bytes.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> QueryAddresses(const DnsServers& servers,
                                                                      const std::string& name);

}  // namespace millrace

#endif  // RESOLVER_DNS_DNS_QUERY_H_
