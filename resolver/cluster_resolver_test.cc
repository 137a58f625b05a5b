#include "millrace/cluster_resolver.h"

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/scripted_resolver.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

constexpr WatchOptions kOften = {.poll_interval = absl::Milliseconds(2)};

ClusterSpec Workers(std::vector<std::string> addresses) {
  ClusterSpec spec;
  EXPECT_THAT(spec.AddJob("worker", std::move(addresses)), IsOk());
  return spec;
}

TEST(FormatMasterUrlTest, PutsTheLayerBeforeTheAddressUnlessItIsEmpty) {
  EXPECT_EQ(FormatMasterUrl("h:1", "grpc"), "grpc://h:1");
  EXPECT_EQ(FormatMasterUrl("h:1", ""), "h:1");
  EXPECT_EQ(FormatMasterUrl("", "grpc"), "grpc://");
}

TEST(PollingWatchTest, TellsTheMembersAndEveryChange) {
  ScriptedResolver resolver(Workers({"a"}));
  UpdateRecorder updates;
  const auto watch = resolver.Watch(updates.callback(), kOften);
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  resolver.Answer(Workers({"a", "b"}));
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 2 && update.diff.ToString() == "added worker:1 b";
  }));
}

TEST(PollingWatchTest, GoesOnAfterErrors) {
  ScriptedResolver resolver(absl::UnavailableError("not there"));
  UpdateRecorder updates;
  const auto watch = resolver.Watch(updates.callback(), kOften);
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 0 && update.status.message() == "not there";
  }));
  resolver.Answer(Workers({"a"}));
  EXPECT_TRUE(updates.WaitFor(
      [](const MembershipUpdate& update) { return update.epoch == 1 && update.status.ok(); }));
  resolver.Answer(absl::UnavailableError("lost"));
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 1 && update.status.message() == "lost" && update.spec.HasJob("worker");
  }));
}

TEST(PollingWatchTest, DoesNotCallBackOnceItIsDestroyed) {
  ScriptedResolver resolver(Workers({"a"}));
  UpdateRecorder updates;
  {
    const auto watch = resolver.Watch(updates.callback(), kOften);
    ASSERT_THAT(watch, IsOk());
    EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  }
  const int asked = resolver.asked();
  const size_t told = updates.updates().size();
  resolver.Answer(Workers({"b"}));
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(resolver.asked(), asked);
  EXPECT_EQ(updates.updates().size(), told);
}

TEST(PollingWatchTest, IsDestroyedAtOnceHoweverLongItsInterval) {
  ScriptedResolver resolver(Workers({"a"}));
  UpdateRecorder updates;
  const absl::Time start = absl::Now();
  {
    const auto watch =
        resolver.Watch(updates.callback(), {.poll_interval = absl::InfiniteDuration()});
    ASSERT_THAT(watch, IsOk());
    EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  }
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST(PollingWatchTest, RefusesOptionsThatCannotBe) {
  ScriptedResolver resolver(Workers({"a"}));
  EXPECT_THAT(resolver.Watch(nullptr), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      resolver.Watch([](const MembershipUpdate&) {}, {.poll_interval = absl::ZeroDuration()}),
      StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(resolver.asked(), 0);
}

}  // namespace
}  // namespace millrace
