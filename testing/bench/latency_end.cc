// The answering process of //testing/bench:latency: a node whose program returns each row as its
// result, or a bare libzmq PULL and PUSH that do the same.
//
// Over stdin and stdout (json_child.h): takes {way: "ours" | "zmq", rows}, says where it listens;
// takes {"reply": endpoint}, answers `rows` rows and ends.

#include <zmq.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadlock_detector.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "feed/receiver/receiver.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/status_macros.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

absl::Status AnswerOurs(int64_t rows, JsonParent* parent) {
  MILLRACE_ASSIGN_OR_RETURN(
      auto receiver, FeedReceiver::Start({.node_name = "worker:0", .nonce = "5b0c9e1f22d3a4b6"}));
  MILLRACE_ASSIGN_OR_RETURN(auto feed, receiver->GetDataFeed({.train_mode = false}));
  JsonParent::Send({{"ipc", receiver->endpoints().ipc}, {"key", receiver->endpoints().key}});
  for (int64_t i = 0; i < rows; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(1));
    if (batch.empty()) return absl::InternalError("the rows ended early");
    MILLRACE_RETURN_IF_ERROR(feed->BatchResults(batch.record_batch()));
  }
  static_cast<void>(parent->Receive());  // the last answer has arrived
  return receiver->Finish(absl::OkStatus());
}

absl::Status AnswerZmq(int64_t rows, JsonParent* parent) {
  void* const context = zmq_ctx_new();
  void* const pull = zmq_socket(context, ZMQ_PULL);
  void* const push = zmq_socket(context, ZMQ_PUSH);
  const std::string endpoint = absl::StrCat("ipc://@millrace-bench-", RandomHex(8));
  if (zmq_bind(pull, endpoint.c_str()) != 0) return absl::UnavailableError("cannot bind");
  JsonParent::Send({{"ipc", endpoint}});
  const std::optional<Json> reply = parent->Receive();
  if (!reply.has_value()) return absl::OkStatus();
  if (zmq_connect(push, (*reply)["reply"].get<std::string>().c_str()) != 0) {
    return absl::UnavailableError("cannot connect");
  }
  for (int64_t i = 0; i < rows; ++i) {
    bool more = true;
    while (more) {  // each part goes back as it came
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, pull, 0) < 0) return absl::InternalError("cannot receive");
      more = zmq_msg_more(&part) != 0;
      if (zmq_msg_send(&part, push, more ? ZMQ_SNDMORE : 0) < 0) {
        return absl::InternalError("cannot send");
      }
    }
  }
  static_cast<void>(parent->Receive());
  zmq_close(pull);
  zmq_close(push);
  zmq_ctx_term(context);
  return absl::OkStatus();
}

absl::Status Run() {
  JsonParent parent;
  const std::optional<Json> task = parent.Receive();
  if (!task.has_value()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const std::string way, GetString(*task, "way"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t rows, GetInt(*task, "rows"));
  return way == "zmq" ? AnswerZmq(rows, &parent) : AnswerOurs(rows, &parent);
}

}  // namespace
}  // namespace millrace::bench

int main() {
  millrace::StopDeadlockDetector();  // as RunNode and the coordinator do
  return millrace::bench::JsonParent::ExitCode(millrace::bench::Run());
}
