// File: resolver/spark/cluster_members.h
//
// The members of a Millrace cluster, from what its coordinator tells.
//
// Defines: MembersOf().

#ifndef RESOLVER_SPARK_CLUSTER_MEMBERS_H_
#define RESOLVER_SPARK_CLUSTER_MEMBERS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/client/cluster_view.h"
#include "millrace/cluster_spec.h"
#include "millrace/member_completeness.h"

namespace millrace {

// The members as `view` has them; errors as ClusterMembersResolver::cluster_spec() without those of
// reaching it. `address` is the coordinator's, for messages. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<ClusterSpec> MembersOf(const ClusterView& view,
                                                    MemberCompleteness completeness,
                                                    absl::string_view address);

}  // namespace millrace

#endif  // RESOLVER_SPARK_CLUSTER_MEMBERS_H_
