// Adopt calls to a real agent that listens: what it refuses, and in which words.

#include "core/cluster/adoption_call.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/version.h"
#include "core/launch/agent_secret.h"
#include "core/proto/adopt.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

// One call, and what came of it.
struct Call {
  std::shared_ptr<AdoptionCall> call;
  std::shared_ptr<AdoptionCall> last;  // gRPC's part
  Notification held;
  Notification done;
  absl::Status status;
  v1::Held held_event;
};

class AdoptionCallTest : public ::testing::Test {
 protected:
  AdoptionCallTest() : dir_(*TempDir::Create("adoption")), secret_(*MakeAgentSecret()) {
    const std::string path = JoinPath(dir_.path(), "secret.json");
    EXPECT_THAT(WriteAgentSecretFile(path, secret_), IsOk());
    auto agent = ListeningAgent::Start("127.0.0.2", path);
    EXPECT_THAT(agent, IsOk());
    agent_ = *std::move(agent);
  }

  // The calls end on this thread, as they must.
  ~AdoptionCallTest() override {
    for (const std::shared_ptr<Call>& call : calls_) {
      call->call->Cancel();
      EXPECT_TRUE(call->done.WaitForNotificationWithTimeout(kLong));
      call->last.reset();
      call->call.reset();
    }
  }

  static v1::Hold HoldFor(const std::string& cluster, int executor_id) {
    v1::Hold hold;
    hold.set_protocol(1);
    hold.set_version(kMillraceVersion);
    hold.set_adoption_id(RandomHex(16));
    hold.set_cluster_id(cluster);
    hold.set_executor_id(executor_id);
    hold.set_driver("here pid 1");
    return hold;
  }

  std::shared_ptr<Call> Start(const v1::Hold& hold, const AgentSecret& secret) {
    auto call = std::make_shared<Call>();
    calls_.push_back(call);
    call->call = AdoptionCall::Start(
        agent_->address(), secret, hold,
        {.on_event =
             [call](const v1::AdoptEvent& event) {
               if (!event.has_held()) return;
               call->held_event = event.held();
               call->held.Notify();
             },
         .on_done =
             [call](const absl::Status& status, std::shared_ptr<AdoptionCall> last) {
               call->last = std::move(last);
               call->status = status;
               call->done.Notify();
             }});
    return call;
  }
  std::shared_ptr<Call> Hold(const v1::Hold& hold) {
    auto call = Start(hold, secret_);
    EXPECT_TRUE(call->held.WaitForNotificationWithTimeout(kLong));
    return call;
  }
  absl::Status Refusal(const v1::Hold& hold, const AgentSecret& secret) {
    const auto call = Start(hold, secret);
    if (!call->done.WaitForNotificationWithTimeout(kLong)) return absl::OkStatus();
    return call->status;
  }
  static void End(const std::shared_ptr<Call>& call) {
    call->call->Cancel();
    EXPECT_TRUE(call->done.WaitForNotificationWithTimeout(kLong));
  }

  const TempDir dir_;
  AgentSecret secret_;
  std::unique_ptr<ListeningAgent> agent_;
  std::vector<std::shared_ptr<Call>> calls_;
};

TEST_F(AdoptionCallTest, AnAgentIsHeldByOneClusterAtATimeAndIsFreeWhenTheCallEnds) {
  const auto first = Hold(HoldFor("c1", 0));
  EXPECT_EQ(first->held_event.peer_host(), "127.0.0.1");
  EXPECT_FALSE(first->held_event.running());
  const absl::Status refused = Refusal(HoldFor("c2", 0), secret_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("executor 0 of cluster c1 of driver here pid 1"));
  End(first);
  absl::Status status = absl::ResourceExhaustedError("");
  std::shared_ptr<Call> second;
  while (absl::IsResourceExhausted(status)) {  // the agent hears of the end a moment later
    second = Start(HoldFor("c2", 0), secret_);
    while (!second->held.HasBeenNotified() && !second->done.HasBeenNotified()) {
      static_cast<void>(second->held.WaitForNotificationWithTimeout(absl::Milliseconds(5)));
    }
    status = second->held.HasBeenNotified() ? absl::OkStatus() : second->status;
  }
  EXPECT_THAT(status, IsOk());
  End(second);
}

TEST_F(AdoptionCallTest, AnAdoptionIsTakenUpAgainByItsIdAndTheOlderStreamEnds) {
  const v1::Hold hold = HoldFor("c1", 3);
  const auto first = Hold(hold);
  const auto second = Hold(hold);
  ASSERT_TRUE(first->done.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(first->status.code(), absl::StatusCode::kCancelled);
  // A new adoption for the same slot replaces what is there.
  const auto third = Hold(HoldFor("c1", 3));
  ASSERT_TRUE(second->done.WaitForNotificationWithTimeout(kLong));
  End(third);
}

// As by a driver that looks for the adoption that lives, among those that are over.
TEST_F(AdoptionCallTest, ALowerNumberDoesNotEndTheAdoptionThereIs) {
  v1::Hold hold = HoldFor("c1", 3);
  hold.set_number(2);
  const auto held = Hold(hold);
  v1::Hold lower = HoldFor("c1", 3);
  lower.set_number(1);
  EXPECT_EQ(Refusal(lower, secret_).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(held->done.HasBeenNotified());
  v1::Hold higher = HoldFor("c1", 3);
  higher.set_number(3);
  const auto next = Hold(higher);
  ASSERT_TRUE(held->done.WaitForNotificationWithTimeout(kLong));
  End(next);
}

TEST_F(AdoptionCallTest, ADriverThatWasReplacedIsRefusedWhateverItAsksFor) {
  v1::Hold hold = HoldFor("c1", 3);
  hold.set_driver_epoch(1);
  const auto first = Hold(hold);
  v1::Hold next = hold;
  next.set_driver_epoch(2);
  next.set_driver("there pid 2");
  const auto second = Hold(next);
  ASSERT_TRUE(first->done.WaitForNotificationWithTimeout(kLong));
  v1::Hold another = HoldFor("c1", 3);  // for the same slot, which would end what is there
  another.set_driver_epoch(1);
  for (const v1::Hold& of_before : {hold, another}) {
    const absl::Status refused = Refusal(of_before, secret_);
    EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("another driver now, there pid 2"));
  }
  EXPECT_FALSE(second->done.HasBeenNotified());
  End(second);
}

TEST_F(AdoptionCallTest, AMessageThatWasRecordedIsWorthNothing) {
  const v1::Hold hold = HoldFor("c1", 0);
  auto call = Hold(hold);
  v1::AdoptRequest request;
  request.mutable_release();
  call->call->Send(request);
  ASSERT_TRUE(call->done.WaitForNotificationWithTimeout(kLong));
  EXPECT_THAT(call->status, IsOk());
  const absl::Status refused = Refusal(hold, secret_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("replayed"));
}

TEST_F(AdoptionCallTest, AnotherVersionIsToldWhatBothAre) {
  v1::Hold hold = HoldFor("c1", 0);
  hold.set_version("9.9.9");
  absl::Status refused = Refusal(hold, secret_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("the driver is version 9.9.9 of Millrace and the agent on "),
                    HasSubstr("install the same version")));
  hold.set_protocol(2);
  refused = Refusal(hold, secret_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("driver is version 9.9.9 (adopt protocol 2)"),
                    HasSubstr("(adopt protocol 1)"), HasSubstr("install the same version")));
}

TEST_F(AdoptionCallTest, ForeignSecretsAreRefusedOnEitherSide) {
  AgentSecret wrong_token = secret_;
  wrong_token.token = MakeAgentSecret()->token;
  EXPECT_EQ(Refusal(HoldFor("c1", 0), wrong_token).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Refusal(HoldFor("c1", 0), *MakeAgentSecret()).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(AdoptionCallTest, MessagesThatMakeNoSenseAreRefused) {
  for (const char* id : {"", "12", "zz345678901234567890123456789012"}) {
    v1::Hold hold = HoldFor("c1", 0);
    hold.set_adoption_id(id);
    EXPECT_EQ(Refusal(hold, secret_).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Refusal(HoldFor("../x", 0), secret_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(HoldFor("", 0), secret_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(HoldFor("c1", -1), secret_).code(), absl::StatusCode::kInvalidArgument);
  const auto held = Hold(HoldFor("c1", 0));
  v1::AdoptRequest again;
  *again.mutable_hold() = HoldFor("c1", 0);
  held->call->Send(again);
  ASSERT_TRUE(held->done.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(held->status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(ExplainAdoptErrorTest, SaysWhatToDo) {
  const auto explain = [](const char* text) {
    return std::string(ExplainAdoptError(absl::UnavailableError(text), "h:1").message());
  };
  EXPECT_THAT(explain("connect: Connection refused (111)"),
              HasSubstr("nobody listens on h:1 (connection refused)"));
  EXPECT_THAT(explain("Timeout occurred: FD Shutdown"), HasSubstr("is the port open"));
  EXPECT_THAT(explain("ipv4:127.0.0.1:1: tcp handshaker shutdown"),
              HasSubstr("no answer from h:1 in 5 s"));
  EXPECT_THAT(explain("ipv4:127.0.0.1:1: Handshake read failed"),
              HasSubstr("no word from what listens on h:1"));
  EXPECT_THAT(explain("Ssl handshake failed: wrong version number"), HasSubstr("speaks no TLS"));
  EXPECT_EQ(ExplainAdoptError(absl::UnimplementedError(""), "h:1").code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace
