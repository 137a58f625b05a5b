// File: feed/feeder/fake_feed_node.h
//
// The node's end of the feed protocol, scripted frame by frame: for tests of the feeder that need a
// node to do what no real one does, or to do it at a given moment. Test only. (Tests of how both
// ends work together use feed/receiver/receiver.h.)
//
// Defines: FakeFeedNode.
//
//   FakeFeedNode node("worker:0", FakeFeedNode::ReadAll());
//   directory.Set(node.target());
//   ...
//   node.Post([](FakeFeedNode::Session& session) { session.Ack(64); });
//   node.Kill();

#ifndef FEED_FEEDER_FAKE_FEED_NODE_H_
#define FEED_FEEDER_FAKE_FEED_NODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "feed/feeder/node_directory.h"
#include "feed/ipc/ipc.h"
#include "feed/wire/frame.h"
#include "feed/wire/login.h"
#include "feed/wire/poller.h"
#include "feed/wire/zap_server.h"
#include "feed/wire/zmq_socket.h"
#include "millrace/record_batch.h"

namespace millrace {

// Owns a thread, on which scripts and posted functions run.
// Thread safety: thread-safe.
class FakeFeedNode {
 public:
  // One session; for scripts and posted functions. Counters are of the session.
  class Session {
   public:
    uint64_t id = 0;
    OpenFrame open;
    int64_t received_bytes = 0;  // of batches
    int64_t needed = 0;          // of the last BLOCKED
    int64_t row = 0;             // rows before it were received
    std::optional<int64_t> end_row;
    std::optional<ErrorFrame> abort;
    std::vector<RecordBatch> batches;
    bool ended = false;  // something final was sent
    std::string user;    // for the script to remember things in

    void Credit(int64_t limit, int64_t released);
    // Credit for everything, nothing outstanding.
    void CreditAll();
    // For the batch of the last BLOCKED.
    void CreditNeeded();
    void Wait(int64_t position, int64_t progress);
    void Received(int64_t row);
    void Ack(int64_t row);
    void Revoked(int64_t row);
    // `batch` as the results from `first_row` on; SCHEMA goes before the first.
    void Result(const RecordBatch& batch, int64_t first_row);
    void Done(int64_t rows_in, int64_t rows_out);
    void Terminated(int64_t row = 0);
    void Error(const absl::Status& status, bool program_ended = false);
    // A frame of any kind with the right seq; and any message at all.
    void Frame(FrameHeader header, const std::string& metadata,
               const std::vector<std::string>& body = {});
    void Raw(const std::vector<std::string>& parts);
    // The next frames' seq is off by this much.
    void SkipSeq(uint64_t by) { seq_ += by; }

   private:
    friend class FakeFeedNode;
    FakeFeedNode* node_ = nullptr;
    std::string reply_;
    uint64_t seq_ = 0;
    uint64_t in_seq_ = 0;
    bool schema_sent_ = false;
    std::optional<BatchDecoder> decoder_;
  };

  // Called after each frame, once the session's members say what it brought.
  using Script = std::function<void(Session&, FrameType)>;

  // Ready-made scripts: take everything and acknowledge it at once; answer each batch with itself;
  // accept and receive, but acknowledge nothing; say nothing.
  static Script ReadAll();
  static Script Echo();
  static Script ReceiveOnly();
  static Script Mute();

  // `reply_key`: of which its logins to reply endpoints are, if not of its own key.
  explicit FakeFeedNode(std::string name, Script script, std::string nonce = "",
                        std::string reply_key = "");
  ~FakeFeedNode() { Kill(); }
  FakeFeedNode(const FakeFeedNode&) = delete;
  FakeFeedNode& operator=(const FakeFeedNode&) = delete;

  // How to reach it; state kRunning.
  [[nodiscard]] FeedTarget target() const;

  // Runs `f` for each open session, on the node's thread; returns when it has.
  void Post(std::function<void(Session&)> f);
  // Closes the socket that receives, and returns when it has; replies may still be sent. Not for
  // scripts.
  void CloseData();
  // Closes every socket, as death does.
  void Kill();

  // Everything that arrived, in order.
  struct Event {
    FrameType type;
    uint64_t session;
    uint64_t seq;
    OpenFrame open;  // of its session
    int64_t first_row = 0;
    int64_t rows = 0;   // of a batch; of REVOKE: max_row
    int64_t bytes = 0;  // of a batch; of BLOCKED: what is needed
    std::optional<ErrorFrame> abort;
  };
  [[nodiscard]] std::vector<Event> events() const;
  // The same as messages: the parts of each.
  [[nodiscard]] std::vector<std::vector<std::string>> messages() const;
  // Blocks until `condition`, for 40 s at most; whether it holds.
  bool WaitFor(const std::function<bool(const std::vector<Event>&)>& condition) const;
  // Of all batches: the values of their first column, an int64.
  [[nodiscard]] std::vector<int64_t> values() const;

 private:
  void Run();
  void Receive();
  void Handle(std::vector<ZmqMessage> parts);
  void RunPosted();
  void SendTo(const Session& session, const std::vector<std::string>& parts);

  const std::string name_;
  const std::string nonce_;
  const std::string key_;
  const std::string reply_key_;
  FeederLogins logins_;
  const Script script_;
  ZmqContext context_;
  std::optional<ZapServer> zap_;
  ZmqSocket pull_;
  std::string ipc_;
  std::string tcp_;
  std::optional<WakeFd> wake_;
  std::map<std::string, ZmqSocket> replies_;  // by endpoint
  std::map<uint64_t, Session> sessions_;

  mutable Mutex mu_;
  mutable CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool close_data_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_data_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void(Session&)> posted_ ABSL_GUARDED_BY(mu_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
  std::vector<std::vector<std::string>> messages_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> values_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

}  // namespace millrace

#endif  // FEED_FEEDER_FAKE_FEED_NODE_H_
