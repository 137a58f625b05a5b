// File: feed/receiver/receiver_loop.h
//
// The sockets of a node's side of the feed, and the threads that serve them in turns: a data PULL
// for this host and one for others, one reply PUSH per feeder, ZAP, monitors. It turns messages
// into calls of ReceiverCore and what is due into messages.
//
// Defines: ReceiverLoop.
//
// Whatever a peer sends costs at most its own connection: a frame that no honest feeder would send
// poisons its principal (docs/feed_protocol.md, section 7).

#ifndef FEED_RECEIVER_RECEIVER_LOOP_H_
#define FEED_RECEIVER_RECEIVER_LOOP_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/net/port_range.h"
#include "feed/ipc/ipc.h"
#include "feed/receiver/receiver_core.h"
#include "feed/receiver/receiver_segments.h"
#include "feed/receiver/receiver_waker.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"
#include "feed/wire/login.h"
#include "feed/wire/poller.h"
#include "feed/wire/socket_turns.h"
#include "feed/wire/zap_server.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// Where feeders connect.
struct FeedEndpoints {
  std::string tcp;  // "tcp://127.0.0.1:40123"
  std::string ipc;  // of MakeLocalName()
  std::string key;  // what PLAIN logins of both prove to know (feed/wire/login.h), hex; secret
  // For feeders on other hosts; empty if the node was given no address to be reached at.
  std::string curve;      // "tcp://10.0.0.7:40124"
  std::string curve_key;  // Z85, public; of this server, and of the node as a client
};

// Thread safety: Run() on the socket thread, everything else public anywhere. The sockets are
// served by one thread at a time (feed/wire/socket_turns.h): the socket thread, or one in Serve()
// or Flush().
class ReceiverLoop {
 public:
  struct Options {
    std::string nonce;
    Clock* clock = nullptr;      // not owned
    PortRange tcp_ports;         // {0, 0}: any
    std::string advertise_host;  // where other hosts reach this one; empty: no CURVE endpoint
    int64_t shared_bytes = 0;    // of all segments together; 0: no shared memory
  };

  // Binds. Returns RESOURCE_EXHAUSTED without descriptors or a free port in the range,
  // INVALID_ARGUMENT if the nonce does not fit into a principal, UNAVAILABLE if nothing can be
  // bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ReceiverLoop>> Create(
      const Options& options, std::shared_ptr<ReceiverCore> core,
      std::shared_ptr<ReceiverWaker> waker);

  [[nodiscard]] const FeedEndpoints& endpoints() const { return endpoints_; }

  // From here on the feeder with this CURVE key (Z85) is admitted, as `principal`. Idempotent.
  // Returns INVALID_ARGUMENT for what is no principal of a feeder or no key, ALREADY_EXISTS if the
  // principal has another key or the key is another's, RESOURCE_EXHAUSTED beyond 65,536 feeders.
  [[nodiscard]] absl::Status AnnounceFeeder(absl::string_view principal,
                                            absl::string_view curve_key);

  // Serves until Stop(), then sends what is due and closes every socket.
  void Run();
  // As ReceiverCore::Serve.
  void Serve(absl::FunctionRef<AfterTurn()> after_turn);
  // Sends what is due: here if nobody is serving, otherwise whoever is does it soon. Does not
  // block.
  void Flush();
  // What is queued by then may still be sent for `flush`. Idempotent.
  void Stop(absl::Duration flush);

 private:
  // A data PULL. Descriptors of connections are known per socket: their events come in order only
  // within one.
  struct DataSocket {
    ZmqSocket socket;
    bool curve = false;
    absl::flat_hash_map<int, uint64_t> connections;  // by descriptor: those that are up
  };
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
        waker_(std::move(waker)),
        segments_(options.shared_bytes) {}

  [[nodiscard]] absl::Status Bind();
  [[nodiscard]] absl::Status BindCurve();
  [[nodiscard]] std::optional<std::string> Admit(const ZapRequest& request);
  [[nodiscard]] std::optional<std::string> FindAnnounced(const std::string& curve_key) const;
  // These want the sockets to be this thread's.
  void ClaimSockets();
  void RunTurn();
  [[nodiscard]] absl::Status WaitAndRead(absl::Duration timeout);
  [[nodiscard]] absl::Duration Transmit();
  void Send(OutgoingFrame frame);
  [[nodiscard]] absl::Status ReadData(DataSocket* data);
  [[nodiscard]] absl::Status ReadDataEvents(DataSocket* data, std::vector<uint64_t>* lost);
  [[nodiscard]] absl::Status ReadMessages(DataSocket* data, int limit);
  [[nodiscard]] absl::Status ReadLinks();
  void CloseAll();

  // Messages (receiver_loop_messages.cc).
  void HandleMessage(DataSocket* data, std::vector<ZmqMessage> parts);
  [[nodiscard]] absl::Status HandleFrame(DataSocket* data, const std::string& principal,
                                         const FrameHeader& header, std::vector<ZmqMessage>* parts);
  [[nodiscard]] absl::Status HandleOpen(DataSocket* data, const std::string& principal,
                                        const FrameHeader& header, absl::string_view metadata,
                                        int fd, absl::Status refusal);
  void HandleForeign(DataSocket* data, const std::string& principal,
                     const std::vector<ZmqMessage>& parts, const absl::Status& status);
  [[nodiscard]] absl::Status HandleOfEnded(uint64_t connection, const FrameHeader& header,
                                           absl::string_view metadata);
  // Of a session that is open: ABORT, and what follows CREDIT.
  [[nodiscard]] absl::Status HandleAbort(Sessions::iterator it, absl::string_view metadata);
  [[nodiscard]] absl::Status HandleInSession(Sessions::iterator it, FrameType type,
                                             std::vector<ZmqMessage>* parts);
  [[nodiscard]] absl::Status HandleSchema(Session* session, absl::string_view metadata);
  [[nodiscard]] absl::Status HandleBatch(Session* session, std::vector<ZmqMessage>* parts);
  [[nodiscard]] absl::Status HandlePlaced(Session* session, absl::string_view metadata);
  [[nodiscard]] absl::Status AddBatch(Session* session, absl::string_view metadata, int64_t bytes,
                                      std::vector<BodyPart> body, bool placed);

  // Links.
  // The segment for a session, if it asks for one and there is one.
  [[nodiscard]] SessionSegment SegmentFor(const std::string& principal, const PendingOpen& pending);
  // The link to a reply endpoint, made if there is none; nullopt if it is none to connect to, for a
  // session that came over CURVE or not.
  [[nodiscard]] std::optional<uint64_t> FindLink(const std::string& principal,
                                                 const ReplyEndpoint& reply, bool curve);
  void LinkUp(uint64_t id);
  void LinkLost(uint64_t id);
  void ConnectionLost(uint64_t connection);
  void OpenOnLink(uint64_t link_id, const std::string& principal, PendingOpen pending);
  // ERROR to a session, now or when its reply link is up.
  void FailSession(Sessions::iterator it, const absl::Status& status);
  void Poison(const std::string& principal, const absl::Status& status);

  const Options options_;
  FeedEndpoints endpoints_;
  std::atomic<int64_t> flush_ms_{0};
  mutable Mutex announced_mu_;
  // Feeders by CURVE key, as the 32 bytes that ZAP tells, and their keys by principal.
  absl::flat_hash_map<std::string, std::string> announced_ ABSL_GUARDED_BY(announced_mu_);
  std::map<std::string, std::string, std::less<>> announced_keys_ ABSL_GUARDED_BY(announced_mu_);

  SocketTurns turns_;
  // Everything below belongs to the thread that holds turns_. The context outlives the sockets.
  std::thread::id claimed_by_;
  absl::Status failure_;               // of a turn; no more are made
  std::optional<ZmqContext> context_;  // none once it is closed
  const std::shared_ptr<ReceiverCore> core_;
  const std::shared_ptr<ReceiverWaker> waker_;
  std::optional<ZapServer> zap_;
  std::optional<FeederLogins> logins_;
  DataSocket local_;  // PLAIN
  DataSocket curve_;  // its socket is closed without an advertised host
  CurveKeys curve_keys_;
  Poller poller_;
  uint64_t next_id_ = 1;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Link>> links_;
  Sessions sessions_;
  ReceiverSegments segments_;
  absl::flat_hash_set<std::string> poisoned_;  // principals
  std::deque<std::string> poisoned_in_order_;  // the same
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_LOOP_H_
