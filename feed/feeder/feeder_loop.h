// File: feed/feeder/feeder_loop.h
//
// The socket thread of a Feeder. Internal to feed/feeder/feeder.h.
//
// Defines: FeederLoop.

#ifndef FEED_FEEDER_FEEDER_LOOP_H_
#define FEED_FEEDER_FEEDER_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/feeder_link.h"
#include "feed/feeder/feeder_outbox.h"
#include "feed/feeder/feeder_session.h"
#include "feed/feeder/reply_sockets.h"
#include "feed/wire/frame.h"
#include "feed/wire/poller.h"
#include "feed/wire/socket_turns.h"
#include "feed/wire/zmq_socket.h"

namespace millrace {

// Thread safety: Run() is the thread; principal(), curve_key(), stats() and Serve() may be called
// from any other. The sockets are served by one thread at a time (feed/wire/socket_turns.h): that
// of Run(), or one in Serve().
class FeederLoop {
 public:
  // Binds the reply endpoints.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FeederLoop>> Create(
      const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
      std::shared_ptr<const WakeFd> wake);

  // Until the outbox is closed; then ends every session and closes the sockets.
  void Run();
  // As FeederOutbox::Serve.
  void Serve(absl::FunctionRef<AfterTurn()> after_turn, absl::Duration timeout);

  [[nodiscard]] const std::string& principal() const { return principal_; }
  [[nodiscard]] const std::string& curve_key() const { return curve_keys_.public_key; }
  [[nodiscard]] FeederStats stats() const;

 private:
  enum class Route { kIpc, kTcp, kCurve };
  // One node, by one of its endpoints.
  struct Connection {
    FeedTarget target;
    Route route = Route::kIpc;
    bool handshaken = false;  // ZMTP and ZAP are done
    // PLAIN: the node has shown that it is the node, by its login to the reply socket or by what it
    // sent over such a login of before. Until then another route, if there is one, is taken at this
    // time.
    bool proven = false;
    std::optional<absl::Duration> prove_by;  // steady
    // Somebody has tried, with another key: this route is left at prove_by in any case.
    bool falsely_proven = false;
    absl::Status earlier;                    // why the route before this one was left
    std::shared_ptr<FeederLink> link;        // nullptr until retry_at
    SegmentName segment_name;                // of segment; its sessions share it
    std::shared_ptr<FeederSegment> segment;  // nullptr: none was opened
    std::set<uint64_t> sessions;             // keys of sessions_ whose connection is this one
    // CURVE: the OPENs wait for the handshake, which tells where replies come in and whether the
    // node knows this feeder's key yet.
    std::string local_address;
    absl::Duration refused_until{};          // steady: a refusal before is no answer
    std::optional<absl::Duration> retry_at;  // steady
  };
  struct Entry {
    std::shared_ptr<FeedSession> session;
    Connection* connection = nullptr;  // nullptr once it is lost
    // Of the connection, once a result came through it: what came before the loss is read.
    std::shared_ptr<FeederSegment> segment;
    uint64_t in_seq = 0;
    // Of the connection its last reply came over, and to which reply socket.
    int reply_fd = -1;
    const ZmqSocket* reply_socket = nullptr;
    // The connection is lost; the session ends as kBroken then, or when its last reply is read.
    std::optional<absl::Duration> broken_by;
    absl::Status broken_why;
  };
  using ConnectionKey = std::pair<std::string, std::string>;  // endpoints; keys

  FeederLoop(const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
             std::shared_ptr<const WakeFd> wake, ZmqContext context, CurveKeys curve_keys);
  absl::Status Bind();
  // A node of this host has shown that it is the node; or it has not, or a stranger in its name.
  void OnLogin(const std::string& principal);
  void OnFalseLogin(const std::string& principal);
  [[nodiscard]] static const std::string& EndpointOf(const Connection& connection);
  [[nodiscard]] static std::string PlaceOf(const Connection& connection);
  [[nodiscard]] Route FirstRoute(const FeedTarget& target) const;

  // These want the sockets to be this thread's.
  void ClaimSockets();
  void RunTurn(absl::Duration timeout);

  // Commands.
  void Execute(FeederCommand command);
  void Open(const std::shared_ptr<FeedSession>& session);
  void SendOpen(Entry& entry);
  void CloseSession(uint64_t id);

  // Connections (feeder_loop_connections.cc).
  absl::StatusOr<Connection*> FindOrConnect(const FeedTarget& target);
  absl::Status Connect(Connection& connection);
  void Disconnect(Connection& connection);
  void HandleEvents(Connection& connection);
  // Sends the OPENs that waited for it.
  [[nodiscard]] absl::Status HandshakeDone(Connection& connection);
  [[nodiscard]] static bool HasOtherRoute(const Connection& connection);
  // False if there is none, or the node has been reached by this one.
  bool TakeOtherRoute(Connection& connection, const absl::Status& why);
  // False if this refusal is the last.
  bool TryAgainLater(Connection& connection);
  // Takes another route, or loses the connection.
  void Fail(Connection& connection, SessionEnd end, const absl::Status& why);
  void ExpectProof(Connection& connection, std::optional<absl::Duration> by);
  void Proven(Connection& connection);
  void NotProven(Connection& connection);
  [[nodiscard]] absl::Status FalseProofError(const Connection& connection) const;
  // The connections whose time, a member, has come.
  [[nodiscard]] std::vector<Connection*> Due(std::optional<absl::Duration> Connection::*time) const;
  void GiveUpUnproven();
  void ConnectAgain();
  // The connection is of no use: its sessions end as `end`, or, if that is kBroken, drain.
  void Lose(Connection& connection, SessionEnd end, const absl::Status& last);
  [[nodiscard]] std::vector<int> ReadClosed(ZmqSocket& reply);
  void HandleReplyEvents(const ZmqSocket& reply, const std::vector<int>& closed_fds);
  void Break(Entry& entry, const absl::Status& why);
  void EndBroken();
  absl::Duration PollTimeout() const;

  // Replies.
  void DrainReplies(ZmqSocket& reply);
  void HandleReply(const ZmqSocket& reply, std::vector<ZmqMessage> parts);
  absl::Status HandleFrame(const ZmqSocket& reply, absl::string_view principal,
                           std::vector<ZmqMessage>& parts);
  // SEGMENT.
  absl::Status OpenSegment(Entry& entry, const SegmentFrame& frame);
  // PLACED_RESULT.
  absl::Status ReadPlacedResult(Entry& entry, absl::string_view metadata);
  void AnswerForeign(absl::string_view principal, absl::string_view header,
                     const absl::Status& status);
  void Poison(absl::string_view principal, const absl::Status& reason);
  void EndAll(const absl::Status& status);

  template <typename F>
  void Count(F change) {
    MutexLock lock(&stats_mu_);
    change(stats_);
  }

  const FeederOptions options_;
  const std::shared_ptr<FeederOutbox> outbox_;
  const std::shared_ptr<const WakeFd> wake_;  // that the outbox wakes
  const std::string principal_;
  const CurveKeys curve_keys_;

  SocketTurns turns_;
  // Everything below, but for stats_, belongs to the thread that holds turns_.
  std::thread::id claimed_by_;
  absl::Status failure_;  // of a turn; no more are made

  ZmqContext context_;
  std::unique_ptr<ReplySockets> replies_;
  uint64_t logins_ = 0;  // made so far
  Poller poller_;

  std::map<ConnectionKey, std::unique_ptr<Connection>> connections_;
  absl::flat_hash_map<const ZmqSocket*, Connection*>
      by_socket_;  // connections_ by their links' sockets
  absl::flat_hash_map<uint64_t, Entry> sessions_;
  int waiting_ = 0;   // connections with retry_at
  int unproven_ = 0;  // connections with prove_by
  int draining_ = 0;  // entries with broken_by

  mutable Mutex stats_mu_;
  FeederStats stats_ ABSL_GUARDED_BY(stats_mu_);
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_LOOP_H_
