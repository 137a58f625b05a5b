// File: core/base/peer_version.h
//
// Which versions of Millrace work together: the rule of docs/compatibility.md.
//
// Defines: Versioned, CheckVersions(), kVersionMetadata.
//
//   MILLRACE_RETURN_IF_ERROR(CheckVersions({"this coordinator", kMillraceVersion},
//                                          {"the agent", hello.version()}));
//
// Whoever meets a peer first checks it, before anything is started for it.

#ifndef CORE_BASE_PEER_VERSION_H_
#define CORE_BASE_PEER_VERSION_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Under this key every gRPC call of Millrace says of which version its caller is.
inline constexpr char kVersionMetadata[] = "millrace-version";

struct Versioned {
  absl::string_view who;      // "the agent on host-3"
  absl::string_view version;  // "0.2.0"; of a peer, as it came
};

// OK where the first numbers are equal and the second ones at most one apart, from 0.2 on: 0.1 knew
// no such rule. Otherwise FAILED_PRECONDITION, naming both with their versions and what to install
// where. OK for a version that is none, or empty: then the protocols' own numbers are all there is.
[[nodiscard]] absl::Status CheckVersions(const Versioned& us, const Versioned& them);

}  // namespace millrace

#endif  // CORE_BASE_PEER_VERSION_H_
