#include "resolver/gce/gce_group_resolver.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"
#include "resolver/gce/gce_client.h"
#include "resolver/member_completeness.h"
#include "resolver/natural_order.h"
#include "resolver/polling_watch.h"

namespace millrace {
namespace {

constexpr size_t kMaxNamed = 5;

struct Member {
  std::string name;
  std::string host;
};

struct Group {
  std::vector<Member> members;       // in order
  std::vector<std::string> missing;  // "train-3 (STAGING)"
};

std::string Quote(absl::string_view text) { return Ellipsize(EscapeControls(text), 100); }

// It ends or has ended: nobody waits for it.
bool HasEnded(absl::string_view status) {
  for (const absl::string_view ended : {"STOPPING", "STOPPED", "SUSPENDING", "SUSPENDED",
                                        "TERMINATED", "DEPROVISIONING", "PENDING_STOP"}) {
    if (status == ended) return true;
  }
  return false;
}

// Its internal address; empty if it has none yet.
std::string AddressOf(const Json& instance) {
  const auto interfaces = instance.find("networkInterfaces");
  if (interfaces == instance.end() || !interfaces->is_array() || interfaces->empty()) return "";
  for (const char* key : {"networkIP", "ipv6Address"}) {
    const absl::StatusOr<std::string> address = GetStringOr(interfaces->front(), key, "");
    if (address.ok() && !address->empty()) return *address;
  }
  return "";
}

class GceGroupResolver final : public GceResolver {
 public:
  GceGroupResolver(GceResolverOptions options, std::unique_ptr<GceClient> client)
      : GceResolver(options), options_(std::move(options)), client_(std::move(client)) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override {
    if (options_.completeness != MemberCompleteness::kWait) return Ask();
    return AskUntilComplete([this] { return Ask(); }, options_.wait_timeout);
  }

  absl::StatusOr<std::unique_ptr<MembershipWatch>> Watch(MembershipCallback callback,
                                                         const WatchOptions& options) override {
    return PollMembers([this] { return Ask(); }, std::move(callback), options);
  }

 protected:
  absl::StatusOr<std::optional<int>> SourceTaskId() override {
    if (!options_.token_file.empty()) return std::nullopt;
    MILLRACE_ASSIGN_OR_RETURN(const std::string own, client_->OwnName());
    MILLRACE_ASSIGN_OR_RETURN(const Group group, AskGroup());
    for (size_t i = 0; i < group.members.size(); ++i) {
      if (group.members[i].name == own) return static_cast<int>(i);
    }
    return std::nullopt;
  }

 private:
  absl::StatusOr<Group> AskGroup() {
    MILLRACE_ASSIGN_OR_RETURN(const GceGroupName name,
                              client_->Complete({.project = options_.project,
                                                 .zone = options_.zone,
                                                 .instance_group = options_.instance_group}));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<GceGroupPage> pages,
                              client_->ListGroup(name, "ALL"));
    Group group;
    for (const GceGroupPage& page : pages) {
      for (const GceGroupPage::Entry& entry : page.entries) {
        MILLRACE_RETURN_IF_ERROR(Add(name, entry, &group));
      }
    }
    std::sort(group.members.begin(), group.members.end(),
              [](const Member& a, const Member& b) { return NaturalCompare(a.name, b.name) < 0; });
    return group;
  }

  absl::Status Add(const GceGroupName& name, const GceGroupPage::Entry& entry, Group* group) {
    if (HasEnded(entry.status)) return absl::OkStatus();
    if (entry.status != "RUNNING") {
      group->missing.push_back(absl::StrCat(Quote(entry.name), " (", Quote(entry.status), ")"));
      return absl::OkStatus();
    }
    const absl::StatusOr<Json> instance = client_->Instance(name, entry.name);
    // Deleted since it was listed.
    if (absl::IsNotFound(instance.status())) return absl::OkStatus();
    if (!instance.ok()) return instance.status();
    std::string host = AddressOf(*instance);
    if (host.empty()) {
      group->missing.push_back(absl::StrCat(Quote(entry.name), " (no address)"));
    } else {
      group->members.push_back({.name = entry.name, .host = std::move(host)});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ClusterSpec> Ask() {
    MILLRACE_ASSIGN_OR_RETURN(Group group, AskGroup());
    const size_t wanted = options_.expected_tasks.has_value()
                              ? static_cast<size_t>(*options_.expected_tasks)
                              : std::max<size_t>(1, group.members.size() + group.missing.size());
    if (options_.completeness != MemberCompleteness::kAvailable &&
        (group.members.size() != wanted || !group.missing.empty())) {
      if (group.missing.size() > kMaxNamed) {
        group.missing.resize(kMaxNamed);
        group.missing.push_back("...");
      }
      return absl::FailedPreconditionError(absl::StrCat(
          "instance group ", Quote(options_.instance_group), ": have ", group.members.size(),
          " of ", wanted,
          group.missing.empty() ? "" : ", not running yet: ", absl::StrJoin(group.missing, ", ")));
    }
    std::vector<std::string> addresses;
    for (const Member& member : group.members) {
      addresses.push_back(FormatHostPort(member.host, options_.port));
    }
    ClusterSpec spec;
    MILLRACE_RETURN_IF_ERROR(
        spec.AddJob(options_.properties.task_type.value_or("worker"), std::move(addresses)));
    return spec;
  }

  const GceResolverOptions options_;
  const std::unique_ptr<GceClient> client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GceResolver>> MakeGceGroupResolver(GceResolverOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckTaskId(options.properties.task_id));
  if (options.instance_group.empty()) {
    return absl::InvalidArgumentError("instance_group must name an instance group");
  }
  if (options.port < 1 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("port must be from 1 to 65535, found ", options.port));
  }
  if (options.expected_tasks.value_or(1) < 1) {
    return absl::InvalidArgumentError("expected_tasks must be at least 1");
  }
  if (options.wait_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("wait_timeout must be above 0");
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<GceClient> client, GceClient::Create(options));
  return std::make_unique<GceGroupResolver>(std::move(options), std::move(client));
}

GceResolver::GceResolver(const GceResolverOptions& options)
    : ResolverBase({.properties = {.task_type = options.properties.task_type.value_or("worker"),
                                   .task_id = options.properties.task_id,
                                   .rpc_layer = options.properties.rpc_layer.value_or("grpc")},
                    .count_accelerators = options.count_accelerators}) {}

GceResolver::~GceResolver() = default;

}  // namespace millrace
