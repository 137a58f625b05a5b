// File: testing/compatibility/conversation.h
//
// Calls of gRPC as they were recorded: their messages as bytes, in the order in which they passed.
//
// Defines: RootFile(), RecordedMessage, RecordedCall, FormatCalls(), ReadCalls(), CallsOf(),
// Play().
//
//   ASSERT_OK_AND_ASSIGN(auto calls, ReadCalls("testing/compatibility/0.2/calls.txt"));
//   const RecordedCall& attach = CallsOf(calls, "Coordinator/Attach").front();
//
// The text: "call <service>/<method>" and, each on a line of its own, the call's messages in
// base64, ">" from the client and "<" from the server; "end <code> <message>".

#ifndef TESTING_COMPATIBILITY_CONVERSATION_H_
#define TESTING_COMPATIBILITY_CONVERSATION_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/coordinator.pb.h"

namespace millrace::compatibility {

// A file of the repository, as tests and programs that Bazel runs find it.
[[nodiscard]] std::string RootFile(absl::string_view name);

struct RecordedMessage {
  bool from_client = false;
  std::string bytes;
};

struct RecordedCall {
  std::string method;  // "millrace.v1.Coordinator/Attach"
  std::vector<RecordedMessage> messages;
  absl::Status end;

  // All of one side, parsed by today's type; unknown fields are kept.
  template <typename Message>
  [[nodiscard]] std::vector<Message> From(bool client) const {
    std::vector<Message> parsed;
    for (const RecordedMessage& message : messages) {
      if (message.from_client != client) continue;
      parsed.emplace_back();
      if (!parsed.back().ParseFromString(message.bytes)) parsed.back().Clear();
    }
    return parsed;
  }
};

[[nodiscard]] std::string FormatCalls(const std::vector<RecordedCall>& calls);
// Returns INVALID_ARGUMENT naming the line, or the error of the file.
[[nodiscard]] absl::StatusOr<std::vector<RecordedCall>> ReadCalls(const std::string& path);
// Those whose method ends so.
[[nodiscard]] std::vector<RecordedCall> CallsOf(const std::vector<RecordedCall>& calls,
                                                absl::string_view method);

// What a message of Attach is, where its peer may wait for it; 0: a heartbeat, a sample, lines of
// output, which come when they come.
[[nodiscard]] inline int KindOf(const v1::AgentMessage& message) {
  switch (message.message_case()) {
    case v1::AgentMessage::kSample:
    case v1::AgentMessage::kLog:
    case v1::AgentMessage::kOutput:
      return 0;
    default:
      return message.message_case();
  }
}
[[nodiscard]] inline int KindOf(const v1::CoordinatorMessage& message) {
  return message.message_case();
}

// Plays one side of an Attach call over `stream`, a synchronous one of gRPC, until the recording
// ends: writes its messages, each after the peer has sent as many of each kind as it had in the
// recording. `await` is called with each recorded message of the peer that is waited for next.
// `received` gets what the peer sent. Returns false if the stream broke.
template <typename Out, typename In, typename Stream>
bool Play(const RecordedCall& call, bool as_client, Stream* stream,
          const std::function<void(const In& awaited)>& await, std::vector<In>* received) {
  std::map<int, int> seen;
  std::map<int, int> due;
  for (const RecordedMessage& recorded : call.messages) {
    if (recorded.from_client == as_client) {
      Out message;
      if (!message.ParseFromString(recorded.bytes) || !stream->Write(message)) return false;
      continue;
    }
    In awaited;
    if (!awaited.ParseFromString(recorded.bytes)) return false;
    const int kind = KindOf(awaited);
    if (kind == 0) continue;
    if (await != nullptr) await(awaited);
    ++due[kind];
    while (seen[kind] < due[kind]) {
      In message;
      if (!stream->Read(&message)) return false;
      ++seen[KindOf(message)];
      received->push_back(std::move(message));
    }
  }
  return true;
}

}  // namespace millrace::compatibility

#endif  // TESTING_COMPATIBILITY_CONVERSATION_H_
