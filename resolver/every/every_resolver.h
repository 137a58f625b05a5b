// File: resolver/every/every_resolver.h
//
// The makers of every type of resolver, for programs that do not know which one they are asked for.
//
// Defines: EveryResolverMaker().

#ifndef RESOLVER_EVERY_EVERY_RESOLVER_H_
#define RESOLVER_EVERY_EVERY_RESOLVER_H_

#include "resolver/resolver_from_json.h"

namespace millrace {

// The types that millrace/resolver.h lists.
[[nodiscard]] ResolverMakers EveryResolverMaker();

}  // namespace millrace

#endif  // RESOLVER_EVERY_EVERY_RESOLVER_H_
