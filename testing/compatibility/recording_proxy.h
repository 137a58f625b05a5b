// File: testing/compatibility/recording_proxy.h
//
// Stands between a coordinator and its agents, viewers and operators, and notes what they say.
//
// Defines: RecordingProxy.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto proxy, RecordingProxy::Start(*coordinator));
//   ... agents dial proxy->address(), and trust proxy->ca_pem() ...
//   FormatCalls(proxy->TakeCalls());

#ifndef TESTING_COMPATIBILITY_RECORDING_PROXY_H_
#define TESTING_COMPATIBILITY_RECORDING_PROXY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/coordinator/coordinator.h"
#include "testing/compatibility/conversation.h"

namespace millrace::compatibility {

// Passes on tokens and versions, which are metadata, and does not note them: no secret is in a
// recording. Thread safety: thread-safe. Blocking: the destructor, for calls that are under way.
class RecordingProxy {
 public:
  // The coordinator outlives it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordingProxy>> Start(
      const Coordinator& coordinator);
  virtual ~RecordingProxy() = default;

  [[nodiscard]] virtual const std::string& address() const = 0;
  [[nodiscard]] virtual const std::string& ca_pem() const = 0;
  // In the order in which they began.
  [[nodiscard]] virtual std::vector<RecordedCall> TakeCalls() = 0;
};

}  // namespace millrace::compatibility

#endif  // TESTING_COMPATIBILITY_RECORDING_PROXY_H_
