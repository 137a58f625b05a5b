#include "dashboard/model/dashboard_model.h"

#include <memory>
#include <string>
#include <utility>

#include "core/proto/time_proto.h"
#include "dashboard/model/model_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;

// The coordinator's clock is an hour before the viewer's.
const absl::Time kT = absl::FromUnixSeconds(1'000'000);
const absl::Time kViewer = kT + absl::Hours(1);

SourceUpdate Live(v1::WatchUpdate watch, double second) {
  *watch.mutable_time() = TimeToProto(kT + absl::Seconds(second));
  if (watch.incarnation().empty()) watch.set_incarnation("one");
  watch.set_seq(static_cast<uint64_t>(second * 1000) + 1);
  SourceUpdate update;
  update.arrived = kViewer + absl::Seconds(second);
  update.link.kind = LinkState::Kind::kLive;
  update.watch = std::make_shared<const v1::WatchUpdate>(std::move(watch));
  return update;
}

v1::WatchUpdate Begin(int nodes) {
  v1::WatchUpdate watch;
  watch.set_snapshot(true);
  watch.mutable_cluster()->set_phase(v1::ClusterInfo::PHASE_RUNNING);
  watch.mutable_cluster()->set_input_mode(v1::INPUT_MODE_FEED);
  *watch.mutable_cluster()->mutable_started() = TimeToProto(kT);
  for (int i = 0; i < nodes; ++i) {
    v1::SlotStatus* slot = watch.add_slots();
    slot->set_executor_id(i);
    slot->set_job_name("worker");
    slot->set_task_index(i);
    slot->set_state(v1::SLOT_STATE_RUNNING);
    slot->set_attached(true);
    slot->set_host("h");
    v1::StateTime* reached = slot->add_reached();
    reached->set_state(v1::SLOT_STATE_RUNNING);
    *reached->mutable_time() = TimeToProto(kT + absl::Seconds(0.5));
  }
  return watch;
}

// A sample of node 0, `second` into its attempt; counters grow by a known amount each second.
v1::WatchUpdate Sample(double second, uint32_t attempt = 0) {
  v1::WatchUpdate watch;
  v1::WatchUpdate::Node* node = watch.add_nodes();
  node->set_executor_id(0);
  *node->mutable_received() = TimeToProto(kT + absl::Seconds(second));
  v1::NodeSample* sample = node->mutable_sample();
  sample->set_attempt(attempt);
  // The agent's clock is another one again.
  *sample->mutable_time() = TimeToProto(kT + absl::Minutes(7) + absl::Seconds(second));
  sample->mutable_process()->set_cpu_us(static_cast<uint64_t>(second * 1.5e6));
  v1::QueueSample* queue = sample->add_queues();
  queue->set_queue("input");
  queue->set_rows_received(static_cast<uint64_t>(second * 200));
  queue->set_bytes_received(static_cast<uint64_t>(second * 4000));
  queue->set_wait_us(static_cast<uint64_t>(second * 0.25e6));
  queue->set_compute_us(static_cast<uint64_t>(second * 0.7e6));
  queue->set_full_us(static_cast<uint64_t>(second * 0.1e6));
  return watch;
}

v1::GpuSample* AddGpu(v1::WatchUpdate* watch, const std::string& uuid) {
  v1::GpuSample* gpu = watch->mutable_nodes(0)->mutable_sample()->add_gpus();
  gpu->set_uuid(uuid);
  return gpu;
}

TEST(DashboardModel, DividesCountersByTheTimeBetweenTwoSamples) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  model.Apply(Live(Sample(1), 1));
  const NodeState& node = model.nodes()[0];
  EXPECT_THAT(node.rows_per_second, IsNan());
  EXPECT_THAT(node.cpu_percent, IsNan());
  model.Apply(Live(Sample(3), 3));
  EXPECT_THAT(node.rows_per_second, FloatNear(200, 0.1f));
  EXPECT_THAT(node.bytes_per_second, FloatNear(4000, 1));
  EXPECT_THAT(node.cpu_percent, FloatNear(150, 0.1f));
  EXPECT_THAT(node.starved, FloatNear(0.25f, 0.001f));
  EXPECT_THAT(node.queues[0].compute, FloatNear(0.7f, 0.001f));
  EXPECT_THAT(node.backpressured, FloatNear(0.1f, 0.001f));
  EXPECT_THAT(model.cluster_value(ClusterMetric::kRows), FloatNear(200, 0.1f));
  // The same sample again, because something else of the node changed.
  model.Apply(Live(Sample(3), 3.5));
  EXPECT_THAT(node.rows_per_second, FloatNear(200, 0.1f));
}

// What tables of queues are made anew for, however often their values change.
TEST(DashboardModel, TellsOfOtherQueuesAndNotOfTheirValues) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  const uint64_t slots = model.slots_version();
  const uint64_t none = model.queues_version();
  model.Apply(Live(Sample(1), 1));
  const uint64_t one = model.queues_version();
  EXPECT_NE(one, none);
  model.Apply(Live(Sample(3), 3));
  EXPECT_EQ(model.queues_version(), one);
  EXPECT_EQ(model.slots_version(), slots);
  v1::WatchUpdate more = Sample(4);
  more.mutable_nodes(0)->mutable_sample()->add_queues()->set_queue("other");
  model.Apply(Live(more, 4));
  EXPECT_NE(model.queues_version(), one);
  // A node of which nothing but a sample is known is a row too.
  v1::WatchUpdate unknown = Sample(5);
  unknown.mutable_nodes(0)->set_executor_id(7);
  model.Apply(Live(unknown, 5));
  EXPECT_NE(model.slots_version(), slots);
}

TEST(DashboardModel, KeepsWhenEachAttemptReachedEachState) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  model.Apply(Live(Begin(1), 1));  // a snapshot repeats what is known
  v1::WatchUpdate again = Begin(1);
  again.set_snapshot(false);
  again.mutable_slots(0)->set_attempt(1);
  again.mutable_slots(0)->mutable_reached(0)->set_state(v1::SLOT_STATE_FAILED);
  model.Apply(Live(again, 2));
  const auto& states = model.timeline().states();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].state, v1::SLOT_STATE_RUNNING);
  EXPECT_EQ(states[0].time, kT + absl::Seconds(0.5));
  EXPECT_EQ(states[1].state, v1::SLOT_STATE_FAILED);
  EXPECT_EQ(states[1].attempt, 1u);
}

TEST(DashboardModel, BeginsRatesAnewWithAnAttempt) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  model.Apply(Live(Sample(100), 100));
  model.Apply(Live(Sample(102), 102));
  v1::WatchUpdate next = Sample(103, 1);
  next.mutable_nodes(0)->mutable_sample()->mutable_queues(0)->set_rows_received(5);
  model.Apply(Live(next, 103));
  EXPECT_THAT(model.nodes()[0].rows_per_second, IsNan());
  EXPECT_THAT(model.nodes()[0].cpu_percent, IsNan());
}

TEST(DashboardModel, NeverTakesWhatIsUnknownForZero) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  v1::WatchUpdate watch = Sample(1);
  AddGpu(&watch, "GPU-1")->set_error("GPU is lost");
  AddGpu(&watch, "GPU-2")->set_utilization_percent(0);
  model.Apply(Live(watch, 1));
  ASSERT_EQ(model.gpus().size(), 2u);
  EXPECT_THAT(model.gpus()[0].value(GpuMetric::kUtilization), IsNan());
  EXPECT_EQ(model.gpus()[1].value(GpuMetric::kUtilization), 0);
  EXPECT_THAT(model.gpus()[1].value(GpuMetric::kMemory), IsNan());
  EXPECT_THAT(model.nodes()[0].rss_bytes, IsNan());
  const OrderedJson json = ModelToJson(model);
  EXPECT_FALSE(json["gpus"][0].contains("utilization_percent"));
  EXPECT_EQ(json["gpus"][1]["utilization_percent"], 0);
}

TEST(DashboardModel, KnowsWhoseGpusAreAndThatAHostHasNone) {
  DashboardModel model;
  model.Apply(Live(Begin(2), 0));
  v1::WatchUpdate watch = Sample(1);
  AddGpu(&watch, "GPU-1")->set_index(1);
  AddGpu(&watch, "GPU-0")->set_index(0);
  watch.mutable_nodes(0)->mutable_sample()->add_claimed_gpus("GPU-1");
  model.Apply(Live(watch, 1));
  EXPECT_EQ(model.gpus()[0].owner, 0);
  EXPECT_EQ(model.gpus()[1].owner, -1);
  EXPECT_EQ(model.hosts()[0].gpus, (std::vector<int>{1, 0}));  // by index
  EXPECT_EQ(model.GpuName(0), "h/gpu1");
  v1::WatchUpdate none = Sample(2);
  none.mutable_nodes(0)->mutable_sample()->set_gpus_unknown("no NVML on this host");
  model.Apply(Live(none, 2));
  EXPECT_EQ(model.hosts()[0].gpus_unknown, "no NVML on this host");
  EXPECT_EQ(model.gpus()[0].owner, -1);
}

TEST(DashboardModel, KnowsWhatCameThroughSharedMemoryAndWhyTheRestDidNot) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  v1::WatchUpdate watch = Sample(1);
  model.Apply(Live(watch, 1));
  EXPECT_THAT(model.nodes()[0].queues[0].placed(), IsNan());
  EXPECT_FALSE(ModelToJson(model)["nodes"][0]["queues"][0].contains("placed_fraction"));
  watch = Sample(2);
  v1::NodeSample* const sample = watch.mutable_nodes(0)->mutable_sample();
  sample->mutable_queues(0)->set_batches_received(8);
  sample->mutable_queues(0)->set_batches_placed(6);
  sample->set_why_not_shared("feeder/1: another user");
  model.Apply(Live(watch, 2));
  EXPECT_EQ(model.nodes()[0].queues[0].placed(), 0.75F);
  const OrderedJson json = ModelToJson(model)["nodes"][0];
  EXPECT_EQ(json["queues"][0]["placed_fraction"], 0.75);
  EXPECT_EQ(json["why_not_shared"], "feeder/1: another user");
}

TEST(DashboardModel, LetsTimeGoOnAndSaysThatDataAreOld) {
  DashboardModel model;
  model.Apply(Live(Begin(1), 0));
  model.Apply(Live(Sample(1), 1));
  model.Advance(kViewer + absl::Seconds(2));
  EXPECT_EQ(model.now(), kT + absl::Seconds(2));
  EXPECT_FALSE(model.health().stale);
  EXPECT_FALSE(model.IsOld(model.nodes()[0].sampled));
  model.Advance(kViewer + absl::Seconds(7));
  EXPECT_TRUE(model.IsOld(model.nodes()[0].sampled));
  EXPECT_FALSE(model.health().stale);
  model.Advance(kViewer + absl::Seconds(12));
  EXPECT_TRUE(model.health().stale);
  EXPECT_THAT(model.verdict().start.text, HasSubstr("Connection lost 11 s ago"));
}

TEST(DashboardModel, WarnsWithHysteresis) {
  DashboardModel model;
  v1::WatchUpdate begin = Begin(1);
  model.Apply(Live(begin, 0));
  v1::WatchUpdate stopped;
  *stopped.add_slots() = begin.slots(0);
  stopped.mutable_slots(0)->set_stopped(true);
  model.Apply(Live(stopped, 1));
  model.Advance(kViewer + absl::Seconds(1));
  EXPECT_THAT(model.warnings(), IsEmpty());
  model.Advance(kViewer + absl::Seconds(4.5));
  ASSERT_EQ(model.warnings().size(), 1u);
  EXPECT_EQ(model.warnings()[0]->text, "worker:0 is stopped by a signal");
  v1::WatchUpdate goes;
  *goes.add_slots() = begin.slots(0);
  model.Apply(Live(goes, 5));
  model.Advance(kViewer + absl::Seconds(6));
  EXPECT_EQ(model.warnings().size(), 1u);
  model.Advance(kViewer + absl::Seconds(10));
  EXPECT_THAT(model.warnings(), IsEmpty());
}

TEST(DashboardModel, ForgetsWhatAnotherCoordinatorTold) {
  DashboardModel model;
  model.Apply(Live(Begin(3), 0));
  v1::WatchUpdate other = Begin(1);
  other.set_incarnation("two");
  model.Apply(Live(other, 5));
  EXPECT_EQ(model.nodes().size(), 1u);
  EXPECT_TRUE(model.has_data());
}

TEST(DashboardModel, TakesASnapshotOfTheSameCoordinatorWithoutRepeatingLines) {
  DashboardModel model;
  const auto with_lines = [](std::initializer_list<double> seconds) {
    v1::WatchUpdate watch = Begin(1);
    for (const double second : seconds) {
      v1::LogBatch* batch = watch.add_logs();
      *batch->mutable_time() = TimeToProto(kT + absl::Seconds(second));
      batch->add_lines("line");
    }
    return watch;
  };
  model.Apply(Live(with_lines({1, 2}), 3));
  EXPECT_EQ(model.logs().size(), 2u);
  model.Apply(Live(with_lines({1, 2, 4}), 5));
  EXPECT_EQ(model.logs().size(), 3u);
}

TEST(DashboardModel, RefusesWhatMakesNoSense) {
  DashboardModel model;
  v1::WatchUpdate watch = Begin(1);
  watch.add_slots()->set_executor_id(-5);
  watch.add_nodes()->set_executor_id(1 << 30);
  watch.add_membership()->set_epoch(3);
  v1::MetricPoint* metric = watch.add_metrics();
  metric->set_executor_id(-1);
  model.Apply(Live(watch, 0));
  model.Advance(kViewer);
  EXPECT_EQ(model.nodes().size(), 1u);
  EXPECT_EQ(model.health().refused_updates, 4u);
}

TEST(DashboardModel, TakesWhatComesWithoutATimeAsOfNow) {
  DashboardModel model;
  for (int second = 0; second < 3; ++second) {
    SourceUpdate update = Live(second == 0 ? Begin(1) : Sample(second), second);
    v1::WatchUpdate watch = *update.watch;
    watch.clear_time();
    update.watch = std::make_shared<const v1::WatchUpdate>(std::move(watch));
    model.Apply(update);
  }
  EXPECT_EQ(model.now(), kViewer);
}

TEST(DashboardModel, SaysWhyThereIsNoConnection) {
  DashboardModel model;
  SourceUpdate update;
  update.arrived = kViewer;
  update.link.kind = LinkState::Kind::kRefused;
  update.link.reason = "the token is not one of this cluster";
  model.Apply(update);
  model.Advance(kViewer);
  EXPECT_EQ(model.verdict().start.text, "Refused: the token is not one of this cluster.");
  EXPECT_EQ(model.verdict().start.mood, Mood::kBad);
  EXPECT_EQ(ModelToJson(model)["link"]["state"], "refused");
}

TEST(DashboardModel, WritesTheWholeOfItAsJson) {
  DashboardModel model;
  model.Apply(Live(Begin(2), 0));
  model.Apply(Live(Sample(1), 1));
  model.Apply(Live(Sample(2), 2));
  model.Advance(kViewer + absl::Seconds(2));
  const OrderedJson json = ModelToJson(model);
  EXPECT_EQ(json["format"], kModelJsonFormat);
  EXPECT_EQ(json["time"], "1970-01-12T13:46:42Z");
  EXPECT_EQ(json["nodes"].size(), 2u);
  EXPECT_EQ(json["nodes"][0]["state"], "running");
  EXPECT_EQ(json["nodes"][0]["queues"][0]["rows_per_second"], 200);
  EXPECT_EQ(json["verdict"]["start"]["text"], model.verdict().start.text);
  EXPECT_EQ(json["cluster"]["phase"], "running");
}

}  // namespace
}  // namespace millrace::dashboard
