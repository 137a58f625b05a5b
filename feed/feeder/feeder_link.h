// File: feed/feeder/feeder_link.h
//
// A feeder's connection to a node, as the sessions with that node share it: frames go out from the
// thread that makes them, without a hand-over to the feeder's socket thread. Internal to
// feed/feeder/feeder.h.
//
// Defines: FeederLink.

#ifndef FEED_FEEDER_FEEDER_LINK_H_
#define FEED_FEEDER_FEEDER_LINK_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "feed/feeder/session_socket_side.h"
#include "feed/ipc/ipc.h"
#include "feed/wire/frame.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// Thread safety: thread-safe, but for socket(). Blocking: never, beyond its lock.
// Ownership: shared by the socket thread, which closes it, and the sessions, which may outlive it.
class FeederLink final : public SessionLink {
 public:
  // `push` is connecting and has a monitor.
  explicit FeederLink(ZmqSocket push) : push_(std::move(push)) { push_.DetachMessagesFromThread(); }

  // Errors as ZmqSocket::Send().
  absl::StatusOr<bool> Send(FrameHeader header, const std::string& metadata,
                            std::vector<BodyPart> body) override {
    header.metadata_length = static_cast<uint32_t>(metadata.size());
    std::vector<ZmqMessage> message;
    message.reserve(2 + body.size());
    message.push_back(ZmqMessage::Copy(EncodeHeader(header)));
    if (!metadata.empty()) message.push_back(ZmqMessage::Copy(metadata));
    for (BodyPart& part : body) {
      message.push_back(ZmqMessage::FromBuffer(part.data, part.size, std::move(part.owner)));
    }
    MutexLock lock(&mu_);
    if (!push_.open()) return false;
    absl::StatusOr<bool> sent = push_.Send(std::move(message));
    push_.DetachMessagesFromThread();  // the lock hands it over
    return sent;
  }

  // Idempotent.
  void Close() {
    MutexLock lock(&mu_);
    push_.Close();
  }

  // For its events alone, which belong to the socket thread as Close() does.
  [[nodiscard]] ZmqSocket& socket() { return push_; }

 private:
  Mutex mu_;
  ZmqSocket push_;  // messages: guarded by mu_
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_LINK_H_
