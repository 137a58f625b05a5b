#include "core/agent/gpu/gpu_sample.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"

namespace millrace {
namespace {

TEST(GpuSampleTest, OneAgentOfEachHostWatches) {
  const ClusterSpec spec = *ClusterSpec::FromJsonText(
      R"({"chief": ["a:1"], "ps": ["b:1", "c:1"], "worker": ["a:2", "b:2", "d:1", "d:2"]})");
  EXPECT_TRUE(WatchesHostGpus(spec, "chief", 0));
  EXPECT_TRUE(WatchesHostGpus(spec, "ps", 0));
  EXPECT_TRUE(WatchesHostGpus(spec, "ps", 1));
  EXPECT_FALSE(WatchesHostGpus(spec, "worker", 0));
  EXPECT_FALSE(WatchesHostGpus(spec, "worker", 1));
  EXPECT_TRUE(WatchesHostGpus(spec, "worker", 2));
  EXPECT_FALSE(WatchesHostGpus(spec, "worker", 3));
  EXPECT_FALSE(WatchesHostGpus(spec, "worker", 4));
}

TEST(GpuSampleTest, WhatIsUnknownStaysUnset) {
  GpuSnapshot snapshot;
  snapshot.time = absl::FromUnixSeconds(100);
  snapshot.source = GpuSource::kNvml;
  GpuReading& gpu = snapshot.gpus.emplace_back();
  gpu.index = 3;
  gpu.uuid = "GPU-1";
  gpu.error = "GPU is lost";
  v1::NodeSample sample;
  AddGpus(snapshot, &sample);
  ASSERT_EQ(sample.gpus_size(), 1);
  EXPECT_EQ(sample.gpus(0).index(), 3u);
  EXPECT_EQ(sample.gpus(0).source(), "nvml");
  EXPECT_EQ(sample.gpus(0).error(), "GPU is lost");
  EXPECT_FALSE(sample.gpus(0).has_utilization_percent());
  EXPECT_FALSE(sample.gpus(0).has_power_watts());
  EXPECT_FALSE(sample.gpus(0).throttle_known());
  EXPECT_FALSE(sample.gpus(0).has_mig_mode());

  gpu.utilization_percent = 0;
  gpu.throttle_reasons.emplace();
  gpu.power_watts = 71.5;
  gpu.tensor_active_percent = 12.5;
  gpu.processes = {{.pid = 7, .memory_bytes = 100}, {.pid = 8}};
  AddGpus(snapshot, &sample);
  ASSERT_EQ(sample.gpus_size(), 1);
  EXPECT_TRUE(sample.gpus(0).has_utilization_percent());
  EXPECT_TRUE(sample.gpus(0).throttle_known());
  EXPECT_EQ(sample.gpus(0).power_watts(), 71.5);
  EXPECT_EQ(sample.gpus(0).tensor_active_percent(), 12.5);
  EXPECT_EQ(sample.gpus(0).processes(0).memory_bytes(), 100u);
  EXPECT_FALSE(sample.gpus(0).processes(1).has_memory_bytes());
}

TEST(GpuSampleTest, SaysWhyNothingIsKnown) {
  GpuSnapshot snapshot;
  snapshot.unknown = "libnvidia-ml.so.1 cannot be loaded";
  v1::NodeSample sample;
  AddGpus(snapshot, &sample);
  EXPECT_EQ(sample.gpus_size(), 0);
  EXPECT_EQ(sample.gpus_unknown(), "libnvidia-ml.so.1 cannot be loaded");
}

}  // namespace
}  // namespace millrace
