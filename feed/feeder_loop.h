// File: feed/feeder_loop.h
//
// The socket thread of a Feeder. Internal to feed/feeder.h.
//
// Defines: FeederLoop.

#ifndef FEED_FEEDER_LOOP_H_
#define FEED_FEEDER_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/feeder.h"
#include "feed/feeder_outbox.h"
#include "feed/feeder_session.h"
#include "feed/frame.h"
#include "feed/zmq_socket.h"

namespace millrace {

// Thread safety: Run() is the thread; principal() and stats() may be called from any other.
class FeederLoop {
 public:
  // Binds the reply endpoints.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FeederLoop>> Create(
      const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox);

  // Until the outbox is closed; then ends every session and closes the sockets.
  void Run();

  [[nodiscard]] const std::string& principal() const { return principal_; }
  [[nodiscard]] FeederStats stats() const;

 private:
  // One node endpoint.
  struct Connection {
    FeedTarget target;
    bool tcp = false;         // connected to target.tcp_endpoint, not to ipc_endpoint
    bool handshaken = false;  // ZMTP and ZAP are done
    ZmqSocket push;
    std::set<uint64_t> sessions;  // keys of sessions_ whose connection is this one
  };
  struct Entry {
    std::shared_ptr<FeedSession> session;
    Connection* connection = nullptr;  // nullptr once it is lost
    uint64_t out_seq = 0;
    uint64_t in_seq = 0;
    int reply_fd = -1;  // of the connection its last reply came over
    // The connection is lost; the session ends as kBroken then, or when its last reply is read.
    std::optional<absl::Duration> broken_by;
    absl::Status broken_why;
  };
  using ConnectionKey = std::pair<std::string, std::string>;  // ipc and tcp endpoint; key

  FeederLoop(const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
             ZmqContext context);
  absl::Status Bind();
  std::optional<std::string> Admit(const ZapRequest& request);

  // Commands.
  void Execute(FeederCommand command);
  void Open(const std::shared_ptr<FeedSession>& session);
  void SendOpen(Entry& entry);
  void SendFrame(Entry& entry, FrameType type, std::string metadata, std::vector<BodyPart> parts);
  void CloseSession(uint64_t id, std::string abort);

  // Connections.
  absl::StatusOr<Connection*> FindOrConnect(const FeedTarget& target);
  absl::Status Connect(Connection& connection);
  void HandleEvents(Connection& connection);
  // The connection is of no use: its sessions end as `end`, or, if that is kBroken, drain.
  void Lose(Connection& connection, SessionEnd end, const absl::Status& why);
  void HandleReplyEvents(const std::vector<int>& closed_fds);
  void Break(Entry& entry, const absl::Status& why);
  void EndBroken();
  absl::Duration PollTimeout() const;

  // Replies.
  void DrainReplies();
  void HandleReply(std::vector<ZmqMessage> parts);
  absl::Status HandleFrame(absl::string_view principal, std::vector<ZmqMessage>& parts);
  absl::Status Dispatch(FeedSession& session, const FrameHeader& header,
                        std::vector<ZmqMessage>& parts);
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
  const std::string principal_;
  const std::string reply_key_;

  ZmqContext context_;
  std::optional<ZapServer> zap_;
  ZmqSocket reply_;
  std::string reply_ipc_;
  std::string reply_tcp_;
  Poller poller_;

  std::map<ConnectionKey, std::unique_ptr<Connection>> connections_;
  absl::flat_hash_map<const ZmqSocket*, Connection*> by_socket_;  // connections_ by their `push`
  absl::flat_hash_map<uint64_t, Entry> sessions_;
  std::set<std::string, std::less<>> poisoned_;  // principals; bounded by the attempts of all nodes
  int draining_ = 0;                             // entries with broken_by

  mutable Mutex stats_mu_;
  FeederStats stats_ ABSL_GUARDED_BY(stats_mu_);
};

}  // namespace millrace

#endif  // FEED_FEEDER_LOOP_H_
