// File: resolver/gce/gce_group_resolver.h
//
// A GceResolver (millrace/gce_resolver.h) that answers for all instances of a group.
//
// Defines: MakeGceGroupResolver().

#ifndef RESOLVER_GCE_GCE_GROUP_RESOLVER_H_
#define RESOLVER_GCE_GCE_GROUP_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "millrace/gce_resolver.h"

namespace millrace {

// What GceResolver::Create() makes with kCorrect.
[[nodiscard]] absl::StatusOr<std::unique_ptr<GceResolver>> MakeGceGroupResolver(
    GceResolverOptions options);

}  // namespace millrace

#endif  // RESOLVER_GCE_GCE_GROUP_RESOLVER_H_
