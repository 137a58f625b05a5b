// File: feed/wire/local_name.h
//
// Names of abstract sockets that tell which network namespace they are in (docs/feed_protocol.md,
// section 9): in another one, or on another host, the same name may be somebody else's.
//
// Defines: MakeLocalName(), LocalNamePlace, WhereLocalName().
//
//   MILLRACE_ASSIGN_OR_RETURN(std::string endpoint, pull.Bind(MakeLocalName()));
//   if (WhereLocalName(target.ipc_endpoint) == LocalNamePlace::kHere) ...

#ifndef FEED_WIRE_LOCAL_NAME_H_
#define FEED_WIRE_LOCAL_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// "ipc://@millrace-<place>-<random>", fresh; "ipc://@millrace-<random>" if the system does not tell
// the place (no /proc). Thread safety: thread-safe.
[[nodiscard]] std::string MakeLocalName();

enum class LocalNamePlace {
  kHere,       // what has the name is in this process's namespace, or nobody has it
  kElsewhere,  // it is in another
  kUnknown,    // the name, or this system, does not tell
};

// Thread safety: thread-safe.
[[nodiscard]] LocalNamePlace WhereLocalName(absl::string_view endpoint);

}  // namespace millrace

#endif  // FEED_WIRE_LOCAL_NAME_H_
