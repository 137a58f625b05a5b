#include "core/coordinator/server/coordinator_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/peer_version.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/base/version.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/net/sha256.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/time_proto.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<Coordinator> StartCluster(int num_executors, const std::string& shipped = "") {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = num_executors});
  options.program.path = shipped.empty() ? "/bin/true" : shipped;
  options.program.shipped = !shipped.empty();
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

std::unique_ptr<FakeAgent> Dial(const Coordinator& coordinator,
                                void (*change)(FakeAgentOptions&) = nullptr) {
  FakeAgentOptions options = FakeAgentOptions::For(coordinator);
  options.agent_id = "a";
  if (change != nullptr) change(options);
  return std::make_unique<FakeAgent>(options);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// A synchronous client of the other two methods.
class Reader {
 public:
  Reader(const Coordinator& coordinator, std::string token,
         std::shared_ptr<grpc::Channel> channel = nullptr)
      : token_(std::move(token)),
        stub_(v1::Coordinator::NewStub(
            channel != nullptr ? channel
                               : MakeAgentChannel(coordinator.address(), coordinator.ca_pem(),
                                                  coordinator.agent_identity_pem()))) {}

  absl::Status GetStatus(v1::ClusterStatus* response, absl::Duration timeout = absl::Seconds(30)) {
    grpc::ClientContext context;
    Prepare(context, timeout);
    return FromGrpc(stub_->GetStatus(&context, v1::GetStatusRequest(), response));
  }

  // `after_first`: called when the first chunk is there.
  absl::Status Fetch(
      const std::string& sha256, std::string* bytes, absl::Duration timeout = absl::Minutes(5),
      absl::FunctionRef<void(const grpc::ClientContext&)> after_first =
          [](const grpc::ClientContext&) {}) {
    grpc::ClientContext context;
    Prepare(context, timeout);
    v1::FetchProgramRequest request;
    request.set_sha256(sha256);
    auto reader = stub_->FetchProgram(&context, request);
    v1::ProgramChunk chunk;
    while (reader->Read(&chunk)) {
      EXPECT_LE(chunk.data().size(), size_t{1} << 20);
      if (bytes->empty()) after_first(context);
      bytes->append(chunk.data());
    }
    return FromGrpc(reader->Finish());
  }

 private:
  void Prepare(grpc::ClientContext& context, absl::Duration timeout) {
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }

  const std::string token_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
};

// ---- Attach -------------------------------------------------------------------------------------

TEST(AttachTest, TheSameAgentTakesUpItsSlotAndAnotherIsTurnedAway) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator);
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  auto other = Dial(*coordinator, [](FakeAgentOptions& o) {
    o.agent_id = "b";
    o.executor_id = 0;
  });
  EXPECT_THAT(other->WaitStatus(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("has a live agent")));
  auto any = Dial(*coordinator, [](FakeAgentOptions& o) { o.agent_id = "b"; });
  EXPECT_THAT(any->WaitStatus(), StatusIs(absl::StatusCode::kResourceExhausted));

  auto again = Dial(*coordinator, [](FakeAgentOptions& o) { o.plays_along = false; });
  ASSERT_TRUE(again->WaitRegistered());
  EXPECT_EQ(again->registered()->nonce(), agent->registered()->nonce());
  EXPECT_EQ(again->registered()->attempt(), 0u);
  EXPECT_TRUE(again->WaitUntil([](const FakeAgent& a) { return a.epoch() == 1; }));
  EXPECT_THAT(agent->WaitStatus(), Not(IsOk()));
  EXPECT_EQ(coordinator->Snapshot().slots[0].state, SlotState::kRunning);
}

TEST(AttachTest, WrongRegistrationsGetTheirCode) {
  auto coordinator = StartCluster(1);
  EXPECT_THAT(Dial(*coordinator, [](FakeAgentOptions& o) { o.executor_id = 5; })->WaitStatus(),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Dial(*coordinator, [](FakeAgentOptions& o) { o.protocol = 1; })->WaitStatus(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol 1")));
  EXPECT_THAT(Dial(*coordinator, [](FakeAgentOptions& o) { o.node_address = "x"; })->WaitStatus(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Register.address")));
  EXPECT_THAT(Dial(*coordinator, [](FakeAgentOptions& o) { o.public_key = "junk"; })->WaitStatus(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("public key")));
  // The one with the bad key may try again.
  auto agent = Dial(*coordinator);
  EXPECT_THAT(coordinator->WaitRunning(), IsOk());
}

TEST(AttachTest, ASecondRegisterEndsTheStream) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator);
  ASSERT_TRUE(agent->WaitRegistered());
  v1::AgentMessage message;
  message.mutable_register_()->set_protocol(2);
  agent->Send(message);
  EXPECT_THAT(agent->WaitStatus(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(AttachTest, MalformedUpdatesEndTheStream) {
  auto coordinator = StartCluster(1);
  auto agent = Dial(*coordinator);
  ASSERT_TRUE(agent->WaitRegistered());
  agent->SendNode(v1::NODE_STATE_EXITED);  // without exit
  EXPECT_THAT(agent->WaitStatus(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NodeUpdate.exit")));
}

TEST(AttachTest, TokensAreCheckedFirst) {
  auto coordinator = StartCluster(1);
  FakeAgentOptions options = FakeAgentOptions::For(*coordinator);
  options.token = std::string(64, '0');
  EXPECT_THAT(FakeAgent(options).WaitStatus(), StatusIs(absl::StatusCode::kUnauthenticated));
  options.token = coordinator->tokens().viewer;
  EXPECT_THAT(FakeAgent(options).WaitStatus(), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(coordinator->Snapshot().slots[0].state, SlotState::kRequested);
}

TEST(AttachTest, ShutdownEndsStreamsWithCancelled) {
  auto coordinator = StartCluster(2);
  auto agent = Dial(*coordinator);
  ASSERT_TRUE(agent->WaitRegistered());
  coordinator->Shutdown();
  EXPECT_THAT(agent->WaitStatus(), StatusIs(absl::StatusCode::kCancelled));
}

TEST(AttachTest, ADeadlineOfTheClientEndsOnlyItsStream) {
  auto coordinator = StartCluster(2);
  auto stub = v1::Coordinator::NewStub(MakeAgentChannel(
      coordinator->address(), coordinator->ca_pem(), coordinator->agent_identity_pem()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + coordinator->tokens().agent);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  auto stream = stub->Attach(&context);
  v1::CoordinatorMessage message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  auto agent = Dial(*coordinator);
  EXPECT_TRUE(agent->WaitRegistered());
}

TEST(AttachTest, ACallerOfAVersionTooFarAwayIsRefused) {
  auto coordinator = StartCluster(1);
  auto stub = v1::Coordinator::NewStub(MakeAgentChannel(
      coordinator->address(), coordinator->ca_pem(), coordinator->agent_identity_pem()));
  const auto refusal = [&](const std::string& version) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + coordinator->tokens().viewer);
    context.AddMetadata(kVersionMetadata, version);
    v1::ClusterStatus reply;
    return FromGrpc(stub->GetStatus(&context, {}, &reply));
  };
  EXPECT_THAT(refusal(kMillraceVersion), IsOk());
  EXPECT_THAT(refusal("9.9.9"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("the caller is version 9.9.9 of Millrace and this "
                                       "coordinator version"),
                             HasSubstr("install the same version on both"))));
}

TEST(AttachTest, AnAgentThatDoesNotReadIsDroppedAndHarmsNobody) {
  auto coordinator = StartCluster(2);
  auto slow = Dial(*coordinator, [](FakeAgentOptions& o) {
    o.agent_id = "slow";
    o.executor_id = 0;
    o.plays_along = false;
    o.reads = false;
  });
  ASSERT_TRUE(slow->WaitRegistered());
  v1::AgentMessage message;
  message.mutable_kv()->set_key("big");
  message.mutable_kv()->set_set(std::string(1 << 20, 'x'));
  slow->Send(message);
  message.mutable_kv()->mutable_get();
  for (int i = 0; i < 64; ++i) {
    message.mutable_kv()->set_request_id(i);
    slow->Send(message);
  }
  auto good = Dial(*coordinator, [](FakeAgentOptions& o) { o.executor_id = 1; });
  ASSERT_TRUE(good->WaitRegistered());
  EXPECT_TRUE(Eventually([&] {
    slow->SendHeartbeat();
    good->SendHeartbeat();
    return !coordinator->Snapshot().slots[0].attached;
  }));
  EXPECT_TRUE(coordinator->Snapshot().slots[1].attached);
}

TEST(AttachTest, KvAndBarriersWorkOverTheStream) {
  auto coordinator = StartCluster(2);
  auto a = Dial(*coordinator, [](FakeAgentOptions& o) { o.executor_id = 0; });
  auto b = Dial(*coordinator, [](FakeAgentOptions& o) {
    o.agent_id = "b";
    o.executor_id = 1;
  });
  ASSERT_THAT(coordinator->WaitRunning(), IsOk());
  auto kv_reply = [](FakeAgent& agent, uint64_t id) {
    v1::KvReply reply;
    EXPECT_TRUE(agent.WaitUntil([&](const FakeAgent& waiting) {
      for (const auto& message : waiting.received()) {
        if (message.has_kv() && message.kv().request_id() == id) {
          reply = message.kv();
          return true;
        }
      }
      return false;
    }));
    return reply;
  };
  v1::AgentMessage message;
  v1::KvRequest* kv = message.mutable_kv();
  kv->set_request_id(1);
  kv->set_key("addr");
  *kv->mutable_get() = DurationToProto(absl::Seconds(30));
  b->Send(message);  // waits
  kv->set_key("never");
  kv->set_request_id(2);
  *kv->mutable_get() = DurationToProto(absl::Milliseconds(50));
  b->Send(message);
  EXPECT_EQ(kv_reply(*b, 2).error().code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  kv->set_request_id(3);
  kv->set_key("addr");
  kv->set_set("10.0.0.1:1");
  a->Send(message);
  EXPECT_EQ(kv_reply(*b, 1).value(), "10.0.0.1:1");
  EXPECT_FALSE(kv_reply(*a, 3).has_error());

  kv->set_key("n");
  kv->set_request_id(4);
  kv->set_add(5);
  a->Send(message);
  a->Send(message);  // repeated, as after a broken stream: counts once
  kv->set_request_id(5);
  a->Send(message);
  EXPECT_EQ(kv_reply(*a, 5).value(), "10");

  message.mutable_barrier()->set_name("start");
  message.mutable_barrier()->set_request_id(9);
  *message.mutable_barrier()->mutable_timeout() = DurationToProto(absl::Seconds(30));
  a->Send(message);
  b->Send(message);
  for (FakeAgent* agent : {a.get(), b.get()}) {
    EXPECT_TRUE(agent->WaitUntil([](const FakeAgent& waiting) {
      for (const auto& got : waiting.received()) {
        if (got.has_barrier()) return !got.barrier().has_error();
      }
      return false;
    }));
  }
  a->Send(message);  // repeated, as after a broken stream: its partner has passed it
  EXPECT_TRUE(a->WaitUntil([](const FakeAgent& waiting) {
    int answers = 0;
    for (const auto& got : waiting.received()) {
      if (got.has_barrier() && !got.barrier().has_error()) ++answers;
    }
    return answers == 2;
  }));
  message.mutable_barrier()->set_request_id(10);
  a->Send(message);  // and another time: this time its partner dies
  b->SendExit({.kind = ExitStatus::Kind::kExited, .code = 1});
  EXPECT_TRUE(a->WaitUntil([](const FakeAgent& waiting) {
    for (const auto& got : waiting.received()) {
      if (got.barrier().has_error()) {
        EXPECT_EQ(got.barrier().error().code(), static_cast<int>(absl::StatusCode::kAborted));
        EXPECT_THAT(got.barrier().error().message(), HasSubstr("worker:1 has failed"));
        return true;
      }
    }
    return false;
  }));
}

// ---- transport ----------------------------------------------------------------------------------

TEST(TransportTest, WithoutTlsOrWithAnotherCaThereIsNoService) {
  auto coordinator = StartCluster(1);
  auto other = StartCluster(1);
  v1::ClusterStatus status;
  const std::string token = coordinator->tokens().viewer;
  Reader plain(*coordinator, token,
               grpc::CreateChannel(coordinator->address(), grpc::InsecureChannelCredentials()));
  EXPECT_THAT(plain.GetStatus(&status), StatusIs(absl::StatusCode::kUnavailable));
  Reader wrong(
      *coordinator, token,
      MakeAgentChannel(coordinator->address(), other->ca_pem(), other->agent_identity_pem()));
  EXPECT_THAT(wrong.GetStatus(&status), StatusIs(absl::StatusCode::kUnavailable));
  Reader right(*coordinator, token);
  EXPECT_THAT(right.GetStatus(&status), IsOk());
}

TEST(TransportTest, GarbageOnThePortHarmsNobody) {
  auto coordinator = StartCluster(1);
  std::vector<UniqueFd> sockets;
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, '\xff'), std::string(5, '\0'),
        std::string("\x16\x03\x01\xff\xff garbage"), std::string()}) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(coordinator->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    (void)send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    sockets.push_back(std::move(fd));  // stays open
  }
  auto agent = Dial(*coordinator);
  EXPECT_THAT(coordinator->WaitRunning(absl::Seconds(30)), IsOk());
  coordinator->Shutdown();  // open sockets do not hold it up
}

// ---- GetStatus ----------------------------------------------------------------------------------

TEST(GetStatusTest, ViewersAndOperatorsSeeTheSlots) {
  auto coordinator = StartCluster(2);
  auto agent = Dial(*coordinator, [](FakeAgentOptions& o) { o.executor_id = 1; });
  ASSERT_TRUE(agent->WaitRegistered());
  for (const std::string& token :
       {coordinator->tokens().viewer, coordinator->tokens().operator_token}) {
    v1::ClusterStatus status;
    ASSERT_THAT(Reader(*coordinator, token).GetStatus(&status), IsOk());
    EXPECT_EQ(status.cluster_id(), coordinator->cluster_id());
    ASSERT_EQ(status.slots_size(), 2);
    EXPECT_EQ(status.slots(0).state(), v1::SLOT_STATE_REQUESTED);
    EXPECT_EQ(status.slots(1).state(), v1::SLOT_STATE_REGISTERED);
    EXPECT_EQ(status.slots(1).job_name(), "worker");
    EXPECT_EQ(status.slots(1).reached_size(), 3);
    EXPECT_FALSE(status.has_first_cause());
  }
}

TEST(GetStatusTest, OthersDoNotAndShutdownAndDeadlinesEndIt) {
  auto coordinator = StartCluster(1);
  v1::ClusterStatus status;
  EXPECT_THAT(Reader(*coordinator, coordinator->tokens().agent).GetStatus(&status),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(Reader(*coordinator, "").GetStatus(&status),
              StatusIs(absl::StatusCode::kUnauthenticated));
  Reader reader(*coordinator, coordinator->tokens().viewer);
  EXPECT_THAT(reader.GetStatus(&status, -absl::Seconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_THAT(reader.GetStatus(&status), IsOk());
  coordinator->Shutdown();
  EXPECT_THAT(reader.GetStatus(&status), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(GetStatusTest, TheFirstCauseIsThere) {
  auto coordinator = StartCluster(1);
  coordinator->ReportAgentExit({.executor_id = 0, .status = absl::NotFoundError("no agent")});
  v1::ClusterStatus status;
  ASSERT_THAT(Reader(*coordinator, coordinator->tokens().viewer).GetStatus(&status), IsOk());
  EXPECT_EQ(status.first_cause().code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(status.first_cause().message(), HasSubstr("worker:0"));
}

// ---- FetchProgram -------------------------------------------------------------------------------

class FetchProgramTest : public testing::Test {
 protected:
  FetchProgramTest() : path_(absl::StrCat(testing::TempDir(), "/fetch_program_", getpid())) {
    Write(content_);
  }
  ~FetchProgramTest() override { unlink(path_.c_str()); }
  void Write(const std::string& content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
  }

  // More than gRPC and the kernel buffer on the way, and no whole number of chunks.
  static std::string Content() {
    const std::string block = RandomBytes(1 << 20);
    std::string content;
    for (int i = 0; i < 64; ++i) content += block;
    return content + "the end";
  }

  const std::string content_ = Content();
  const std::string path_;
};

TEST_F(FetchProgramTest, TheProgramArrivesWhole) {
  auto coordinator = StartCluster(1, path_);
  std::string bytes;
  EXPECT_THAT(Reader(*coordinator, coordinator->tokens().agent).Fetch(Sha256Hex(content_), &bytes),
              IsOk());
  EXPECT_TRUE(bytes == content_);
}

TEST_F(FetchProgramTest, WrongTokensAndOtherProgramsAreRefused) {
  auto coordinator = StartCluster(1, path_);
  std::string bytes;
  const std::string sha256 = Sha256Hex(content_);
  EXPECT_THAT(Reader(*coordinator, coordinator->tokens().viewer).Fetch(sha256, &bytes),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(Reader(*coordinator, "").Fetch(sha256, &bytes),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Reader(*coordinator, coordinator->tokens().agent).Fetch("abc", &bytes),
              StatusIs(absl::StatusCode::kNotFound));
  auto unshipped = StartCluster(1);
  EXPECT_THAT(Reader(*unshipped, unshipped->tokens().agent).Fetch("", &bytes),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(bytes, "");
}

TEST_F(FetchProgramTest, AFileThatChangedIsDataLoss) {
  auto coordinator = StartCluster(1, path_);
  Write("something else");
  std::string bytes;
  EXPECT_THAT(Reader(*coordinator, coordinator->tokens().agent).Fetch(Sha256Hex(content_), &bytes),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)));
}

TEST_F(FetchProgramTest, DeadlineAndShutdownEndIt) {
  auto coordinator = StartCluster(1, path_);
  Reader reader(*coordinator, coordinator->tokens().agent);
  std::string bytes;
  const auto until_deadline = [](const grpc::ClientContext& context) {
    absl::SleepFor(absl::FromChrono(context.deadline()) - absl::Now());
  };
  EXPECT_THAT(reader.Fetch(Sha256Hex(content_), &bytes, absl::Seconds(2), until_deadline),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  bytes.clear();
  const auto shutdown = [&](const grpc::ClientContext&) { coordinator->Shutdown(); };
  EXPECT_THAT(reader.Fetch(Sha256Hex(content_), &bytes, absl::Seconds(60), shutdown), Not(IsOk()));
}

}  // namespace
}  // namespace millrace
