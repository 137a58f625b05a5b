#include "millrace/membership.h"

#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

ClusterSpec Workers(std::vector<std::string> addresses) {
  ClusterSpec spec;
  EXPECT_THAT(spec.AddJob("worker", std::move(addresses)), IsOk());
  return spec;
}

class MembershipTrackerTest : public testing::Test {
 protected:
  absl::Time At(int second) const { return absl::FromUnixSeconds(1000 + second); }

  std::vector<MembershipUpdate> updates_;
  MembershipTracker tracker_{
      [this](const MembershipUpdate& update) { updates_.push_back(update); }};
};

TEST_F(MembershipTrackerTest, CountsEpochsAndTellsDifferences) {
  tracker_.Observe(Workers({"a", "b"}), At(1));
  tracker_.Observe(Workers({"a", "c"}), At(2));
  ASSERT_THAT(updates_, SizeIs(2));
  EXPECT_EQ(updates_[0].epoch, 1);
  EXPECT_EQ(updates_[0].spec, Workers({"a", "b"}));
  EXPECT_THAT(updates_[0].diff.added, SizeIs(2));
  EXPECT_THAT(updates_[0].status, IsOk());
  EXPECT_EQ(updates_[0].confirmed, At(1));
  EXPECT_EQ(updates_[1].epoch, 2);
  EXPECT_EQ(updates_[1].diff.ToString(), "moved worker:1 b -> c");
}

TEST_F(MembershipTrackerTest, DropsRepetitionsButRemembersThatTheyWereConfirmed) {
  tracker_.Observe(Workers({"a"}), At(1));
  tracker_.Observe(Workers({"a"}), At(7));
  EXPECT_THAT(updates_, SizeIs(1));
  tracker_.Observe(absl::UnavailableError("gone"), At(9));
  ASSERT_THAT(updates_, SizeIs(2));
  EXPECT_EQ(updates_[1].epoch, 1);
  EXPECT_EQ(updates_[1].spec, Workers({"a"}));
  EXPECT_THAT(updates_[1].diff.added, IsEmpty());
  EXPECT_EQ(updates_[1].confirmed, At(7));
  EXPECT_THAT(updates_[1].status, StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(MembershipTrackerTest, BeginsWithEpochZeroIfTheSourceCannotBeHeard) {
  tracker_.Observe(absl::UnavailableError("not yet"), At(1));
  tracker_.Observe(absl::UnavailableError("not yet"), At(2));
  tracker_.Observe(absl::UnavailableError("still not"), At(3));
  tracker_.Observe(ClusterSpec(), At(4));
  ASSERT_THAT(updates_, SizeIs(3));
  EXPECT_EQ(updates_[0].epoch, 0);
  EXPECT_EQ(updates_[0].confirmed, absl::InfinitePast());
  EXPECT_EQ(updates_[1].status.message(), "still not");
  EXPECT_EQ(updates_[2].epoch, 1);
  EXPECT_THAT(updates_[2].status, IsOk());
}

TEST_F(MembershipTrackerTest, TellsThatTheSourceIsBackWithTheSameMembers) {
  tracker_.Observe(Workers({"a"}), At(1));
  tracker_.Observe(absl::UnavailableError("gone"), At(2));
  tracker_.Observe(Workers({"a"}), At(3));
  ASSERT_THAT(updates_, SizeIs(3));
  EXPECT_EQ(updates_[2].epoch, 1);
  EXPECT_THAT(updates_[2].status, IsOk());
  EXPECT_TRUE(updates_[2].diff.empty());
}

TEST_F(MembershipTrackerTest, APartlyLostSourceChangesItsMembersAndSaysWhatIsLost) {
  tracker_.Observe(Workers({"a"}), At(1));
  tracker_.ObservePartial(Workers({"a", "b"}), absl::UnavailableError("half"), At(1));
  ASSERT_THAT(updates_, SizeIs(2));
  EXPECT_EQ(updates_[1].epoch, 2);
  EXPECT_THAT(updates_[1].status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(updates_[1].confirmed, At(1));
  tracker_.ObservePartial(Workers({"a", "b"}), absl::UnavailableError("half"), At(5));
  EXPECT_THAT(updates_, SizeIs(2));
  EXPECT_EQ(tracker_.last().confirmed, At(5));
}

TEST(CheckWatchTest, RefusesWhatCanNeverBeAWatch) {
  const MembershipCallback callback = [](const MembershipUpdate&) {};
  EXPECT_THAT(CheckWatch(callback, {}), IsOk());
  EXPECT_THAT(CheckWatch(nullptr, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckWatch(callback, {.poll_interval = absl::Milliseconds(1)}), IsOk());
  for (const absl::Duration interval :
       {absl::ZeroDuration(), absl::Microseconds(999), -absl::InfiniteDuration()}) {
    EXPECT_THAT(CheckWatch(callback, {.poll_interval = interval}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace millrace
