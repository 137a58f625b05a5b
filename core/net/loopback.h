// File: core/net/loopback.h
//
// Whether a host is this one, whatever name it has elsewhere.
#ifndef CORE_NET_LOOPBACK_H_
#define CORE_NET_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace millrace {

// "localhost", ::1 (also in brackets), and addresses in 127.0.0.0/8; not a name such as
// 127.example.org, which may be any host. No name is looked up. Thread safety: pure function.
[[nodiscard]] bool IsLoopbackHost(absl::string_view host);

}  // namespace millrace

#endif  // CORE_NET_LOOPBACK_H_
