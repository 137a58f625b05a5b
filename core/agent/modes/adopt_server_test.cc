#include "core/agent/modes/adopt_server.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>  // grpc::ClientContext::set_deadline takes a time_point
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/status_matchers.h"
#include "core/launch/agent_secret.h"
#include "core/net/socket_address.h"
#include "core/proto/adopt.grpc.pb.h"
#include "core/proto/adopt.pb.h"
#include "core/proto/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(60);

AgentSecret NewSecret() {
  absl::StatusOr<AgentSecret> secret = MakeAgentSecret();
  EXPECT_THAT(secret, IsOk());
  return *std::move(secret);
}

v1::AdoptRequest HoldOf(const std::string& cluster_id) {
  v1::AdoptRequest request;
  request.mutable_hold()->set_cluster_id(cluster_id);
  return request;
}
v1::AdoptRequest Start() {
  v1::AdoptRequest request;
  request.mutable_start()->set_coordinator_port(7);
  return request;
}
v1::AdoptRequest Release() {
  v1::AdoptRequest request;
  request.mutable_release()->set_now(true);
  return request;
}
v1::AdoptEvent StartedWith(int64_t pid) {
  v1::AdoptEvent event;
  event.mutable_started()->set_pid(pid);
  return event;
}

// A driver's call, made by a client of gRPC's own. Its methods block for the server, which needs no
// loop to read and write.
class Call {
 public:
  Call(const std::shared_ptr<grpc::Channel>& channel,
       const std::vector<std::string>& authorizations)
      : stub_(v1::AgentHost::NewStub(channel)) {
    for (const std::string& value : authorizations) context_.AddMetadata("authorization", value);
    context_.set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience));
    stream_ = stub_->Adopt(&context_);
  }
  // A stream must be at its end before it goes.
  ~Call() {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    (void)Finish();
  }

  void Send(const v1::AdoptRequest& request) { stream_->Write(request); }
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // The pid of the next Started; 0: the call is over, or something else came.
  int64_t ReadPid() {
    v1::AdoptEvent event;
    return stream_->Read(&event) ? event.started().pid() : 0;
  }
  // Reads to the end.
  absl::Status Finish() {
    v1::AdoptEvent event;
    while (stream_->Read(&event)) {
    }
    const absl::Status status = FromGrpcStatus(stream_->Finish());
    stream_ = nullptr;
    return status;
  }

 private:
  const std::unique_ptr<v1::AgentHost::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AdoptRequest, v1::AdoptEvent>> stream_;
};

class AdoptServerTest : public ::testing::Test {
 protected:
  AdoptServerTest() : loop_(*EventLoop::Create()), secret_(NewSecret()) {
    absl::StatusOr<std::unique_ptr<AdoptServer>> server = StartServer(secret_, /*port=*/0);
    EXPECT_THAT(server, IsOk());
    server_ = *std::move(server);
  }

  absl::StatusOr<std::unique_ptr<AdoptServer>> StartServer(const AgentSecret& secret,
                                                           uint16_t port) {
    return AdoptServer::Start(
        HostPort{"127.0.0.1", port}, secret, loop_->mailbox(),
        {.on_request =
             [this](const std::shared_ptr<AdoptStream>& stream, const v1::AdoptRequest& request) {
               requests_.push_back(request);
               streams_.push_back(stream);
             },
         .on_gone = [this](const std::shared_ptr<AdoptStream>& stream) { gone_.push_back(stream); },
         .on_refused =
             [this](const std::string& peer, const absl::Status& why) {
               refused_.push_back(absl::StrCat(peer, " ", why.message()));
             }});
  }

  // A client that pins the certificate of `pinned` and shows that of `shown`, if it has one.
  std::shared_ptr<grpc::Channel> Connect(const AgentSecret& pinned, const AgentSecret& shown) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = pinned.certificate_pem;
    tls.pem_private_key = shown.key_pem;
    tls.pem_cert_chain = shown.certificate_pem;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(kAgentCertificateName);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("ipv4:127.0.0.1:", server_->port()),
                                     grpc::SslCredentials(tls), arguments);
  }
  std::unique_ptr<Call> Driver() {
    return std::make_unique<Call>(Connect(secret_, secret_), std::vector{Authorization()});
  }
  std::string Authorization() const { return absl::StrCat("Bearer ", secret_.token); }

  bool Wait(absl::AnyInvocable<bool()> done) { return loop_->RunUntil(std::move(done), kPatience); }

  std::unique_ptr<EventLoop> loop_;
  AgentSecret secret_;
  std::unique_ptr<AdoptServer> server_;
  // In the order in which the loop heard of them.
  std::vector<v1::AdoptRequest> requests_;
  std::vector<std::shared_ptr<AdoptStream>> streams_;  // of each of requests_
  std::vector<std::shared_ptr<AdoptStream>> gone_;
  std::vector<std::string> refused_;
};

TEST_F(AdoptServerTest, ADriversMessagesComeInOrderAndItsEventsGoBack) {
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  call->Send(Start());
  call->Send(Release());
  ASSERT_TRUE(Wait([&] { return requests_.size() == 3; }));
  EXPECT_EQ(requests_[0].hold().cluster_id(), "blue");
  EXPECT_EQ(requests_[1].start().coordinator_port(), 7);
  EXPECT_TRUE(requests_[2].release().now());
  EXPECT_EQ(streams_[1], streams_[0]);
  EXPECT_EQ(streams_[2], streams_[0]);
  EXPECT_EQ(streams_[0]->peer_host(), "127.0.0.1");

  streams_[0]->Send(StartedWith(11));
  EXPECT_EQ(call->ReadPid(), 11);
  // What is queued goes out before the end.
  streams_[0]->Send(StartedWith(12));
  streams_[0]->Send(StartedWith(13));
  streams_[0]->Close(absl::ResourceExhaustedError("serves another"));
  streams_[0]->Close(absl::OkStatus());  // the first one counts
  streams_[0]->Send(StartedWith(14));    // dropped
  EXPECT_EQ(call->ReadPid(), 12);
  EXPECT_EQ(call->ReadPid(), 13);
  EXPECT_EQ(call->ReadPid(), 0);
  EXPECT_THAT(call->Finish(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("serves another")));
  ASSERT_TRUE(Wait([&] { return !gone_.empty(); }));
  EXPECT_THAT(gone_, ElementsAre(streams_[0]));
  EXPECT_THAT(refused_, IsEmpty());
}

TEST_F(AdoptServerTest, CallsOfSeveralDriversAreApart) {
  const std::unique_ptr<Call> first = Driver();
  const std::unique_ptr<Call> second = Driver();
  first->Send(HoldOf("first"));
  ASSERT_TRUE(Wait([&] { return requests_.size() == 1; }));
  second->Send(HoldOf("second"));
  ASSERT_TRUE(Wait([&] { return requests_.size() == 2; }));
  EXPECT_NE(streams_[0], streams_[1]);
  streams_[1]->Send(StartedWith(2));
  streams_[0]->Send(StartedWith(1));
  EXPECT_EQ(first->ReadPid(), 1);
  EXPECT_EQ(second->ReadPid(), 2);
  first->Cancel();
  ASSERT_TRUE(Wait([&] { return !gone_.empty(); }));
  EXPECT_THAT(gone_, ElementsAre(streams_[0]));
  streams_[1]->Send(StartedWith(3));
  EXPECT_EQ(second->ReadPid(), 3);
}

TEST_F(AdoptServerTest, ACallWithoutTheTokenOfTheSecretIsRefused) {
  const std::string other(secret_.token.size(), 'f');
  for (const std::vector<std::string>& authorizations : {std::vector<std::string>{},
                                                         {absl::StrCat("Bearer ", other)},
                                                         {secret_.token},
                                                         {absl::StrCat(Authorization(), " ")},
                                                         {Authorization(), Authorization()}}) {
    refused_.clear();
    Call call(Connect(secret_, secret_), authorizations);
    call.Send(HoldOf("blue"));
    EXPECT_THAT(call.Finish(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("token")));
    ASSERT_TRUE(Wait([&] { return !refused_.empty(); }));
    EXPECT_THAT(refused_, ElementsAre(AllOf(StartsWith("ipv4:127.0.0.1:"), HasSubstr("token"),
                                            Not(HasSubstr(secret_.token)))));
  }
  // Nothing of them came to the loop before the first message of one that is admitted.
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("green"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  EXPECT_THAT(requests_, SizeIs(1));
  EXPECT_EQ(requests_[0].hold().cluster_id(), "green");
  EXPECT_THAT(gone_, IsEmpty());
}

TEST_F(AdoptServerTest, AConnectionWithoutTheSecretsCertificateComesToNoCall) {
  const AgentSecret other = NewSecret();
  for (const AgentSecret& shown : {AgentSecret{}, other}) {
    Call stranger(Connect(/*pinned=*/secret_, shown), {Authorization()});
    EXPECT_THAT(stranger.Finish(), StatusIs(absl::StatusCode::kUnavailable));
  }

  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  EXPECT_THAT(requests_, SizeIs(1));
  EXPECT_THAT(refused_, IsEmpty());  // before TLS nobody is anybody
}

TEST_F(AdoptServerTest, HoldIsTheFirstMessageAndOnlyThat) {
  {
    const std::unique_ptr<Call> call = Driver();
    call->Send(Start());
    EXPECT_THAT(call->Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Hold")));
  }
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  call->Send(HoldOf("green"));
  EXPECT_THAT(call->Finish(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Hold")));
  ASSERT_TRUE(Wait([&] { return !gone_.empty(); }));
  ASSERT_THAT(requests_, SizeIs(1));
  EXPECT_EQ(requests_[0].hold().cluster_id(), "blue");
  EXPECT_THAT(gone_, ElementsAre(streams_[0]));
}

TEST_F(AdoptServerTest, AMessageThatIsTooLargeEndsItsCall) {
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf(std::string(300 << 10, 'x')));
  EXPECT_THAT(call->Finish(), StatusIs(absl::StatusCode::kResourceExhausted));
  const std::unique_ptr<Call> next = Driver();
  next->Send(HoldOf("blue"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  EXPECT_EQ(requests_[0].hold().cluster_id(), "blue");
}

TEST_F(AdoptServerTest, ADriverThatHalfClosesGetsWhatIsQueuedAndThenOk) {
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  streams_[0]->Send(StartedWith(1));
  streams_[0]->Send(StartedWith(2));
  call->HalfClose();
  EXPECT_EQ(call->ReadPid(), 1);
  EXPECT_EQ(call->ReadPid(), 2);
  EXPECT_THAT(call->Finish(), IsOk());
  EXPECT_TRUE(Wait([&] { return gone_.size() == 1; }));
}

TEST_F(AdoptServerTest, WhatIsSentToADriverThatIsGoneIsDropped) {
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  call->Cancel();
  ASSERT_TRUE(Wait([&] { return !gone_.empty(); }));
  streams_[0]->Send(StartedWith(1));
  streams_[0]->Close(absl::OkStatus());
  EXPECT_EQ(call->ReadPid(), 0);
}

TEST_F(AdoptServerTest, TheEndOfTheServerEndsItsCallsAndTheLoopHearsOfIt) {
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  const std::shared_ptr<grpc::Channel> another = Connect(secret_, secret_);
  server_.reset();
  EXPECT_FALSE(call->Finish().ok());
  EXPECT_TRUE(Wait([&] { return gone_.size() == 1; }));
  streams_[0]->Send(StartedWith(1));  // a stream outlives its server
  Call late(another, {Authorization()});
  EXPECT_THAT(late.Finish(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(AdoptServerTest, ACallMayOutliveTheLoop) {
  const std::unique_ptr<Call> call = Driver();
  call->Send(HoldOf("blue"));
  ASSERT_TRUE(Wait([&] { return !requests_.empty(); }));
  loop_.reset();
  call->Send(Start());
  streams_[0]->Send(StartedWith(1));
  EXPECT_EQ(call->ReadPid(), 1);
  server_.reset();
  EXPECT_FALSE(call->Finish().ok());
  EXPECT_THAT(requests_, SizeIs(1));
  EXPECT_THAT(gone_, IsEmpty());
}

TEST_F(AdoptServerTest, AnAddressThatIsTakenIsNamed) {
  EXPECT_THAT(StartServer(secret_, static_cast<uint16_t>(server_->port())),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("127.0.0.1:", server_->port()))));
}

TEST(PeerHostTest, IsTheAddressWithoutPortAndEscapes) {
  EXPECT_EQ(PeerHost("ipv4:10.0.0.9:4000"), "10.0.0.9");
  EXPECT_EQ(PeerHost("ipv6:%5Bfd00::1%5D:4000"), "fd00::1");
  EXPECT_EQ(PeerHost("ipv6:[::1]:4000"), "::1");
  EXPECT_EQ(PeerHost("ipv6:%5B::ffff:10.0.0.9%5D:4000"), "10.0.0.9");
  for (const char* other : {"", "unix:/run/socket", "ipv4:", "unix:a:b:c"}) {
    EXPECT_EQ(PeerHost(other), "") << other;
  }
}

}  // namespace
}  // namespace millrace
