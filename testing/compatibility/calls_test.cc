// Today's programs with the other side of calls that were recorded of older ones.

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/agent/agent_harness.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/client/cluster_view.h"
#include "core/client/raw_cluster_client.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/operator.grpc.pb.h"
#include "core/proto/watch.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "testing/compatibility/cluster.h"
#include "testing/compatibility/conversation.h"
#include "testing/compatibility/local_server.h"
#include "testing/compatibility/proto_fields.h"

namespace millrace::compatibility {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Seconds(40);
constexpr char kOlder[] = "testing/compatibility/0.2";

std::vector<RecordedCall> Older() {
  auto calls = ReadCalls(RootFile(absl::StrCat(kOlder, "/calls.txt")));
  EXPECT_THAT(calls, IsOk());
  return *std::move(calls);
}

RecordedCall OneOf(const std::vector<RecordedCall>& calls, absl::string_view method) {
  std::vector<RecordedCall> found = CallsOf(calls, method);
  EXPECT_FALSE(found.empty()) << method;
  return found.empty() ? RecordedCall() : found.front();
}

// What is the same whenever it is said.
template <typename Message, typename Case>
std::vector<std::string> Said(const std::vector<Message>& messages, Case kind) {
  std::vector<std::string> said;
  for (const Message& message : messages) {
    if (message.message_case() == kind) said.push_back(message.ShortDebugString());
  }
  return said;
}

void Prepare(const std::string& token, grpc::ClientContext* context) {
  context->AddMetadata("authorization", absl::StrCat("Bearer ", token));
  context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kLong));
}

// ---- an older agent, viewer and operator, and today's coordinator -------------------------------

class OlderPeersTest : public ::testing::Test {
 protected:
  OlderPeersTest() : folder_(*TempDir::Create("compatibility")) {
    // The program of then.
    const std::string path = JoinPath(folder_.path(), "program");
    std::string program;
    for (const auto& chunk :
         OneOf(calls_, "Coordinator/FetchProgram").From<v1::ProgramChunk>(false)) {
      program += chunk.data();
    }
    EXPECT_THAT(WriteFileAtomic(path, program), IsOk());
    coordinator_ = *Coordinator::Start(RecordedClusterOptions(path));
    control_ = v1::ClusterControl::NewStub(Channel(coordinator_->viewer_identity_pem()));
    view_ = v1::ClusterView::NewStub(Channel(coordinator_->viewer_identity_pem()));
    agents_ = v1::Coordinator::NewStub(Channel(coordinator_->agent_identity_pem()));
  }

  std::shared_ptr<grpc::Channel> Channel(const std::string& identity) const {
    return MakeAgentChannel(coordinator_->address(), coordinator_->ca_pem(), identity);
  }

  // One call of an operator as it was recorded, to today's coordinator. Whether the answer is that
  // of the recording.
  template <typename Request, typename Reply>
  void Replay(const RecordedCall& call,
              grpc::Status (v1::ClusterControl::Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Reply*)) {
    grpc::ClientContext context;
    Prepare(coordinator_->tokens().operator_token, &context);
    Reply reply;
    const grpc::Status status =
        (control_.get()->*method)(&context, call.From<Request>(true).front(), &reply);
    EXPECT_EQ(static_cast<int>(status.error_code()), call.end.raw_code()) << status.error_message();
    for (const Reply& recorded : call.From<Reply>(false)) {
      EXPECT_EQ(reply.ShortDebugString(), recorded.ShortDebugString()) << call.method;
    }
  }

  // What had the coordinator say this in the recording.
  void Provoke(const v1::CoordinatorMessage& awaited) {
    if (awaited.has_feed_end() && !fed_) {
      ASSERT_THAT(coordinator_->OpenFeed(awaited.feed_end().feed_id(), "input", 1), IsOk());
      coordinator_->FeedEnd(awaited.feed_end().feed_id(), awaited.feed_end().aborted());
      coordinator_->EndFeed("input");
      fed_ = true;
    }
    if (!awaited.has_stop()) return;
    if (awaited.stop().restart()) {
      for (const RecordedCall& kv : CallsOf(calls_, "ClusterControl/Kv")) {
        Replay(kv, &v1::ClusterControl::Stub::Kv);
      }
      Replay(OneOf(calls_, "ClusterControl/ListKeys"), &v1::ClusterControl::Stub::ListKeys);
      Replay(OneOf(calls_, "ClusterControl/RestartNode"), &v1::ClusterControl::Stub::RestartNode);
    } else {
      Replay(OneOf(calls_, "ClusterControl/StopCluster"), &v1::ClusterControl::Stub::StopCluster);
    }
  }

  const std::vector<RecordedCall> calls_ = Older();
  const TempDir folder_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<v1::ClusterControl::Stub> control_;
  std::unique_ptr<v1::ClusterView::Stub> view_;
  std::unique_ptr<v1::Coordinator::Stub> agents_;
  bool fed_ = false;
};

TEST_F(OlderPeersTest, AnAgentAndItsOperatorAreAnsweredAsThen) {
  const RecordedCall call = OneOf(calls_, "Coordinator/Attach");
  grpc::ClientContext context;
  Prepare(coordinator_->tokens().agent, &context);
  const auto stream = agents_->Attach(&context);
  std::vector<v1::CoordinatorMessage> now;
  const bool played = Play<v1::AgentMessage, v1::CoordinatorMessage>(
      call, /*as_client=*/true, stream.get(),
      [this](const v1::CoordinatorMessage& awaited) { Provoke(awaited); }, &now);
  stream->WritesDone();
  v1::CoordinatorMessage rest;
  while (stream->Read(&rest)) now.push_back(rest);
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(played && status.ok()) << status.error_message();

  const auto then = call.From<v1::CoordinatorMessage>(false);
  for (const auto kind : {v1::CoordinatorMessage::kKv, v1::CoordinatorMessage::kBarrier,
                          v1::CoordinatorMessage::kFeedEnd, v1::CoordinatorMessage::kEndFeed,
                          v1::CoordinatorMessage::kStop, v1::CoordinatorMessage::kEqual}) {
    EXPECT_EQ(Said(now, kind), Said(then, kind));
  }
  const SlotStatus slot = coordinator_->Snapshot().slots.front();
  EXPECT_EQ(slot.state, SlotState::kFinished);
  EXPECT_EQ(slot.attempt, 1u);
  EXPECT_THAT(coordinator_->first_cause(), IsOk());
}

TEST_F(OlderPeersTest, AnAgentFetchesTheProgram) {
  const RecordedCall call = OneOf(calls_, "Coordinator/FetchProgram");
  auto request = call.From<v1::FetchProgramRequest>(true).front();
  grpc::ClientContext context;
  Prepare(coordinator_->tokens().agent, &context);
  auto reader = agents_->FetchProgram(&context, request);
  v1::ProgramChunk chunk;
  std::string now;
  while (reader->Read(&chunk)) now += chunk.data();
  EXPECT_TRUE(reader->Finish().ok());
  std::string then;
  for (const auto& part : call.From<v1::ProgramChunk>(false)) then += part.data();
  EXPECT_EQ(now, then);
}

TEST_F(OlderPeersTest, AViewerIsShownTheCluster) {
  const RecordedCall call = OneOf(calls_, "ClusterView/Watch");
  grpc::ClientContext context;
  Prepare(coordinator_->tokens().viewer, &context);
  auto reader = view_->Watch(&context, call.From<v1::WatchRequest>(true).front());
  v1::WatchUpdate now;
  ASSERT_TRUE(reader->Read(&now));
  context.TryCancel();
  const v1::WatchUpdate then = call.From<v1::WatchUpdate>(false).front();
  EXPECT_EQ(now.snapshot(), then.snapshot());
  EXPECT_EQ(now.cluster().cluster_id(), then.cluster().cluster_id());
  EXPECT_EQ(now.cluster().num_slots(), then.cluster().num_slots());
  EXPECT_EQ(now.slots_size(), then.slots_size());
}

// ---- today's agent and viewer, and an older coordinator -----------------------------------------

class OlderCoordinator final : public v1::Coordinator::Service, public v1::ClusterView::Service {
 public:
  OlderCoordinator() : calls_(Older()) {
    auto server = LocalServer::Start({static_cast<v1::Coordinator::Service*>(this),
                                      static_cast<v1::ClusterView::Service*>(this)});
    EXPECT_THAT(server, IsOk());
    server_ = *std::move(server);
  }

  [[nodiscard]] const LocalServer& server() const { return *server_; }
  [[nodiscard]] const std::vector<RecordedCall>& calls() const { return calls_; }
  // Of the agent, once it has ended.
  [[nodiscard]] const std::vector<v1::AgentMessage>& heard() const { return heard_; }

 private:
  grpc::Status Attach(
      grpc::ServerContext* /*context*/,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>* stream) override {
    const bool played = Play<v1::CoordinatorMessage, v1::AgentMessage>(
        OneOf(calls_, "Coordinator/Attach"), /*as_client=*/false, stream, nullptr, &heard_);
    v1::AgentMessage rest;
    while (stream->Read(&rest)) heard_.push_back(rest);
    return played ? grpc::Status::OK : grpc::Status(grpc::StatusCode::CANCELLED, "not as then");
  }
  grpc::Status FetchProgram(grpc::ServerContext* /*context*/,
                            const v1::FetchProgramRequest* /*request*/,
                            grpc::ServerWriter<v1::ProgramChunk>* writer) override {
    for (const auto& chunk :
         OneOf(calls_, "Coordinator/FetchProgram").From<v1::ProgramChunk>(false)) {
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }
  grpc::Status Watch(grpc::ServerContext* /*context*/, const v1::WatchRequest* /*request*/,
                     grpc::ServerWriter<v1::WatchUpdate>* writer) override {
    for (const auto& update : OneOf(calls_, "ClusterView/Watch").From<v1::WatchUpdate>(false)) {
      writer->Write(update);
    }
    return grpc::Status::OK;
  }

  const std::vector<RecordedCall> calls_;
  std::vector<v1::AgentMessage> heard_;
  std::unique_ptr<LocalServer> server_;
};

TEST(OlderCoordinatorTest, AnAgentRunsItsNodeAsThen) {
  OlderCoordinator coordinator;
  AgentHarness agent;
  agent.Start({{"coordinator", Json{{"address", coordinator.server().address()},
                                    {"ca_pem", coordinator.server().ca_pem()},
                                    {"identity_pem", coordinator.server().identity_pem()},
                                    {"token", "t"}}},
               {"executor_id", 0}});
  EXPECT_EQ(agent.WaitExit(), 0) << agent.stderr_text();
  const auto then = OneOf(coordinator.calls(), "Coordinator/Attach").From<v1::AgentMessage>(true);
  for (const auto kind : {v1::AgentMessage::kEndpoints, v1::AgentMessage::kKv,
                          v1::AgentMessage::kBarrier, v1::AgentMessage::kEqualJoin}) {
    EXPECT_EQ(Said(coordinator.heard(), kind), Said(then, kind));
  }
  const auto states = [](const std::vector<v1::AgentMessage>& messages) {
    std::vector<std::pair<int, uint32_t>> states;
    for (const v1::AgentMessage& message : messages) {
      if (message.has_node()) states.emplace_back(message.node().state(), message.node().attempt());
    }
    return states;
  };
  EXPECT_EQ(states(coordinator.heard()), states(then));
}

TEST(OlderCoordinatorTest, AViewerSeesTheClusterToItsEnd) {
  const OlderCoordinator coordinator;
  const auto client =
      RawClusterClient::Connect({.address = coordinator.server().address(),
                                 .ca_pem = coordinator.server().ca_pem(),
                                 .identity_pem = coordinator.server().identity_pem(),
                                 .viewer_token = "t"});
  ASSERT_THAT(client, IsOk());
  Notification over;
  ClusterView last;
  const auto watch = (*client)->Watch({.log_lines = 100},
                                      {.on_update = [&](const v1::WatchUpdate& /*update*/,
                                                        const ClusterView& view) { last = view; },
                                       .on_state =
                                           [&](const WatchState& state) {
                                             if (state.kind == WatchState::Kind::kGone)
                                               over.Notify();
                                           }});
  ASSERT_THAT(watch, IsOk());
  ASSERT_TRUE(over.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(last.cluster().cluster_id(), "recorded");
  ASSERT_NE(last.FindSlot("worker:0"), nullptr);
  EXPECT_EQ(last.FindSlot("worker:0")->state(), v1::SLOT_STATE_FINISHED);
  EXPECT_EQ(last.FindSlot("worker:0")->attempt(), 1u);
  EXPECT_FALSE(last.events().empty());
}

// ---- what the bytes mean ------------------------------------------------------------------------

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::erase_if(lines, [](const std::string& line) { return line.front() == '#'; });
  return lines;
}

TEST(ProtoFieldsTest, NothingThatWasSaidMeansSomethingElseNow) {
  const auto then = ReadFile(RootFile(absl::StrCat(kOlder, "/messages.txt")));
  ASSERT_THAT(then, IsOk());
  std::vector<std::string> now = Lines(ProtoFieldsText());
  std::sort(now.begin(), now.end());
  std::string lost;
  for (const std::string& line : Lines(*then)) {
    if (!std::binary_search(now.begin(), now.end(), line)) absl::StrAppend(&lost, line, "\n");
  }
  EXPECT_EQ(lost, "") << "these were removed, renumbered, renamed or have another type; "
                         "docs/compatibility.md says how a message may change";
  EXPECT_THAT(Lines(*then), Not(IsEmpty()));
}

}  // namespace
}  // namespace millrace::compatibility
