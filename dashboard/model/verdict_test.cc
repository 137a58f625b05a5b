#include "dashboard/model/verdict.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.pb.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/source_update.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::string_view kKilled =
    "worker:1 (executor 1, attempt 0, host h, pid 42) was killed by SIGKILL. Last stderr line: "
    "loss is NaN";

// When the cluster started.
const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

// A cluster of workers, as its coordinator tells it; the viewer's clock is the coordinator's.
class VerdictTest : public testing::Test {
 protected:
  VerdictTest() : model_({.zone = absl::UTCTimeZone()}) {}

  void SetUp() override {
    watch_.set_snapshot(true);
    watch_.set_incarnation("one");
    SetPhase(v1::ClusterInfo::PHASE_RUNNING);
    watch_.mutable_cluster()->set_input_mode(v1::INPUT_MODE_FEED);
    *watch_.mutable_cluster()->mutable_started() = TimeToProto(kStart);
  }

  void SetPhase(v1::ClusterInfo::Phase phase) { watch_.mutable_cluster()->set_phase(phase); }

  // The next worker: in `state` since `second`.
  v1::SlotStatus* AddWorker(v1::SlotState state, double second) {
    v1::SlotStatus* slot = watch_.add_slots();
    slot->set_executor_id(watch_.slots_size() - 1);
    slot->set_job_name("worker");
    slot->set_task_index(slot->executor_id());
    slot->set_host("h");
    slot->set_attached(true);
    slot->set_state(state);
    v1::StateTime* reached = slot->add_reached();
    reached->set_state(state);
    *reached->mutable_time() = TimeToProto(kStart + absl::Seconds(second));
    return slot;
  }

  v1::Event* AddEvent(uint64_t number, int executor, absl::string_view kind,
                      absl::string_view text) {
    v1::Event* event = watch_.add_events();
    event->set_number(number);
    *event->mutable_time() = TimeToProto(kStart + absl::Seconds(static_cast<double>(number)));
    event->set_kind(std::string(kind));
    event->set_severity(v1::Event::SEVERITY_ERROR);
    event->set_executor_id(executor);
    event->set_text(std::string(text));
    return event;
  }

  // What it comes to at `second`, when the last update arrived.
  Verdict At(double second) {
    const absl::Time now = kStart + absl::Seconds(second);
    *watch_.mutable_time() = TimeToProto(now);
    watch_.set_seq(1);
    SourceUpdate update;
    update.arrived = now;
    update.link.kind = LinkState::Kind::kLive;
    update.watch = std::make_shared<const v1::WatchUpdate>(watch_);
    model_.Apply(update);
    model_.Advance(now);
    model_.Settle();
    return MakeVerdict(model_);
  }

  // What is said of an idle GPU where the queue of each worker is full for this share of the time.
  VerdictSentence GpusIfFull(const std::vector<double>& shares) {
    watch_.add_feeds()->set_feed_id("f");
    for (size_t i = 0; i < shares.size(); ++i) {
      AddWorker(v1::SLOT_STATE_RUNNING, 1);
      v1::WatchUpdate::Node* node = watch_.add_nodes();
      node->set_executor_id(static_cast<int>(i));
      node->mutable_sample()->add_queues()->set_queue("input");
    }
    v1::GpuSample* const gpu = watch_.mutable_nodes(0)->mutable_sample()->add_gpus();
    gpu->set_uuid("GPU-0");
    gpu->set_utilization_percent(10);
    Verdict verdict;
    for (const int second : {2, 3}) {
      for (v1::WatchUpdate::Node& node : *watch_.mutable_nodes()) {
        *node.mutable_received() = TimeToProto(kStart + absl::Seconds(second));
        *node.mutable_sample()->mutable_time() = node.received();
        node.mutable_sample()->mutable_queues(0)->set_full_us(
            static_cast<uint64_t>(1e6 * (second - 2) * shares[node.executor_id()]));
      }
      verdict = At(second);
    }
    return verdict.gpus;
  }

  v1::WatchUpdate watch_;
  DashboardModel model_;
};

TEST_F(VerdictTest, IsNeutralWhileNothingIsKnown) {
  const Verdict verdict = MakeVerdict(model_);
  EXPECT_THAT(verdict.start.text, StartsWith("Connecting"));
  EXPECT_EQ(verdict.start.mood, Mood::kBusy);
  EXPECT_EQ(verdict.gpus.text, "GPUs: nothing is known yet.");
  EXPECT_EQ(verdict.gpus.mood, Mood::kNeutral);
  EXPECT_EQ(verdict.failure.text, "Failures: nothing is known yet.");
  EXPECT_EQ(FormatVerdict(verdict),
            verdict.start.text + "\n" + verdict.gpus.text + "\n" + verdict.failure.text + "\n");
}

TEST_F(VerdictTest, AllIsGoodWhenEachSlotRuns) {
  AddWorker(v1::SLOT_STATE_RUNNING, 2);
  AddWorker(v1::SLOT_STATE_RUNNING, 3);
  const Verdict verdict = At(4);
  EXPECT_THAT(verdict.start.text, StartsWith("Running. All 2 slots ready 3"));
  EXPECT_EQ(verdict.start.mood, Mood::kGood);
  EXPECT_EQ(verdict.failure.text, "No failures.");
  EXPECT_EQ(verdict.failure.mood, Mood::kGood);
}

TEST_F(VerdictTest, NamesTheSlotThatHoldsEverybodyUp) {
  SetPhase(v1::ClusterInfo::PHASE_RESERVING);
  AddWorker(v1::SLOT_STATE_RUNNING, 1);
  AddWorker(v1::SLOT_STATE_STARTED, 1);
  Verdict verdict = At(2);
  EXPECT_EQ(verdict.start.mood, Mood::kBusy);
  EXPECT_THAT(verdict.start.text, StartsWith("Starting: 1 of 2 slots run"));
  EXPECT_THAT(verdict.start.text,
              HasSubstr("slowest is worker:1: agent started, not connected for 1"));
  // It is only slow for a while; then it is missing.
  verdict = At(7);
  EXPECT_EQ(verdict.start.mood, Mood::kWarning);
  EXPECT_THAT(verdict.start.text,
              StartsWith("Waiting for worker:1: agent started, not connected for 6"));
  EXPECT_THAT(verdict.start.text, HasSubstr("; host h."));
  verdict = At(12);
  EXPECT_EQ(verdict.start.mood, Mood::kBad);
  EXPECT_EQ(verdict.start.jump.panel, Panel::kReservations);
  EXPECT_EQ(verdict.start.jump.selection.node, 1);
}

TEST_F(VerdictTest, SaysWhatWasLastHeardOfTheSlotThatIsMissing) {
  SetPhase(v1::ClusterInfo::PHASE_RESERVING);
  AddWorker(v1::SLOT_STATE_RUNNING, 1);
  AddWorker(v1::SLOT_STATE_REQUESTED, 0);
  AddEvent(1, 1, "agent", "the queue of h is full.\nsecond line");
  EXPECT_THAT(At(20).start.text, HasSubstr("; the queue of h is full."));
}

TEST_F(VerdictTest, NamesTheNodeThatFailedFirstAndCountsTheOthers) {
  SetPhase(v1::ClusterInfo::PHASE_FAILED);
  AddWorker(v1::SLOT_STATE_FAILED, 9);
  AddWorker(v1::SLOT_STATE_FAILED, 8);
  v1::ClusterInfo* const cluster = watch_.mutable_cluster();
  cluster->mutable_first_cause()->set_message(std::string(kKilled));
  cluster->set_first_cause_executor(1);
  cluster->set_folded_failures(2);
  AddEvent(8, 1, "node", kKilled)->set_first_cause(true);
  const Verdict verdict = At(10);
  EXPECT_EQ(verdict.start.mood, Mood::kBad);
  EXPECT_THAT(verdict.start.text, StartsWith("Failed"));
  EXPECT_EQ(verdict.gpus.text, "GPUs: free, the cluster has failed.");
  EXPECT_EQ(verdict.failure.mood, Mood::kBad);
  EXPECT_EQ(
      verdict.failure.text,
      "worker:1 failed first (killed by SIGKILL: loss is NaN) at 13:46:48.0; 2 later failures "
      "folded.");
  EXPECT_EQ(verdict.failure.evidence, kKilled);
  EXPECT_EQ(verdict.failure.jump.panel, Panel::kTimeline);
  EXPECT_EQ(verdict.failure.jump.selection.node, 1);
  EXPECT_EQ(verdict.failure.jump.selection.event, 8);
}

TEST_F(VerdictTest, TellsARestartThatHealedTheClusterFromAFailure) {
  AddWorker(v1::SLOT_STATE_RUNNING, 1);
  AddWorker(v1::SLOT_STATE_RUNNING, 6)->set_attempt(2);
  AddEvent(5, 1, "restart",
           absl::StrCat("worker:1 is started again in 1 s (restart 2 of 5): ", kKilled));
  const Verdict verdict = At(10);
  EXPECT_EQ(verdict.failure.mood, Mood::kWarning);
  EXPECT_EQ(verdict.failure.text,
            "Nothing fatal, but worker:1 was started again 2 times, last at 13:46:45.0: killed by "
            "SIGKILL: loss is NaN.");
}

TEST_F(VerdictTest, SaysWhyGpusAreIdleAndThatOthersAreUnknown) {
  AddWorker(v1::SLOT_STATE_RUNNING, 1);
  AddWorker(v1::SLOT_STATE_RUNNING, 1)->set_host("other");
  for (int node = 0; node < 2; ++node) {
    v1::WatchUpdate::Node* update = watch_.add_nodes();
    update->set_executor_id(node);
    *update->mutable_received() = TimeToProto(kStart + absl::Seconds(2));
    *update->mutable_sample()->mutable_time() = update->received();
  }
  v1::GpuSample* const gpu = watch_.mutable_nodes(0)->mutable_sample()->add_gpus();
  gpu->set_uuid("GPU-0");
  gpu->set_utilization_percent(10);
  watch_.mutable_nodes(0)->mutable_sample()->add_claimed_gpus("GPU-0");
  watch_.mutable_nodes(1)->mutable_sample()->set_gpus_unknown("no NVML on this host");
  Verdict verdict = At(3);
  EXPECT_EQ(verdict.gpus.mood, Mood::kWarning);
  EXPECT_EQ(verdict.gpus.text,
            "GPUs idle 90%: no feed has been opened. Unknown on other: no NVML on this host.");
  watch_.mutable_cluster()->set_input_mode(v1::INPUT_MODE_DIRECT);
  verdict = At(4);
  EXPECT_THAT(verdict.gpus.text, HasSubstr("the nodes read their own data (InputMode DIRECT)"));
  EXPECT_EQ(verdict.gpus.jump.panel, Panel::kGpus);
}

TEST_F(VerdictTest, BlamesNoNodeWhereAllAreSlow) {
  EXPECT_EQ(GpusIfFull({0.6, 0.5, 0.55}).text,
            "GPUs idle 90%: the programs are slow, not the feed; the queues of all 3 nodes are "
            "full up to 60% of the time.");
}

TEST_F(VerdictTest, BlamesTheNodeThatIsSlowerThanTheOthers) {
  const VerdictSentence gpus = GpusIfFull({0.1, 0.6, 0.5});
  EXPECT_EQ(gpus.text,
            "GPUs idle 90%: backpressure; worker:1 is slow, its queue is full 60% of the time.");
  EXPECT_EQ(gpus.jump.selection.node, 1);
}

TEST_F(VerdictTest, IsGoodAboutBusyGpus) {
  AddWorker(v1::SLOT_STATE_RUNNING, 1);
  v1::WatchUpdate::Node* update = watch_.add_nodes();
  *update->mutable_received() = TimeToProto(kStart + absl::Seconds(2));
  *update->mutable_sample()->mutable_time() = update->received();
  v1::GpuSample* const gpu = update->mutable_sample()->add_gpus();
  gpu->set_uuid("GPU-0");
  gpu->set_utilization_percent(95);
  const Verdict verdict = At(3);
  EXPECT_EQ(verdict.gpus.mood, Mood::kGood);
  EXPECT_EQ(verdict.gpus.text, "GPUs busy: 95% on average.");
}

}  // namespace
}  // namespace millrace::dashboard
