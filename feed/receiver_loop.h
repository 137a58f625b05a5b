// File: feed/receiver_loop.h
//
// The sockets of a node's side of the feed, and the one thread that owns them: data PULL, one reply
// PUSH per feeder, ZAP, monitors. It turns messages into calls of ReceiverCore and what is due into
// messages.
//
// Defines: ReceiverLoop.
//
// Whatever a peer sends costs at most its own connection: a frame that no honest feeder would send
// poisons its principal (docs/feed_protocol.md, section 7).

#ifndef FEED_RECEIVER_LOOP_H_
#define FEED_RECEIVER_LOOP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/port_range.h"
#include "feed/frame.h"
#include "feed/ipc.h"
#include "feed/receiver_core.h"
#include "feed/receiver_waker.h"
#include "feed/zmq_socket.h"

namespace millrace {

// Where feeders connect.
struct FeedEndpoints {
  std::string tcp;  // "tcp://127.0.0.1:40123"
  std::string ipc;  // "ipc://@millrace-..."
  std::string key;  // PLAIN password, hex; secret
};

// Thread safety: Create() and endpoints() anywhere; Run() on the socket thread; Stop() anywhere.
class ReceiverLoop {
 public:
  struct Options {
    std::string nonce;
    Clock* clock = nullptr;  // not owned
    PortRange tcp_ports;     // {0, 0}: any
  };

  // Binds. Returns RESOURCE_EXHAUSTED without descriptors or a free port in the range,
  // INVALID_ARGUMENT if the nonce does not fit into a principal, UNAVAILABLE if nothing can be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ReceiverLoop>> Create(
      const Options& options, std::shared_ptr<ReceiverCore> core,
      std::shared_ptr<ReceiverWaker> waker);

  [[nodiscard]] const FeedEndpoints& endpoints() const { return endpoints_; }

  // Serves until Stop(), then sends what is due and closes every socket.
  void Run();
  // What is queued by then may still go out for `flush`. Idempotent.
  void Stop(absl::Duration flush);

 private:
  // An OPEN whose reply link is not up yet.
  struct PendingOpen {
    uint64_t session = 0;
    uint64_t connection = 0;
    OpenFrame open;
    absl::Status refusal;  // if not OK, the session is only answered
  };
  // A reply connection.
  struct Link {
    std::string principal;
    ReplyEndpoint reply;
    ZmqSocket socket;
    bool up = false;
    absl::Duration deadline{};  // steady; for the handshake
    std::vector<PendingOpen> pending;
  };
  struct Session {
    ReceiverCore::SessionPtr core;  // nullptr while its link is not up
    uint64_t link = 0;
    uint64_t connection = 0;
    uint64_t next_seq = 1;
    std::optional<BatchDecoder> decoder;
    bool failed = false;  // ERROR was said; what is still under way is dropped
  };
  using SessionKey = std::pair<std::string, uint64_t>;  // principal, session
  using Sessions = absl::flat_hash_map<SessionKey, Session>;

  ReceiverLoop(const Options& options, ZmqContext context, std::shared_ptr<ReceiverCore> core,
               std::shared_ptr<ReceiverWaker> waker)
      : options_(options),
        context_(std::move(context)),
        core_(std::move(core)),
        waker_(std::move(waker)) {}

  [[nodiscard]] absl::Status Bind();
  absl::StatusOr<std::string> BindTcp();
  [[nodiscard]] std::optional<std::string> Admit(const ZapRequest& request) const;
  [[nodiscard]] absl::Status RunTurns();
  [[nodiscard]] absl::Duration Transmit();
  void Send(OutgoingFrame frame);
  [[nodiscard]] absl::Status ReadData();
  [[nodiscard]] absl::Status ReadDataEvents(std::vector<uint64_t>* lost);
  [[nodiscard]] absl::Status ReadMessages(int limit);
  [[nodiscard]] absl::Status ReadLinks();
  void CloseAll();

  void HandleMessage(std::vector<ZmqMessage> parts);
  [[nodiscard]] absl::Status HandleFrame(const std::string& principal, const FrameHeader& header,
                                         std::vector<ZmqMessage>* parts);
  [[nodiscard]] absl::Status HandleOpen(const std::string& principal, const FrameHeader& header,
                                        absl::string_view metadata, int fd, absl::Status refusal);
  void HandleForeign(const std::string& principal, const std::vector<ZmqMessage>& parts);
  [[nodiscard]] absl::Status HandleSchema(Session* session, absl::string_view metadata);
  [[nodiscard]] absl::Status HandleBatch(Session* session, std::vector<ZmqMessage>* parts);

  // The link to a reply endpoint, made if there is none; nullopt if it is none to connect to.
  [[nodiscard]] std::optional<uint64_t> FindLink(const std::string& principal,
                                                 const ReplyEndpoint& reply);
  void LinkUp(uint64_t id);
  void LinkLost(uint64_t id);
  void ConnectionLost(uint64_t connection);
  void OpenOnLink(uint64_t link_id, const std::string& principal, PendingOpen pending);
  // ERROR to a session, now or when its reply link is up.
  void FailSession(Sessions::iterator it, const absl::Status& status);
  void Poison(const std::string& principal, const absl::Status& status);

  const Options options_;
  FeedEndpoints endpoints_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> flush_ms_{0};

  // Everything below belongs to the socket thread once Run() has begun. The context outlives the
  // sockets.
  ZmqContext context_;
  const std::shared_ptr<ReceiverCore> core_;
  const std::shared_ptr<ReceiverWaker> waker_;
  std::optional<ZapServer> zap_;
  ZmqSocket data_;
  Poller poller_;
  uint64_t next_id_ = 1;
  absl::flat_hash_map<int, uint64_t> connections_;  // by descriptor: those that are up
  absl::flat_hash_map<uint64_t, std::unique_ptr<Link>> links_;
  Sessions sessions_;
  absl::flat_hash_set<std::string> poisoned_;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_LOOP_H_
