// File: core/agent/modes/adopt_stream.h
//
// The agent's end of one Adopt call.
//
// Defines: AdoptStream.

#ifndef CORE_AGENT_MODES_ADOPT_STREAM_H_
#define CORE_AGENT_MODES_ADOPT_STREAM_H_

#include <string>

#include "absl/status/status.h"
#include "core/proto/adopt.pb.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: never.
class AdoptStream {
 public:
  virtual ~AdoptStream() = default;
  // Queues `event`; dropped once the call is closed or gone.
  virtual void Send(v1::AdoptEvent event) = 0;
  // Ends the call after what is queued. Idempotent.
  virtual void Close(const absl::Status& status) = 0;
  // The other end, numeric and without a port ("10.0.0.9").
  [[nodiscard]] virtual const std::string& peer_host() const = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_ADOPT_STREAM_H_
