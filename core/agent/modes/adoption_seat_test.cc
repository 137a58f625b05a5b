#include "core/agent/modes/adoption_seat.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/fake_clock.h"
#include "core/base/version.h"
#include "core/launch/adoption_id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Writes down what it is sent, as words.
class Stream final : public AdoptStream {
 public:
  void Send(v1::AdoptEvent event) override {
    if (event.has_held()) heard.push_back(event.held().running() ? "held, runs" : "held");
    if (event.has_started()) heard.push_back(absl::StrCat("started ", event.started().pid()));
    if (event.has_ended()) heard.push_back(absl::StrCat("ended ", event.ended().exit_code()));
  }
  void Close(const absl::Status& status) override { closed.push_back(status); }
  const std::string& peer_host() const override { return peer; }

  const std::string peer = "10.0.0.9";
  std::vector<std::string> heard;
  std::vector<absl::Status> closed;
};

class AdoptionSeatTest : public ::testing::Test, protected AdoptionSeat::Owner {
 protected:
  absl::StatusOr<int64_t> StartAgent(const v1::Hold& hold, const v1::StartAgent&) override {
    did_.push_back(absl::StrCat("start ", hold.executor_id()));
    if (!spawns_.ok()) return spawns_;
    return ++pid_;
  }
  void RedirectAgent(const v1::Redirect& redirect) override {
    did_.push_back(absl::StrCat("redirect ", redirect.coordinator_host()));
  }
  void EndAgent(bool now) override { did_.emplace_back(now ? "kill" : "ask"); }
  void SetUse(SlotUse use) override { use_ = use; }
  void Refused(const std::string&, Refusal refusal, const absl::Status& why) override {
    EXPECT_FALSE(why.ok());
    refused_.push_back(refusal);
  }
  void Left() override { did_.emplace_back("left"); }

  std::shared_ptr<Stream> Hold(const std::string& cluster, int executor, uint32_t number,
                               uint64_t epoch = 0, bool alone = false) {
    auto stream = std::make_shared<Stream>();
    v1::AdoptRequest request;
    v1::Hold& hold = *request.mutable_hold();
    hold.set_protocol(1);
    hold.set_version(kMillraceVersion);
    hold.set_cluster_id(cluster);
    hold.set_executor_id(executor);
    hold.set_number(number);
    hold.set_driver_epoch(epoch);
    hold.set_alone(alone);
    hold.set_driver("d pid 1");
    hold.set_adoption_id(AdoptionId("token", cluster, executor, number));
    seat_.OnRequest(stream, request);
    return stream;
  }
  void Start(const std::shared_ptr<Stream>& stream) {
    v1::AdoptRequest request;
    request.mutable_start();
    seat_.OnRequest(stream, request);
  }
  void Release(const std::shared_ptr<Stream>& stream, bool now) {
    v1::AdoptRequest request;
    request.mutable_release()->set_now(now);
    seat_.OnRequest(stream, request);
  }
  std::vector<std::string> Did() { return std::exchange(did_, {}); }

  FakeClock clock_;
  absl::Status spawns_;
  int64_t pid_ = 100;
  SlotUse use_ = SlotUse::kFree;
  std::vector<Refusal> refused_;
  std::vector<std::string> did_;
  AdoptionSeat seat_{"h", std::string(kMillraceVersion), this, &clock_};
};

TEST_F(AdoptionSeatTest, AnAgentIsHeldStartedAndFreeAgain) {
  const auto stream = Hold("c", 3, 1);
  EXPECT_EQ(use_, SlotUse::kHeld);
  EXPECT_EQ(seat_.HolderText(), "executor 3 of cluster c of driver d pid 1");
  Start(stream);
  Start(stream);  // said twice
  EXPECT_EQ(use_, SlotUse::kRunning);
  EXPECT_THAT(Did(), ElementsAre("start 3"));
  seat_.AgentEnded({});
  EXPECT_THAT(stream->heard, ElementsAre("held", "started 101", "ended 0"));
  EXPECT_THAT(stream->closed, ElementsAre(absl::OkStatus()));
  EXPECT_EQ(use_, SlotUse::kFree);
  EXPECT_EQ(seat_.HolderText(), "");
}

TEST_F(AdoptionSeatTest, AnAdoptionThatIsOverIsRefused) {
  const auto stream = Hold("c", 3, 1);
  Start(stream);
  seat_.AgentEnded({});
  EXPECT_EQ(Hold("c", 3, 1)->closed.at(0).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(refused_, ElementsAre(Refusal::kReplayed));
  EXPECT_THAT(Hold("c", 3, 2)->heard, ElementsAre("held"));
}

TEST_F(AdoptionSeatTest, AnotherClusterIsRefusedWhileTheSeatIsTaken) {
  const auto stream = Hold("c", 3, 1);
  const auto other = Hold("another", 3, 1);
  ASSERT_EQ(other->closed.size(), 1u);
  EXPECT_EQ(other->closed[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(other->closed[0].message()), HasSubstr("serves executor 3 of cluster c"));
  EXPECT_THAT(refused_, ElementsAre(Refusal::kBusy));
  EXPECT_THAT(stream->closed, IsEmpty());
  // So is another slot of the same cluster.
  EXPECT_EQ(Hold("c", 4, 1)->closed.at(0).code(), absl::StatusCode::kResourceExhausted);
}

// The resolver names this place for another slot, and has named another one for the first.
TEST_F(AdoptionSeatTest, AnAgentThatItsDriverHasLeftGivesItsSeatToAnotherSlot) {
  const auto refused = [this](const std::string& cluster, uint64_t epoch, bool alone) {
    const auto stream = Hold(cluster, 4, 1, epoch, alone);
    return !stream->closed.empty() &&
           stream->closed[0].code() == absl::StatusCode::kResourceExhausted;
  };
  const auto stream = Hold("c", 3, 1, 2);
  Start(stream);
  Did();
  EXPECT_TRUE(refused("c", 2, true));  // the driver hears it
  seat_.OnGone(stream);
  EXPECT_TRUE(refused("c", 2, false));  // it only may have been left
  EXPECT_TRUE(refused("c", 1, true));   // a driver before
  EXPECT_TRUE(refused("another", 2, true));
  EXPECT_THAT(Did(), IsEmpty());
  const auto next = Hold("c", 4, 1, 2, /*alone=*/true);
  EXPECT_THAT(Did(), ElementsAre("kill"));
  EXPECT_THAT(next->heard, IsEmpty());
  seat_.AgentEnded({});
  EXPECT_THAT(next->heard, ElementsAre("held"));
  EXPECT_EQ(seat_.HolderText(), "executor 4 of cluster c of driver d pid 1");
}

TEST_F(AdoptionSeatTest, AMereHoldEndsWithItsStreamAndAnAgentThatRunsDoesNot) {
  const auto held = Hold("c", 3, 1);
  seat_.OnGone(held);
  EXPECT_EQ(use_, SlotUse::kFree);
  const auto stream = Hold("c", 3, 2);
  Start(stream);
  seat_.OnGone(stream);
  EXPECT_EQ(use_, SlotUse::kRunning);
  EXPECT_THAT(Hold("c", 3, 2)->heard, ElementsAre("held, runs", "started 101"));
}

TEST_F(AdoptionSeatTest, TheSameAdoptionOverAnotherStreamTakesItOver) {
  const auto stream = Hold("c", 3, 1, 1);
  Start(stream);
  Did();
  const auto next = Hold("c", 3, 1, 2);
  EXPECT_EQ(stream->closed.at(0).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(next->heard, ElementsAre("held, runs", "started 101"));
  seat_.OnGone(stream);  // of no consequence
  v1::AdoptRequest request;
  request.mutable_redirect()->set_coordinator_host("d2");
  seat_.OnRequest(next, request);
  EXPECT_THAT(Did(), ElementsAre("redirect d2"));
  // The driver that was succeeded comes back.
  EXPECT_EQ(Hold("c", 3, 1, 1)->closed.at(0).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Hold("c", 3, 2, 1)->closed.at(0).code(), absl::StatusCode::kAborted);
  Release(stream, /*now=*/true);
  EXPECT_EQ(stream->closed.at(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Did(), IsEmpty());
}

TEST_F(AdoptionSeatTest, ALaterAdoptionOfTheSlotFollowsTheEndOfTheOneBefore) {
  const auto stream = Hold("c", 3, 5);
  Start(stream);
  Did();
  EXPECT_EQ(Hold("c", 3, 4)->closed.at(0).code(), absl::StatusCode::kAlreadyExists);
  const auto next = Hold("c", 3, 6);
  const auto later = Hold("c", 3, 7);
  EXPECT_THAT(Did(), ElementsAre("kill", "kill"));
  EXPECT_EQ(next->closed.at(0).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(later->heard, IsEmpty());
  seat_.AgentEnded({});
  EXPECT_THAT(later->heard, ElementsAre("held"));
  EXPECT_EQ(use_, SlotUse::kHeld);
}

TEST_F(AdoptionSeatTest, AnAgentThatCannotBeStartedIsToldOf) {
  spawns_ = absl::ResourceExhaustedError("no memory");
  const auto stream = Hold("c", 3, 1);
  Start(stream);
  EXPECT_THAT(stream->heard, ElementsAre("held", "ended 0"));
  EXPECT_EQ(use_, SlotUse::kFree);
}

TEST_F(AdoptionSeatTest, WhoeverLeavesTakesNobodyAndGoesWithItsAgent) {
  const auto stream = Hold("c", 3, 1);
  Start(stream);
  Did();
  seat_.Leave(/*now=*/false);
  EXPECT_THAT(Did(), ElementsAre("ask"));
  EXPECT_EQ(Hold("c", 3, 2)->closed.at(0).code(), absl::StatusCode::kUnavailable);
  seat_.Leave(/*now=*/true);
  EXPECT_THAT(Did(), ElementsAre("kill"));
  seat_.AgentEnded({});
  EXPECT_THAT(Did(), ElementsAre("left"));
}

}  // namespace
}  // namespace millrace
