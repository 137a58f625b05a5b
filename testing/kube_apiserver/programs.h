// File: testing/kube_apiserver/programs.h
//
// The programs that are built here, and ports for them.
//
// Defines: KubeProgramPath(), KubeProgramUnavailable(), FreeLoopbackPort().

#ifndef TESTING_KUBE_APISERVER_PROGRAMS_H_
#define TESTING_KUBE_APISERVER_PROGRAMS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace millrace {

// Of "etcd" or "kube-apiserver".
[[nodiscard]] std::string KubeProgramPath(const std::string& name);
// Why it is not there; nullopt if it is.
[[nodiscard]] std::optional<std::string> KubeProgramUnavailable(const std::string& name);

// Below the ports that the kernel gives to outgoing connections, so that it stays free while a
// server restarts.
[[nodiscard]] absl::StatusOr<int> FreeLoopbackPort();

}  // namespace millrace

#endif  // TESTING_KUBE_APISERVER_PROGRAMS_H_
