// What Watch() of a KubernetesResolver tells.

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/membership.h"
#include "resolver/kubernetes/client/fake_kubernetes_client.h"
#include "resolver/kubernetes/client/pod.h"
#include "resolver/kubernetes/kubernetes_resolver_fixture.h"
#include "resolver/kubernetes/pod_cluster.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

class KubernetesWatchTest : public KubernetesResolverTest {
 protected:
  // Begins to watch what Create() makes; updates_ has what is told.
  void Watch() {
    resolver_ = Create();
    ASSERT_NE(resolver_, nullptr);
    absl::StatusOr<std::unique_ptr<MembershipWatch>> watch = resolver_->Watch(updates_.callback());
    ASSERT_THAT(watch, IsOk());
    watch_ = *std::move(watch);
  }

  FakeClock clock_;
  UpdateRecorder updates_;
  std::unique_ptr<KubernetesResolver> resolver_;
  std::unique_ptr<MembershipWatch> watch_;
};

TEST_F(KubernetesWatchTest, AWatchTellsEveryChange) {
  options_.job_to_label_mapping = {{"ps", {"app=p"}}, {"worker", {"app=w", "app=v"}}};
  client_->Put(MakePod("p", 0));
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("v", 5));
  Watch();
  MembershipUpdate update =
      AwaitSpec(updates_, R"({"ps":["10.0.0.0:8470"],"worker":["10.0.0.0:8470","10.0.0.5:8470"]})");
  EXPECT_EQ(update.epoch, 1);
  EXPECT_EQ(update.diff.added.size(), 3u);
  EXPECT_GT(update.confirmed, absl::Now() - absl::Minutes(10));

  Pod moved = MakePod("w", 0);
  moved.pod_ip = "10.9.9.9";
  client_->Put(moved);
  update =
      AwaitSpec(updates_, R"({"ps":["10.0.0.0:8470"],"worker":["10.9.9.9:8470","10.0.0.5:8470"]})");
  EXPECT_EQ(update.epoch, 2);
  EXPECT_EQ(update.diff.ToString(), "moved worker:0 10.0.0.0:8470 -> 10.9.9.9:8470");

  // Relabelled pods leave and come.
  Pod relabelled = MakePod("p", 0);
  relabelled.labels = {{"app", "w"}};
  client_->Put(relabelled);
  EXPECT_THAT(AwaitStatus(updates_, absl::StatusCode::kFailedPrecondition).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job \"ps\": no pod")));
  client_->Delete("uid-p-0");
  Pod ps = MakePod("p", 1);
  client_->Put(ps);
  update =
      AwaitSpec(updates_, R"({"ps":["10.0.0.1:8470"],"worker":["10.9.9.9:8470","10.0.0.5:8470"]})");
  watch_.reset();
  client_->Put(MakePod("w", 7));
  EXPECT_EQ(client_->running_watches(), 0);
}

TEST_F(KubernetesWatchTest, AWatchIsSilentAboutWhatDoesNotMatter) {
  client_->Put(MakePod("w", 0));
  Watch();
  AwaitSpec(updates_, R"({"worker":["10.0.0.0:8470"]})");
  for (int i = 0; i < 100; ++i) {
    Pod pod = MakePod("w", 0);
    pod.annotations["beat"] = absl::StrCat(i);
    client_->Put(pod);
    client_->SendBookmarks();
  }
  client_->Put(MakePod("w", 1));
  const auto next = updates_.WaitForNext([](const MembershipUpdate&) { return true; });
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->epoch, 2);
}

TEST_F(KubernetesWatchTest, AWatchSaysThatTheServerIsLostAndFoundAgain) {
  client_->Put(MakePod("w", 0));
  Watch();
  AwaitSpec(updates_, R"({"worker":["10.0.0.0:8470"]})");
  ASSERT_TRUE(client_->WaitUntil([&] { return client_->running_watches() == 1; }));

  client_->FailLists(absl::UnavailableError("connection refused"));
  client_->FailWatches(absl::UnavailableError("connection refused"));
  client_->EndWatches(absl::UnavailableError("connection reset"));
  client_->Put(MakePod("w", 1));
  MembershipUpdate update = AwaitStatus(updates_, absl::StatusCode::kUnavailable);
  EXPECT_THAT(update.status, StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("job \"worker\" (app=w): connection re")));
  EXPECT_EQ(update.epoch, 1);
  EXPECT_EQ(update.spec.ToJson(), R"({"worker":["10.0.0.0:8470"]})");  // as it was
  EXPECT_TRUE(update.diff.empty());

  client_->FailLists(absl::OkStatus());
  client_->FailWatches(absl::OkStatus());
  update = AwaitSpec(updates_, R"({"worker":["10.0.0.0:8470","10.0.0.1:8470"]})");
  // The pod may come in the update that says the server is there again, or in the next.
  EXPECT_EQ(update.epoch, 2);

  // The same spec again is told too, if it was in doubt.
  client_->EndWatches(absl::UnavailableError("connection reset"));
  AwaitStatus(updates_, absl::StatusCode::kUnavailable);
  update = AwaitStatus(updates_, absl::StatusCode::kOk);
  EXPECT_EQ(update.epoch, 2);
  EXPECT_TRUE(update.diff.empty());
}

TEST_F(KubernetesWatchTest, AWatchDoesNotTrustAServerThatDoesNotAnswer) {
  hooks_.clock = &clock_;
  client_->Put(MakePod("w", 0));
  Watch();
  AwaitSpec(updates_, R"({"worker":["10.0.0.0:8470"]})");
  ASSERT_TRUE(client_->WaitUntil([&] { return client_->running_watches() == 1; }));
  client_->HangWatches(true);
  client_->EndWatches(absl::OkStatus());
  ASSERT_TRUE(client_->WaitUntil([&] { return client_->watches() == 2; }));
  clock_.AdvanceWall(absl::Hours(1));  // the date is not the time
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(updates_.updates().size(), 1u);
  clock_.Advance(absl::Seconds(4));
  EXPECT_THAT(AwaitStatus(updates_, absl::StatusCode::kUnavailable).status,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has not answered")));
  client_->HangWatches(false);
  EXPECT_EQ(AwaitStatus(updates_, absl::StatusCode::kOk).epoch, 1);
}

TEST_F(KubernetesWatchTest, AWatchTellsFaultsFromTheBeginning) {
  client_->FailLists(absl::PermissionDeniedError("need list"));
  Watch();
  const MembershipUpdate update = AwaitStatus(updates_, absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(update.epoch, 0);
  EXPECT_TRUE(update.spec.empty());
  client_->Put(MakePod("w", 0));
  client_->FailLists(absl::OkStatus());
  EXPECT_EQ(AwaitSpec(updates_, R"({"worker":["10.0.0.0:8470"]})").epoch, 1);
}

TEST_F(KubernetesWatchTest, AWatchOfWhatIsAvailableGrowsAndShrinks) {
  options_.completeness = MemberCompleteness::kAvailable;
  Watch();
  AwaitSpec(updates_, R"({"worker":{}})");
  client_->Put(MakePod("w", 2));
  AwaitSpec(updates_, R"({"worker":{"2":"10.0.0.2:8470"}})");
  client_->Put(MakePod("w", 0));
  client_->Put(MakePod("w", 1, "Pending"));
  AwaitSpec(updates_, R"({"worker":{"0":"10.0.0.0:8470","2":"10.0.0.2:8470"}})");
  client_->Put(MakePod("w", 1));
  AwaitSpec(updates_, R"({"worker":["10.0.0.0:8470","10.0.0.1:8470","10.0.0.2:8470"]})");
  client_->Delete("uid-w-0");
  const MembershipUpdate update =
      AwaitSpec(updates_, R"({"worker":{"1":"10.0.0.1:8470","2":"10.0.0.2:8470"}})");
  EXPECT_EQ(update.diff.ToString(), "removed worker:0 10.0.0.0:8470");
}

// Whatever happens, and in whatever order it is heard of: in the end the watch says what a list
// says.
TEST_F(KubernetesWatchTest, AWatchEndsUpWithWhatAListSays) {
  options_.completeness = MemberCompleteness::kAvailable;
  options_.job_to_label_mapping = {{"worker", {"app=w", "app=v"}}, {"ps", {"app=p"}}};
  Watch();
  std::minstd_rand random(1);
  const auto one_of = [&random](int n) { return static_cast<int>(random() % n); };
  const char* const apps[] = {"w", "v", "p", "other"};
  const char* const phases[] = {"Running", "Running", "Running", "Pending", "Succeeded"};
  for (int round = 0; round < 20; ++round) {
    for (int change = 0; change < 200; ++change) {
      const int i = one_of(60);
      Pod pod = MakePod("w", i, phases[one_of(5)]);
      pod.uid = absl::StrCat("uid-", i, "-", one_of(2));
      pod.labels["app"] = apps[one_of(4)];
      pod.terminating = one_of(10) == 0;
      if (one_of(3) == 0) pod.pod_ip = absl::StrCat("10.1.0.", one_of(200));
      if (one_of(4) == 0) {
        client_->Delete(pod.uid);
      } else {
        client_->Put(pod);
      }
      if (one_of(50) == 0) client_->Compact();
      if (one_of(50) == 0) {
        client_->EndWatches(one_of(2) == 0 ? absl::OkStatus() : absl::DataLossError("garbled"));
      }
    }
    const absl::StatusOr<ClusterSpec> listed = resolver_->cluster_spec();
    ASSERT_THAT(listed, IsOk());
    // A last change makes sure that there is an update to wait for.
    Pod last = MakePod("p", 1000 + round);
    client_->Put(last);
    const std::string expected = resolver_->cluster_spec()->ToJson();
    EXPECT_NE(expected, listed->ToJson());
    AwaitSpec(updates_, expected);
  }
}

TEST_F(KubernetesWatchTest, AWatchNeedsACallback) {
  EXPECT_THAT(Create()->Watch(nullptr), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
