// File: feed/receiver/raw_feeder.h
//
// A feeder for tests of the node side that sends exactly what it is told, right or wrong: sockets
// and frames, no sessions, no credit. Test only.
//
//   RawFeeder feeder(receiver->endpoints().ipc, receiver->endpoints().key);
//   ASSERT_TRUE(feeder.Connect());
//   feeder.Send({.type = FrameType::kOpen, .session = 7}, EncodeOpen(feeder.Open("nonce")));
//   EXPECT_TRUE(feeder.Await(7, FrameType::kCredit).has_value());

#ifndef FEED_RECEIVER_RAW_FEEDER_H_
#define FEED_RECEIVER_RAW_FEEDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "feed/ipc/ipc.h"
#include "feed/wire/frame.h"
#include "feed/wire/zap_server.h"
#include "feed/wire/zmq_socket.h"
#include "millrace/record_batch.h"

namespace millrace {

// Thread safety: one thread. Blocking: Connect and the Await calls, up to `patience`.
class RawFeeder {
 public:
  struct Reply {
    FrameHeader header;
    std::string metadata;
    std::vector<std::string> body;
  };

  // `endpoint` and `key` of the node. Ends the process if the system has no sockets left.
  RawFeeder(const std::string& endpoint, const std::string& key,
            std::string principal = "feeder/raw");
  ~RawFeeder();

  // Connects and waits for the handshake; false if it fails.
  [[nodiscard]] bool Connect();

  // OPEN's content with this feeder's reply endpoint: train, queue "input", feed "f1", partition 0.
  [[nodiscard]] OpenFrame Open(const std::string& nonce) const;

  // metadata_length is set from `metadata`.
  void Send(FrameHeader header, absl::string_view metadata, const std::vector<BodyPart>& body = {});
  void SendParts(const std::vector<std::string>& parts);
  void SendSchema(uint64_t session, uint64_t seq, const Schema& schema);
  void SendBatch(uint64_t session, uint64_t seq, int64_t first_row, const RecordBatch& rows);

  // The next reply of this session, or of this type, skipping others of the session; nullopt if
  // none comes within `patience`. Replies of other sessions are kept.
  [[nodiscard]] std::optional<Reply> Await(uint64_t session);
  [[nodiscard]] std::optional<Reply> Await(uint64_t session, FrameType type);
  // The ERROR of this session; kOk if none comes.
  [[nodiscard]] ErrorFrame AwaitError(uint64_t session);
  // True if a reply of the session has come or comes within `wait`.
  [[nodiscard]] bool HasReply(uint64_t session, absl::Duration wait);
  // Waits until the node's connection to the reply endpoint is gone.
  [[nodiscard]] bool AwaitReplyLoss();

  // The connection is gone; messages on their way still arrive.
  void CloseData() { push_.Close(); }

  absl::Duration patience = absl::Seconds(40);
  // What the reply socket expects of the node; a test may send another.
  std::string challenge;

 private:
  // Takes what has come; waits up to `timeout` for something.
  void Turn(absl::Duration timeout);

  const std::string endpoint_;
  const std::string key_;
  const std::string principal_;
  ZmqContext context_;
  std::optional<ZapServer> zap_;
  ZmqSocket push_;
  ZmqSocket pull_;
  std::string reply_endpoint_;
  std::vector<Reply> replies_;
  std::vector<ZmqEvent> push_events_;
  std::vector<ZmqEvent> pull_events_;
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RAW_FEEDER_H_
