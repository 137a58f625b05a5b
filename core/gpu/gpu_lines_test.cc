#include "core/gpu/gpu_lines.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

TEST(GpuLineTest, ASampleHasWhatWasSaidAndNothingElse) {
  const auto line = ParseGpuLine(
      R"({"type":"sample","time_ms":1700000000123,"gpus":[
          {"index":2,"uuid":"GPU-ab","name":"H100","pci_bus_id":"00000000:3B:00.0",
           "utilization_percent":0,"power_mw":312345,"memory_used_bytes":85899345920,
           "throttle_reasons":[],"processes":[{"pid":7},{"pid":8,"memory_bytes":9}],
           "mig_mode":true,"sm_active_percent":100.4,
           "instances":[{"uuid":"MIG-cd","gpu_instance":1,"compute_instance":0,
                         "memory_total_bytes":10}]}]})");
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->kind, GpuLine::Kind::kSample);
  EXPECT_EQ(line->snapshot.source, GpuSource::kNvml);
  EXPECT_EQ(line->snapshot.time, absl::FromUnixMillis(1700000000123));
  ASSERT_THAT(line->snapshot.gpus, SizeIs(2));
  const GpuReading& gpu = line->snapshot.gpus[0];
  EXPECT_EQ(gpu.index, 2);
  EXPECT_EQ(gpu.uuid, "GPU-ab");
  EXPECT_THAT(gpu.utilization_percent, Optional(0.0));
  EXPECT_EQ(gpu.memory_utilization_percent, std::nullopt);
  EXPECT_THAT(gpu.power_watts, Optional(testing::DoubleNear(312.345, 1e-9)));
  EXPECT_THAT(gpu.memory_used_bytes, Optional(85899345920u));
  EXPECT_THAT(gpu.throttle_reasons, Optional(IsEmpty()));
  EXPECT_THAT(gpu.sm_active_percent, Optional(100.0));
  ASSERT_THAT(gpu.processes, Optional(SizeIs(2)));
  EXPECT_EQ((*gpu.processes)[0].memory_bytes, std::nullopt);
  const GpuReading& instance = line->snapshot.gpus[1];
  EXPECT_EQ(instance.uuid, "MIG-cd");
  EXPECT_EQ(instance.parent_uuid, "GPU-ab");
  EXPECT_EQ(instance.index, 2);
  EXPECT_THAT(instance.gpu_instance, Optional(1));
  EXPECT_EQ(instance.utilization_percent, std::nullopt);
}

// What millrace-gpu wrote beside a matrix product on an H200, driver 580.159.04.
TEST(GpuLineTest, ARealGpuSaysAllThatIsAskedFor) {
  const absl::StatusOr<std::string> recorded = ReadFile("core/gpu/testdata/h200.jsonl");
  ASSERT_THAT(recorded, IsOk());
  const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(*recorded, "\n"), '\n');
  ASSERT_THAT(lines, SizeIs(2));
  const auto ready = ParseGpuLine(lines[0]);
  ASSERT_THAT(ready, IsOk());
  EXPECT_EQ(ready->snapshot.driver_version, "580.159.04");
  const auto sample = ParseGpuLine(lines[1]);
  ASSERT_THAT(sample, IsOk());
  ASSERT_THAT(sample->snapshot.gpus, SizeIs(1));
  const GpuReading& gpu = sample->snapshot.gpus[0];
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_TRUE(IsGpuId(gpu.uuid)) << gpu.uuid;
  EXPECT_THAT(gpu.utilization_percent, Optional(100.0));
  EXPECT_THAT(gpu.memory_total_bytes, Optional(150754820096u));
  EXPECT_THAT(gpu.power_watts, Optional(testing::DoubleNear(690.592, 1e-9)));
  EXPECT_THAT(gpu.throttle_reasons, Optional(ElementsAre("sw_power_cap")));
  EXPECT_THAT(gpu.mig_mode, Optional(false));
  EXPECT_THAT(gpu.tensor_active_percent, Optional(93.64));
  EXPECT_THAT(gpu.pcie_rx_bytes_per_second, Optional(testing::Gt(0)));
  EXPECT_THAT(gpu.xid_count, Optional(0u));
  ASSERT_THAT(gpu.processes, Optional(SizeIs(1)));
  EXPECT_THAT((*gpu.processes)[0].memory_bytes, Optional(916455424u));
  EXPECT_EQ(gpu.error, "");
}

TEST(GpuLineTest, ReadyStuckAndErrorSayWhatTheySay) {
  const auto ready = ParseGpuLine(
      R"({"type":"ready","protocol":1,"driver_version":"550","nvml_version":"12","gpus":[]})");
  ASSERT_THAT(ready, IsOk());
  EXPECT_EQ(ready->kind, GpuLine::Kind::kReady);
  EXPECT_EQ(ready->snapshot.driver_version, "550");
  const auto stuck = ParseGpuLine(R"({"type":"stuck","gpu":3,"call":"nvmlDeviceGetName"})");
  ASSERT_THAT(stuck, IsOk());
  EXPECT_EQ(stuck->kind, GpuLine::Kind::kStuck);
  EXPECT_EQ(stuck->gpu, 3);
  EXPECT_EQ(stuck->text, "nvmlDeviceGetName");
  const auto error = ParseGpuLine(R"({"type":"error","message":"no\nNVML"})");
  ASSERT_THAT(error, IsOk());
  EXPECT_EQ(error->text, "no\\nNVML");
}

TEST(GpuLineTest, WhatMakesNoSenseIsUnknown) {
  const auto line = ParseGpuLine(
      R"({"type":"sample","time_ms":"now","gpus":[
          7, {"uuid":"GPU-without-index"},
          {"index":-1}, {"index":1e300}, {"index":0,"uuid":"GPU-; rm -rf","name":7,
           "utilization_percent":"37","power_mw":-5,"memory_used_bytes":1e300,
           "sm_active_percent":250,"processes":[{"pid":-1},{"pid":"x"},3],"mig_mode":1,
           "throttle_reasons":"all","instances":[{"uuid":""},{"name":"x"},4]}]})");
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->snapshot.time, absl::InfinitePast());
  ASSERT_THAT(line->snapshot.gpus, SizeIs(1));
  const GpuReading& gpu = line->snapshot.gpus[0];
  EXPECT_EQ(gpu.uuid, "");
  EXPECT_EQ(gpu.name, "");
  EXPECT_EQ(gpu.utilization_percent, std::nullopt);
  EXPECT_EQ(gpu.power_watts, std::nullopt);
  EXPECT_EQ(gpu.memory_used_bytes, std::nullopt);
  EXPECT_EQ(gpu.sm_active_percent, std::nullopt);
  EXPECT_THAT(gpu.processes, Optional(IsEmpty()));
  EXPECT_EQ(gpu.mig_mode, std::nullopt);
  EXPECT_EQ(gpu.throttle_reasons, std::nullopt);
}

TEST(GpuLineTest, WhatIsNoLineIsRefused) {
  for (const char* text : {"", "hello", "{", "[]", "{}", R"({"type":7})", R"({"type":"other"})",
                           "[[[[[[[[[[[[1]]]]]]]]]]]]", "\xff\xfe"}) {
    EXPECT_THAT(ParseGpuLine(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(GpuLineTest, EveryTruncationOfALineIsRefused) {
  const std::string whole =
      R"({"type":"sample","time_ms":1,"gpus":[{"index":0,"uuid":"GPU-a","processes":[{"pid":1}]}]})";
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseGpuLine(whole.substr(0, size)).ok()) << size;
  }
}

TEST(NvidiaSmiTest, ColumnsWithoutAValueAreUnknown) {
  const auto snapshot = ParseNvidiaSmi(
      "0, GPU-1, Fake A100, 00000000:01:00.0, 535.104.05, 41, 7, 1024, 40960, 123.45, 400.00, 51, "
      "1410, 1215, 1410, 4, 16, Disabled\n"
      "1, GPU-2, Fake A100, 00000000:02:00.0, 535.104.05, [N/A], [Not Supported], 0, 40960, "
      "[Unknown Error], 400.00, 50, 210, 1215, 1410, 4, 16, [N/A]\r\n\n",
      absl::FromUnixSeconds(5));
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->source, GpuSource::kNvidiaSmi);
  EXPECT_EQ(snapshot->time, absl::FromUnixSeconds(5));
  EXPECT_EQ(snapshot->driver_version, "535.104.05");
  ASSERT_THAT(snapshot->gpus, SizeIs(2));
  EXPECT_THAT(snapshot->gpus[0].memory_used_bytes, Optional(1024u << 20));
  EXPECT_THAT(snapshot->gpus[0].power_watts, Optional(123.45));
  EXPECT_THAT(snapshot->gpus[0].mig_mode, Optional(false));
  EXPECT_EQ(snapshot->gpus[0].processes, std::nullopt);
  EXPECT_EQ(snapshot->gpus[1].utilization_percent, std::nullopt);
  EXPECT_EQ(snapshot->gpus[1].power_watts, std::nullopt);
  EXPECT_THAT(snapshot->gpus[1].memory_used_bytes, Optional(0u));
  EXPECT_EQ(snapshot->gpus[1].mig_mode, std::nullopt);
}

// At the same moment.
TEST(NvidiaSmiTest, ARealGpuSaysAllThatIsAskedFor) {
  const auto snapshot = ParseNvidiaSmi(
      "0, GPU-8ea7011e-d019-bd04-0d31-2e9190b1706f, NVIDIA H200, 00000000:00:06.0, 580.159.04, "
      "100, 23, 883, 143771, 693.82, 700.00, 62, 1470, 3201, 1980, 5, 16, Disabled\n",
      absl::FromUnixSeconds(5));
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->driver_version, "580.159.04");
  ASSERT_THAT(snapshot->gpus, SizeIs(1));
  const GpuReading& gpu = snapshot->gpus[0];
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_THAT(gpu.utilization_percent, Optional(100.0));
  EXPECT_THAT(gpu.memory_used_bytes, Optional(883u << 20));
  EXPECT_THAT(gpu.power_watts, Optional(693.82));
  EXPECT_THAT(gpu.mig_mode, Optional(false));
}

TEST(NvidiaSmiTest, AnErrorTextIsQuoted) {
  EXPECT_THAT(ParseNvidiaSmi("NVIDIA-SMI has failed because it couldn't communicate", absl::Now()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NVIDIA-SMI has failed")));
  EXPECT_THAT(ParseNvidiaSmi("0, GPU-1, only three", absl::Now()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseNvidiaSmi("", absl::Now())->gpus, IsEmpty());
}

TEST(GpuIdTest, KnowsIdsOfGpusAndInstances) {
  EXPECT_TRUE(IsGpuId("GPU-8a2f1c00-0000-0000-0000-000000000000"));
  EXPECT_TRUE(IsGpuId("MIG-GPU-8a2f1c00-0000-0000-0000-000000000000/1/0"));
  for (const std::string bad : {"", "GPU-", "0", "gpu-1", "GPU-a b", "GPU-a,b"}) {
    EXPECT_FALSE(IsGpuId(bad)) << bad;
  }
  EXPECT_FALSE(IsGpuId(absl::StrCat("GPU-", std::string(100, 'a'))));
}

}  // namespace
}  // namespace millrace
