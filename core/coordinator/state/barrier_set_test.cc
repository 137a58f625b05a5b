#include "core/coordinator/state/barrier_set.h"

#include <map>
#include <string>
#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kNow = absl::Hours(1);
constexpr absl::Duration kMinute = absl::Minutes(1);

BarrierSet Three() { return BarrierSet({{1, "chief:0"}, {2, "worker:0"}, {3, "worker:1"}}); }

BarrierSet::Waiter At(int executor_id, uint64_t request_id = 1) {
  return {static_cast<uint64_t>(executor_id), request_id};
}

TEST(BarrierSetTest, EveryoneIsReleasedWhenTheLastArrivesAndTheNameIsFreeAgain) {
  BarrierSet barriers = Three();
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(barriers.Arrive("b", 1, At(1), kMinute, kNow), IsEmpty());
    EXPECT_THAT(barriers.Arrive("b", 3, At(3), kMinute, kNow), IsEmpty());
    auto done = barriers.Arrive("b", 2, At(2), kMinute, kNow);
    ASSERT_THAT(done, SizeIs(3));
    for (const auto& completion : done) EXPECT_THAT(completion.status, IsOk());
    EXPECT_EQ(barriers.size(), 0u);
  }
}

TEST(BarrierSetTest, TwoNamesAreTwoBarriers) {
  BarrierSet barriers({{1, "worker:0"}, {2, "worker:1"}});
  EXPECT_THAT(barriers.Arrive("a", 1, At(1), kMinute, kNow), IsEmpty());
  EXPECT_THAT(barriers.Arrive("b", 2, At(2), kMinute, kNow), IsEmpty());
  EXPECT_THAT(barriers.Arrive("a", 2, At(2, 2), kMinute, kNow), SizeIs(2));
}

TEST(BarrierSetTest, ATimeoutNamesWhoDidNotComeAndLeavesThePlaceEmpty) {
  BarrierSet barriers = Three();
  barriers.Arrive("b", 1, At(1), absl::Seconds(5), kNow);
  barriers.Arrive("b", 2, At(2), kMinute, kNow);
  EXPECT_EQ(barriers.NextDeadline(), kNow + absl::Seconds(5));
  EXPECT_THAT(barriers.Expire(kNow + absl::Seconds(4)), IsEmpty());
  auto ended = barriers.Expire(kNow + absl::Seconds(5));
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].waiter, At(1));
  EXPECT_THAT(ended[0].status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                        HasSubstr("'b': worker:1 did not come within 5s")));
  EXPECT_THAT(barriers.Arrive("b", 3, At(3), kMinute, kNow), IsEmpty());
  EXPECT_THAT(barriers.Arrive("b", 1, At(1, 2), kMinute, kNow), SizeIs(3));
}

TEST(BarrierSetTest, AZeroTimeoutDoesNotWait) {
  BarrierSet barriers = Three();
  auto ended = barriers.Arrive("b", 1, At(1), absl::ZeroDuration(), kNow);
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(barriers.size(), 0u);
}

TEST(BarrierSetTest, AnEndedParticipantEndsAllWaitsAndLaterArrivals) {
  BarrierSet barriers = Three();
  barriers.Arrive("a", 1, At(1), kMinute, kNow);
  barriers.Arrive("b", 2, At(2), kMinute, kNow);
  auto ended = barriers.Ended(3, "has failed");
  ASSERT_THAT(ended, SizeIs(2));
  for (const auto& completion : ended) {
    EXPECT_THAT(completion.status,
                StatusIs(absl::StatusCode::kAborted, HasSubstr("worker:1 has failed")));
  }
  ended = barriers.Arrive("c", 1, At(1), kMinute, kNow);
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].status, StatusIs(absl::StatusCode::kAborted));
  barriers.Returned(3);
  EXPECT_THAT(barriers.Arrive("c", 1, At(1), kMinute, kNow), IsEmpty());
}

TEST(BarrierSetTest, ANewAttemptOrALostOwnerLeavesItsPlace) {
  BarrierSet barriers({{1, "worker:0"}, {2, "worker:1"}});
  barriers.Arrive("b", 1, At(1), kMinute, kNow);
  barriers.Returned(1);
  EXPECT_THAT(barriers.Arrive("b", 2, At(2), kMinute, kNow), IsEmpty());
  barriers.DropOwner(2);
  EXPECT_THAT(barriers.Arrive("b", 1, At(1), kMinute, kNow), IsEmpty());
  EXPECT_THAT(barriers.Arrive("b", 1, At(1, 9), kMinute, kNow), IsEmpty());  // replaces itself
  EXPECT_THAT(barriers.Arrive("b", 2, At(2), kMinute, kNow), SizeIs(2));
}

TEST(BarrierSetTest, StrangersAndBadNamesAreRefused) {
  BarrierSet barriers = Three();
  auto status = [&](const std::string& name, int id) {
    return barriers.Arrive(name, id, At(id), kMinute, kNow).at(0).status;
  };
  EXPECT_THAT(status("b", 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("executor 0")));
  EXPECT_THAT(status("", 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(status(std::string(1025, 'n'), 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(barriers.Ended(0, "x"), IsEmpty());
}

TEST(BarrierSetTest, ManyMissingOnesAreSummedUp) {
  std::map<int, std::string> participants;
  for (int i = 0; i < 30; ++i) participants[i] = "worker:" + std::to_string(i);
  BarrierSet barriers(participants);
  barriers.Arrive("b", 0, At(0), absl::Seconds(1), kNow);
  auto ended = barriers.Expire(kNow + kMinute);
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_THAT(ended[0].status.message(), HasSubstr("worker:10 and 19 more"));
}

}  // namespace
}  // namespace millrace
