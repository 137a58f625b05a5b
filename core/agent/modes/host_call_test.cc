#include "core/agent/modes/host_call.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/time_proto.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kWait = absl::Seconds(60);

// What is put in by one thread and waited for by another.
template <typename T>
class Box {
 public:
  void Put(T value) {
    MutexLock lock(&mu_);
    values_.push_back(std::move(value));
    changed_.SignalAll();
  }
  std::optional<T> Take() {
    const absl::Time deadline = absl::Now() + kWait;
    MutexLock lock(&mu_);
    while (values_.empty()) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) return std::nullopt;
    }
    T value = std::move(values_.front());
    values_.erase(values_.begin());
    return value;
  }
  size_t size() {
    MutexLock lock(&mu_);
    return values_.size();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<T> values_ ABSL_GUARDED_BY(mu_);
};

// The coordinator: one AttachHost, which the test plays.
class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::HostMessage, v1::HostMessage>;

  grpc::Status AttachHost(grpc::ServerContext*, Stream* stream) override {
    {
      MutexLock lock(&mu_);
      stream_ = stream;
    }
    v1::HostMessage message;
    while (stream->Read(&message)) received.Put(message);
    received.Put(std::nullopt);
    MutexLock lock(&mu_);
    stream_ = nullptr;
    return end_;
  }

  // Only once something was received.
  void Send(const std::vector<uint32_t>& channels, const std::string& message,
            const std::optional<absl::Status>& end = std::nullopt) {
    v1::HostMessage out;
    v1::HostPart* part = out.add_parts();
    part->mutable_channels()->Add(channels.begin(), channels.end());
    part->set_message(message);
    if (end.has_value()) {
      part->mutable_end();
      if (!end->ok()) {
        part->mutable_end()->mutable_error()->set_code(static_cast<int>(end->code()));
        part->mutable_end()->mutable_error()->set_message(std::string(end->message()));
      }
    }
    MutexLock lock(&mu_);
    stream_->Write(out);
  }
  // What the call ends with, after the host's half-close.
  void EndWith(const grpc::Status& status) {
    MutexLock lock(&mu_);
    end_ = status;
  }

  Box<std::optional<v1::HostMessage>> received;  // nullopt: half-closed

 private:
  Mutex mu_;
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
  grpc::Status end_ ABSL_GUARDED_BY(mu_);
};

class FakeStream final : public AttachStream {
 public:
  void Enqueue(const grpc::ByteBuffer& message) override {
    grpc::Slice slice;
    EXPECT_TRUE(message.DumpToSingleSlice(&slice).ok());
    messages.Put(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()));
  }
  void Close(const absl::Status& status) override { ends.Put(status); }
  void Flush() override {}

  Box<std::string> messages;
  Box<absl::Status> ends;
};

class HostCallTest : public ::testing::Test {
 protected:
  HostCallTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator_);
    server_ = builder.BuildAndStart();
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
    call_ = HostCall::Start(channel_, "t",
                            {.on_waiting = [this](absl::Duration after) { due_.Put(after); },
                             .on_done = [this](const absl::Status& status) { done_.Put(status); }});
  }
  ~HostCallTest() override {
    call_->Finish();
    EXPECT_TRUE(ended_ || done_.Take().has_value());
    server_->Shutdown();
  }

  std::shared_ptr<FakeStream> Register(uint64_t expected) {
    auto stream = std::make_shared<FakeStream>();
    v1::Register hello;
    hello.set_agent_id(absl::StrCat("agent ", expected));
    const absl::StatusOr<uint64_t> channel = call_->Register(stream, hello);
    EXPECT_THAT(channel, IsOk());
    EXPECT_EQ(*channel, expected);
    const std::optional<v1::HostMessage> message = Next();
    EXPECT_THAT(message->parts(), SizeIs(1));
    EXPECT_THAT(message->parts(0).channels(), ElementsAre(expected));
    v1::AgentMessage said;
    EXPECT_TRUE(said.ParseFromString(message->parts(0).message()));
    EXPECT_EQ(said.register_().agent_id(), hello.agent_id());
    return stream;
  }
  // What the coordinator receives next.
  std::optional<v1::HostMessage> Next() { return coordinator_.received.Take().value(); }

  static v1::AgentMessage Sample(int64_t step) {
    v1::AgentMessage message;
    message.mutable_sample()->set_step(step);
    return message;
  }

  FakeCoordinator coordinator_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  Box<absl::Duration> due_;
  Box<absl::Status> done_;
  bool ended_ = false;
  std::shared_ptr<HostCall> call_;
};

TEST_F(HostCallTest, EachStreamIsAChannelAndHearsWhatIsForIt) {
  const auto one = Register(1);
  const auto two = Register(2);
  coordinator_.Send({1, 2}, "for both");
  coordinator_.Send({2}, "for two");
  coordinator_.Send({3}, "for nobody");
  coordinator_.Send({1}, "the last", absl::NotFoundError("no such slot"));
  EXPECT_EQ(one->messages.Take(), "for both");
  EXPECT_EQ(one->messages.Take(), "the last");
  EXPECT_THAT(*one->ends.Take(), StatusIs(absl::StatusCode::kNotFound, "no such slot"));
  EXPECT_EQ(two->messages.Take(), "for both");
  EXPECT_EQ(two->messages.Take(), "for two");
  EXPECT_EQ(two->ends.size(), 0u);
  // What its agent says then is for nobody.
  EXPECT_THAT(call_->Handle(1, Sample(1)), IsOk());
  call_->StreamEnded(1);
  call_->StreamEnded(2);
  const std::optional<v1::HostMessage> end = Next();
  ASSERT_THAT(end->parts(), SizeIs(1));
  EXPECT_THAT(end->parts(0).channels(), ElementsAre(2));
  EXPECT_TRUE(end->parts(0).has_end());
  EXPECT_FALSE(end->parts(0).end().has_error());
}

TEST_F(HostCallTest, HeartbeatsWaitForEachOtherAndRideOnWhatIsSaid) {
  const auto one = Register(1);
  Register(2);
  v1::CoordinatorMessage registered;
  *registered.mutable_registered()->mutable_heartbeat_interval() =
      DurationToProto(absl::Seconds(3));
  coordinator_.Send({1}, registered.SerializeAsString());
  ASSERT_TRUE(one->messages.Take().has_value());
  EXPECT_THAT(call_->Handle(1, {}), IsOk());
  EXPECT_THAT(call_->Handle(2, {}), IsOk());
  EXPECT_THAT(call_->Handle(1, {}), IsOk());
  EXPECT_EQ(due_.Take(), absl::Seconds(1.5));
  EXPECT_EQ(due_.size(), 0u);
  call_->FlushWaiting();
  const std::optional<v1::HostMessage> beat = Next();
  EXPECT_THAT(beat->alive(), ElementsAre(1, 2));
  EXPECT_THAT(beat->parts(), IsEmpty());

  EXPECT_THAT(call_->Handle(2, {}), IsOk());
  EXPECT_EQ(due_.Take(), absl::Seconds(1.5));
  EXPECT_THAT(call_->Handle(1, Sample(7)), IsOk());
  const std::optional<v1::HostMessage> sample = Next();
  EXPECT_THAT(sample->alive(), ElementsAre(2));
  ASSERT_THAT(sample->parts(), SizeIs(1));
  call_->FlushWaiting();  // nobody's
  EXPECT_THAT(call_->Handle(1, {}), IsOk());
  call_->FlushWaiting();
  EXPECT_THAT(Next()->alive(), ElementsAre(1));
}

TEST_F(HostCallTest, SamplesThatAreRarerThanHeartbeatsWaitAsTheyDo) {
  const auto one = Register(1);
  Register(2);
  v1::CoordinatorMessage registered;
  *registered.mutable_registered()->mutable_heartbeat_interval() =
      DurationToProto(absl::Seconds(2));
  *registered.mutable_registered()->mutable_sample_interval() = DurationToProto(absl::Seconds(40));
  coordinator_.Send({1}, registered.SerializeAsString());
  ASSERT_TRUE(one->messages.Take().has_value());
  EXPECT_THAT(call_->Handle(1, Sample(7)), IsOk());
  EXPECT_EQ(due_.Take(), absl::Seconds(1));
  EXPECT_THAT(call_->Handle(2, {}), IsOk());
  EXPECT_THAT(call_->Handle(1, Sample(8)), IsOk());
  EXPECT_EQ(due_.size(), 0u);
  EXPECT_EQ(coordinator_.received.size(), 0u);
  call_->FlushWaiting();
  const std::optional<v1::HostMessage> both = Next();
  EXPECT_THAT(both->alive(), ElementsAre(2));
  ASSERT_THAT(both->parts(), SizeIs(1));
  v1::AgentMessage sample;
  EXPECT_TRUE(sample.ParseFromString(both->parts(0).message()));
  EXPECT_EQ(sample.sample().step(), 8);

  // They go along with what is said before, and in the order in which it was.
  EXPECT_THAT(call_->Handle(1, Sample(9)), IsOk());
  EXPECT_EQ(due_.Take(), absl::Seconds(1));
  v1::AgentMessage exited;
  exited.mutable_node()->set_state(v1::NODE_STATE_EXITED);
  EXPECT_THAT(call_->Handle(1, exited), IsOk());
  const std::optional<v1::HostMessage> last = Next();
  ASSERT_THAT(last->parts(), SizeIs(2));
  EXPECT_TRUE(sample.ParseFromString(last->parts(0).message()));
  EXPECT_EQ(sample.sample().step(), 9);
  EXPECT_TRUE(sample.ParseFromString(last->parts(1).message()));
  EXPECT_EQ(sample.node().state(), v1::NODE_STATE_EXITED);
  call_->FlushWaiting();  // nothing waits
  EXPECT_THAT(call_->Handle(2, {}), IsOk());
  call_->FlushWaiting();
  EXPECT_THAT(Next()->parts(), IsEmpty());
}

TEST_F(HostCallTest, AgentsHearHowTheHostsStreamHasEnded) {
  struct Case {
    grpc::StatusCode code;
    absl::StatusCode heard;
  };
  for (const Case& each :
       {Case{grpc::StatusCode::UNIMPLEMENTED, absl::StatusCode::kUnavailable},
        Case{grpc::StatusCode::RESOURCE_EXHAUSTED, absl::StatusCode::kUnavailable},
        Case{grpc::StatusCode::FAILED_PRECONDITION, absl::StatusCode::kFailedPrecondition},
        Case{grpc::StatusCode::CANCELLED, absl::StatusCode::kCancelled}}) {
    Box<absl::Status> done;
    const auto call =
        HostCall::Start(channel_, "t",
                        {.on_waiting = [](absl::Duration) {},
                         .on_done = [&done](const absl::Status& status) { done.Put(status); }});
    const auto stream = std::make_shared<FakeStream>();
    EXPECT_THAT(call->Register(stream, v1::Register()), IsOk());
    ASSERT_TRUE(Next().has_value());
    coordinator_.EndWith(grpc::Status(each.code, "why"));
    call->Finish();
    EXPECT_THAT(*stream->ends.Take(), StatusIs(each.heard, HasSubstr("why")));
    EXPECT_EQ(static_cast<int>(done.Take()->code()), static_cast<int>(each.code));
    EXPECT_FALSE(Next().has_value());
    EXPECT_THAT(call->Register(stream, v1::Register()), StatusIs(absl::StatusCode::kUnavailable));
  }
  coordinator_.EndWith(grpc::Status::OK);
}

}  // namespace
}  // namespace millrace
