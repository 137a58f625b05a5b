// File: core/cli/make_resolver.h
//
// Any membership source from its description in JSON: `millrace resolve` and `millrace run --on`.
#ifndef CORE_CLI_MAKE_RESOLVER_H_
#define CORE_CLI_MAKE_RESOLVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "millrace/cluster_resolver.h"

namespace millrace::cli {

// `tensorflow`: as TensorFlow's would answer. Errors as ResolverFromJson
// (resolver/resolver_from_json.h), but that no cluster runs is UNAVAILABLE. Thread safety: pure
// function. Blocking: reads files that the description names.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeResolver(
    const OrderedJson& description, bool tensorflow);

}  // namespace millrace::cli

#endif  // CORE_CLI_MAKE_RESOLVER_H_
