#include "core/cli/metrics/cluster_metrics.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

// A chief and two workers, of which one was started again and one has two GPUs.
v1::WatchUpdate Snapshot(const std::string& id) {
  v1::WatchUpdate update;
  update.set_seq(1);
  update.set_snapshot(true);
  update.set_incarnation("i");
  *update.mutable_time() = TimeToProto(kStart + absl::Seconds(100));
  v1::ClusterInfo& cluster = *update.mutable_cluster();
  cluster.set_cluster_id(id);
  cluster.set_phase(v1::ClusterInfo::PHASE_RUNNING);
  cluster.set_program("train \"it\"");
  *cluster.mutable_started() = TimeToProto(kStart);
  cluster.set_num_slots(3);
  for (int state = 0; state <= v1::SLOT_STATE_LOST; ++state) cluster.add_by_state(0);
  cluster.set_by_state(v1::SLOT_STATE_RUNNING, 3);
  for (int i = 0; i < 3; ++i) {
    v1::SlotStatus& slot = *update.add_slots();
    slot.set_executor_id(i);
    slot.set_job_name(i == 0 ? "chief" : "worker");
    slot.set_task_index(i == 0 ? 0 : i - 1);
    slot.set_state(v1::SLOT_STATE_RUNNING);
    slot.set_attempt(i == 2 ? 3 : 0);
    slot.set_host("h");
    v1::StateTime& reached = *slot.add_reached();
    reached.set_state(v1::SLOT_STATE_RUNNING);
    *reached.mutable_time() = TimeToProto(kStart + absl::Seconds(1 + i));
    v1::WatchUpdate::Node& node = *update.add_nodes();
    node.set_executor_id(i);
    *node.mutable_received() = TimeToProto(kStart + absl::Seconds(100 - 2 * i));
    v1::NodeSample& sample = *node.mutable_sample();
    sample.mutable_process()->set_cpu_us(1'500'000);
    sample.mutable_process()->set_rss_bytes(1000);
    sample.set_step(10 + i);
    v1::QueueSample& queue = *sample.add_queues();
    queue.set_queue("input");
    queue.set_wait_us(250'000);
    queue.set_rows_received(7);
    v1::QueueLedger& ledger = *node.add_ledger();
    ledger.set_queue("input");
    ledger.set_rows_received(100);
    ledger.set_rows_refed(i);
    ledger.mutable_stages()->set_encode_us(500'000);
  }
  v1::NodeSample& sample = *update.mutable_nodes(1)->mutable_sample();
  for (int i = 0; i < 2; ++i) {
    v1::GpuSample& gpu = *sample.add_gpus();
    gpu.set_index(i);
    gpu.set_uuid(absl::StrCat("GPU-", i));
    gpu.set_utilization_percent(i == 0 ? 50 : 0);
    gpu.set_memory_used_bytes(1 << 20);
  }
  sample.add_claimed_gpus("GPU-0");
  v1::FeedInfo& feed = *update.add_feeds();
  feed.set_feed_id("f");
  feed.set_queue("input");
  feed.set_pending(4);
  v1::FeedInfo& over = *update.add_feeds();
  over.set_feed_id("g");
  over.set_queue("input");
  over.set_closed(true);
  over.set_done(9);
  return update;
}

class ClusterMetricsTest : public ::testing::Test {
 protected:
  ClusterMetricsTest() {
    EXPECT_THAT(a_.Apply(Snapshot("a")), IsOk());
    EXPECT_THAT(b_.Apply(Snapshot("b")), IsOk());
  }
  ClusterView a_, b_, none_;
};

TEST_F(ClusterMetricsTest, NumbersOfTwoClusters) {
  const std::string text = ClusterMetrics({&a_, &none_, &b_}, {}, {});
  for (
      const std::string line : {
          R"(millrace_cluster_info{cluster="a",program="train \"it\"",driver_host="",version="",name=""} 1)",
          R"(millrace_cluster_phase{cluster="a",phase="running"} 1)",
          R"(millrace_cluster_phase{cluster="a",phase="failed"} 0)",
          R"(millrace_slots{cluster="b",state="running"} 3)",
          R"(millrace_slots{cluster="b",state="lost"} 0)",
          R"(millrace_start_seconds{cluster="a",state="running",node="last"} 2)",
          R"(millrace_node_restarts_total{cluster="a",role="worker"} 3)",
          R"(millrace_node_cpu_seconds{cluster="a",role="worker"} 3)",
          R"(millrace_node_resident_memory_bytes{cluster="a",role="chief"} 1000)",
          R"(millrace_node_oldest_sample_seconds{cluster="a",role="worker"} 4)",
          R"(millrace_node_least_step{cluster="a",role="worker"} 11)",
          R"(millrace_node_greatest_step{cluster="a",role="worker"} 12)",
          R"(millrace_feeds_open{cluster="a",queue="input"} 1)",
          R"(millrace_feed_partitions{cluster="a",queue="input",state="pending"} 4)",
          R"(millrace_feed_partitions{cluster="a",queue="input",state="done"} 0)",
          R"(millrace_feed_rows_received_total{cluster="a",queue="input"} 300)",
          R"(millrace_feed_rows_refed_total{cluster="a",queue="input"} 3)",
          R"(millrace_feed_stage_seconds{cluster="a",queue="input",stage="feeder_encode"} 1.5)",
          R"(millrace_feed_stage_seconds{cluster="a",queue="input",stage="program_wait"} 0.75)",
          R"(millrace_gpus{cluster="a",role=""} 1)",
          R"(millrace_gpus{cluster="a",role="worker"} 1)",
          R"(millrace_gpu_utilization_ratio{cluster="a",role="worker"} 0.5)",
      }) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("millrace_each_")));
}

// Families stand once, whatever the number of clusters: Prometheus refuses everything else.
TEST_F(ClusterMetricsTest, FamiliesAreWhole) {
  const std::string text = ClusterMetrics({&a_, &b_}, {}, {.nodes = true});
  std::string family;
  std::vector<std::string> seen;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (line == "# EOF") continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "#") {
      if (words[1] != "TYPE") continue;
      family = words[2];
      EXPECT_THAT(seen, Not(::testing::Contains(family)));
      seen.push_back(family);
      continue;
    }
    EXPECT_TRUE(absl::StartsWith(line, family)) << line << " of " << family;
  }
  EXPECT_GT(seen.size(), 30);
}

TEST_F(ClusterMetricsTest, EachNodeIfThatIsAskedFor) {
  const std::string text =
      ClusterMetrics({&a_}, {}, {.format = MetricsFormat::kText, .nodes = true});
  for (const std::string line : {
           R"(millrace_each_node_state{cluster="a",node="worker:1",host="h",state="running"} 1)",
           R"(millrace_each_node_restarts_total{cluster="a",node="worker:1"} 3)",
           R"(millrace_each_node_step{cluster="a",node="chief:0"} 10)",
           R"(millrace_each_node_rows_received{cluster="a",node="chief:0"} 7)",
           R"(millrace_each_gpu_utilization_ratio{cluster="a",host="h",gpu="0",uuid="GPU-0"} 0.5)",
       }) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
}

TEST_F(ClusterMetricsTest, HowOthersEnded) {
  EndedCluster ended;
  ended.cluster_id = "c";
  ended.program = "train";
  ended.outcome = "failed";
  ended.ended = kStart;
  EXPECT_THAT(
      ClusterMetrics({}, {ended}, {}),
      HasSubstr(
          R"(_ended_timestamp_seconds{cluster="c",program="train",outcome="failed"} 1700000000)"
          "\n"));
}

// Ten thousand nodes are as many lines as three, but for their roles.
TEST_F(ClusterMetricsTest, AsLongForManyNodes) {
  v1::WatchUpdate update = Snapshot("a");
  const v1::SlotStatus slot = update.slots(2);
  const v1::WatchUpdate::Node node = update.nodes(2);
  for (int i = 3; i < 1000; ++i) {
    *update.add_slots() = slot;
    update.mutable_slots(i)->set_executor_id(i);
    update.mutable_slots(i)->set_task_index(i - 1);
    *update.add_nodes() = node;
    update.mutable_nodes(i)->set_executor_id(i);
  }
  update.mutable_cluster()->set_num_slots(1000);
  ClusterView many;
  ASSERT_THAT(many.Apply(update), IsOk());
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(ClusterMetrics({&many}, {}, {})), lines(ClusterMetrics({&a_}, {}, {})));
}

}  // namespace
}  // namespace millrace::cli
