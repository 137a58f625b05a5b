#include "millrace/dns_resolver.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"
#include "resolver/dns/dns_query.h"
#include "resolver/member_completeness.h"
#include "resolver/natural_order.h"
#include "resolver/polling_watch.h"

namespace millrace {
namespace {

std::string Quote(absl::string_view text) { return Ellipsize(EscapeControls(text), 200); }

bool ComesFirst(const SrvRecord& a, const SrvRecord& b) {
  const auto order = NaturalCompare(a.target, b.target);
  return order == 0 ? a.port < b.port : order < 0;
}

absl::Status CheckOptions(const DnsResolverOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  if (options.jobs.empty()) {
    return absl::InvalidArgumentError("jobs must give a job at least, with the name of its tasks");
  }
  for (const auto& [job, name] : options.jobs) {
    if (job.empty() || name.empty()) {
      return absl::InvalidArgumentError("jobs: neither a job nor the name of its tasks is empty");
    }
    const auto same = [&job = job](const auto& other) { return other.first == job; };
    if (std::count_if(options.jobs.begin(), options.jobs.end(), same) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("jobs: ", Quote(job), " is given twice"));
    }
  }
  for (const auto& [job, expected] : options.expected_tasks) {
    const auto same = [&job = job](const auto& other) { return other.first == job; };
    if (expected < 0 || std::none_of(options.jobs.begin(), options.jobs.end(), same)) {
      return absl::InvalidArgumentError(absl::StrCat("expected_tasks of ", Quote(job),
                                                     " must be from 0 on, of a job that jobs has"));
    }
  }
  if (options.port < 1 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("port must be from 1 to 65535, found ", options.port));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("timeout must be above 0");
  }
  if (options.wait_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("wait_timeout must be above 0");
  }
  return CheckDnsServers({.addresses = options.servers, .timeout = options.timeout});
}

}  // namespace

class [[gnu::visibility("hidden")]] DnsResolver::Impl {
 public:
  explicit Impl(DnsResolverOptions options)
      : options_(std::move(options)),
        servers_{.addresses = options_.servers, .timeout = options_.timeout} {}

  [[nodiscard]] const DnsResolverOptions& options() const { return options_; }

  absl::StatusOr<ClusterSpec> Ask() const {
    ClusterSpec spec;
    std::vector<std::string> missing;
    for (const auto& [job, name] : options_.jobs) {
      MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> tasks, TasksAt(name));
      const auto expected = options_.expected_tasks.find(job);
      const size_t wanted = expected == options_.expected_tasks.end()
                                ? std::max<size_t>(tasks.size(), 1)
                                : static_cast<size_t>(expected->second);
      if (tasks.size() != wanted) {
        missing.push_back(
            absl::StrCat(Quote(job), " (", Quote(name), "): have ", tasks.size(), " of ", wanted));
      }
      MILLRACE_RETURN_IF_ERROR(spec.AddJob(job, std::move(tasks)));
    }
    if (!missing.empty() && options_.completeness != MemberCompleteness::kAvailable) {
      return absl::FailedPreconditionError(absl::StrCat("DNS: ", absl::StrJoin(missing, ", ")));
    }
    return spec;
  }

 private:
  absl::StatusOr<std::vector<std::string>> TasksAt(const std::string& name) const {
    std::vector<std::string> tasks;
    if (absl::StartsWith(name, "_")) {
      MILLRACE_ASSIGN_OR_RETURN(std::vector<SrvRecord> records, QuerySrv(servers_, name));
      std::sort(records.begin(), records.end(), ComesFirst);
      for (const SrvRecord& record : records) {
        tasks.push_back(FormatHostPort(record.target, record.port));
      }
      return tasks;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                              QueryAddresses(servers_, name));
    for (const std::string& address : addresses) {
      tasks.push_back(FormatHostPort(address, options_.port));
    }
    return tasks;
  }

  const DnsResolverOptions options_;
  const DnsServers servers_;
};

DnsResolver::DnsResolver(BaseOptions base, std::unique_ptr<Impl> impl)
    : ResolverBase(std::move(base)), impl_(std::move(impl)) {}

DnsResolver::~DnsResolver() = default;

absl::StatusOr<std::unique_ptr<DnsResolver>> DnsResolver::Create(DnsResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  BaseOptions base{.properties = options.properties,
                   .count_accelerators = options.count_accelerators};
  return std::unique_ptr<DnsResolver>(
      new DnsResolver(std::move(base), std::make_unique<Impl>(std::move(options))));
}

absl::StatusOr<ClusterSpec> DnsResolver::cluster_spec() {
  const auto ask = [this] { return impl_->Ask(); };
  if (impl_->options().completeness != MemberCompleteness::kWait) return ask();
  return AskUntilComplete(ask, impl_->options().wait_timeout);
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> DnsResolver::Watch(MembershipCallback callback,
                                                                    const WatchOptions& options) {
  return PollMembers([this] { return impl_->Ask(); }, std::move(callback), options);
}

}  // namespace millrace
