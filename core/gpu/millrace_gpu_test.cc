// Runs millrace-gpu on fake NVML.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/gpu/gpu_lines.h"
#include "core/gpu/gpu_snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr char kHelper[] = "core/gpu/millrace-gpu";
constexpr char kFakeNvml[] = "testing/fake_nvml/libfake_nvml.so";
constexpr char kOldNvml[] = "testing/fake_nvml/libfake_nvml_old.so";
constexpr absl::Duration kPatience = absl::Seconds(60);

constexpr char kTwoGpus[] =
    "driver 550.54.15\nnvml 12.550.54.15\n"
    "gpu 0 uuid=GPU-a name=Fake_H100 bus=00000000:3B:00.0 util=37 memory_util=5 used=100 "
    "total=1000 "
    "power=312345 limit=700000 temperature=55 sm=1980 mem=2619 max_sm=1981 throttle=0x44 "
    "pcie_gen=5 pcie_width=16 rx_kib=10 tx_kib=20 ecc_corrected=1 ecc_uncorrected=2 mig_mode=0\n"
    "process 0 pid=123 bytes=456\nprocess 0 pid=124\n"
    "gpu 1 uuid=GPU-b name=Fake_H100 util=0 used=0 total=1000\n";

class MillraceGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = TempDir::Create("millrace-gpu-test");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    setenv("FAKE_NVML_SCRIPT", Script().c_str(), 1);
    setenv("MILLRACE_NVML_LIBRARY", kFakeNvml, 1);
  }

  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  std::string Script() const { return folder_->path() + "/gpus"; }
  void Write(const std::string& script) { ASSERT_THAT(WriteFileAtomic(Script(), script), IsOk()); }

  void Start(std::vector<std::string> args) {
    int in[2];
    int out[2];
    ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
    args.insert(args.begin(), kHelper);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      execv(kHelper, argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_.reset(in[1]);
    out_.reset(out[0]);
  }

  // The next line; empty at the end of the output, or after too long a time.
  std::string Next() {
    std::string line;
    char c;
    for (;;) {
      pollfd ready = {.fd = out_.get(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) return "";
      if (read(out_.get(), &c, 1) != 1 || c == '\n') return line;
      line += c;
    }
  }

  GpuLine NextLine(GpuLine::Kind kind) {
    const std::string text = Next();
    const absl::StatusOr<GpuLine> line = ParseGpuLine(text);
    EXPECT_THAT(line, IsOk()) << text;
    if (!line.ok()) return {};
    EXPECT_EQ(static_cast<int>(line->kind), static_cast<int>(kind)) << text;
    return *line;
  }

  int WaitForExit() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  GpuSnapshot Once() {
    Start({"--once"});
    NextLine(GpuLine::Kind::kReady);
    const GpuLine sample = NextLine(GpuLine::Kind::kSample);
    EXPECT_EQ(WaitForExit(), 0);
    return sample.snapshot;
  }

  std::optional<TempDir> folder_;
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
};

TEST_F(MillraceGpuTest, ReadsEveryValue) {
  Write(kTwoGpus);
  Start({"--once"});
  const GpuLine ready = NextLine(GpuLine::Kind::kReady);
  EXPECT_EQ(ready.snapshot.driver_version, "550.54.15");
  EXPECT_EQ(ready.snapshot.nvml_version, "12.550.54.15");
  ASSERT_THAT(ready.snapshot.gpus, SizeIs(2));
  EXPECT_EQ(ready.snapshot.gpus[1].uuid, "GPU-b");
  const GpuSnapshot sample = NextLine(GpuLine::Kind::kSample).snapshot;
  EXPECT_EQ(WaitForExit(), 0);
  ASSERT_THAT(sample.gpus, SizeIs(2));
  EXPECT_LT(absl::AbsDuration(absl::Now() - sample.time), kPatience);
  const GpuReading& gpu = sample.gpus[0];
  EXPECT_EQ(gpu.name, "Fake H100");
  EXPECT_EQ(gpu.pci_bus_id, "00000000:3B:00.0");
  EXPECT_THAT(gpu.utilization_percent, Optional(37));
  EXPECT_THAT(gpu.memory_utilization_percent, Optional(5));
  EXPECT_THAT(gpu.memory_used_bytes, Optional(100));
  EXPECT_THAT(gpu.memory_total_bytes, Optional(1000));
  EXPECT_THAT(gpu.power_watts, Optional(testing::DoubleNear(312.345, 1e-6)));
  EXPECT_THAT(gpu.power_limit_watts, Optional(700));
  EXPECT_THAT(gpu.temperature_celsius, Optional(55));
  EXPECT_THAT(gpu.sm_clock_mhz, Optional(1980));
  EXPECT_THAT(gpu.memory_clock_mhz, Optional(2619));
  EXPECT_THAT(gpu.max_sm_clock_mhz, Optional(1981));
  EXPECT_THAT(gpu.throttle_reasons, Optional(ElementsAre("sw_power_cap", "hw_thermal_slowdown")));
  EXPECT_THAT(gpu.pcie_generation, Optional(5));
  EXPECT_THAT(gpu.pcie_width, Optional(16));
  EXPECT_THAT(gpu.pcie_rx_bytes_per_second, Optional(10 * 1024));
  EXPECT_THAT(gpu.pcie_tx_bytes_per_second, Optional(20 * 1024));
  EXPECT_THAT(gpu.ecc_corrected, Optional(1));
  EXPECT_THAT(gpu.ecc_uncorrected, Optional(2));
  EXPECT_THAT(gpu.xid_count, Optional(0));
  EXPECT_EQ(gpu.last_xid, std::nullopt);
  EXPECT_THAT(gpu.mig_mode, Optional(false));
  ASSERT_THAT(gpu.processes, Optional(SizeIs(2)));
  EXPECT_EQ((*gpu.processes)[0].pid, 123);
  EXPECT_THAT((*gpu.processes)[0].memory_bytes, Optional(456));
  EXPECT_EQ((*gpu.processes)[1].memory_bytes, std::nullopt);
}

TEST_F(MillraceGpuTest, WhatTheDriverCannotTellIsUnknownAndNotZero) {
  Write(kTwoGpus);
  const GpuReading gpu = Once().gpus.at(1);
  EXPECT_THAT(gpu.utilization_percent, Optional(0));
  EXPECT_EQ(gpu.memory_utilization_percent, std::optional<double>(0));
  EXPECT_EQ(gpu.power_watts, std::nullopt);
  EXPECT_EQ(gpu.temperature_celsius, std::nullopt);
  EXPECT_EQ(gpu.throttle_reasons, std::nullopt);
  EXPECT_EQ(gpu.ecc_corrected, std::nullopt);
  EXPECT_EQ(gpu.mig_mode, std::nullopt);
  EXPECT_EQ(gpu.sm_active_percent, std::nullopt);
  EXPECT_EQ(gpu.error, "");
}

TEST_F(MillraceGpuTest, ALostGpuHidesNoOther) {
  Write(absl::StrCat(kTwoGpus, "error 0 nvmlDeviceGetHandleByIndex_v2 15\n"));
  const GpuSnapshot lost_at_start = Once();
  ASSERT_THAT(lost_at_start.gpus, SizeIs(2));
  EXPECT_NE(lost_at_start.gpus[0].error, "");
  EXPECT_EQ(lost_at_start.gpus[0].memory_used_bytes, std::nullopt);
  EXPECT_THAT(lost_at_start.gpus[1].memory_total_bytes, Optional(1000));

  Write(kTwoGpus);
  Start({"--interval-ms=100"});
  NextLine(GpuLine::Kind::kReady);
  NextLine(GpuLine::Kind::kSample);
  Write(absl::StrCat(kTwoGpus, "lost 0\n"));
  GpuSnapshot sample;
  do {
    sample = NextLine(GpuLine::Kind::kSample).snapshot;
    ASSERT_THAT(sample.gpus, SizeIs(2));
  } while (sample.gpus[0].error.empty());
  sample = NextLine(GpuLine::Kind::kSample).snapshot;
  EXPECT_THAT(sample.gpus[0].error, HasSubstr("GPU is lost"));
  EXPECT_EQ(sample.gpus[0].uuid, "GPU-a");
  EXPECT_EQ(sample.gpus[0].utilization_percent, std::nullopt);
  EXPECT_THAT(sample.gpus[1].memory_total_bytes, Optional(1000));
  // It comes back.
  Write(kTwoGpus);
  do {
    sample = NextLine(GpuLine::Kind::kSample).snapshot;
    ASSERT_THAT(sample.gpus, SizeIs(2));
  } while (!sample.gpus[0].error.empty());
  EXPECT_THAT(sample.gpus[0].utilization_percent, Optional(37));
}

TEST_F(MillraceGpuTest, OneBadValueLeavesTheOthers) {
  Write(absl::StrCat(kTwoGpus, "error 0 nvmlDeviceGetPowerUsage 999\n"));
  const GpuReading gpu = Once().gpus.at(0);
  EXPECT_THAT(gpu.error, HasSubstr("nvmlDeviceGetPowerUsage"));
  EXPECT_EQ(gpu.power_watts, std::nullopt);
  EXPECT_THAT(gpu.temperature_celsius, Optional(55));
}

TEST_F(MillraceGpuTest, AnOldDriverTellsWhatItHas) {
  setenv("MILLRACE_NVML_LIBRARY", kOldNvml, 1);
  Write(kTwoGpus);
  const GpuReading gpu = Once().gpus.at(0);
  EXPECT_THAT(gpu.memory_used_bytes, Optional(100));
  ASSERT_THAT(gpu.processes, Optional(SizeIs(2)));
  EXPECT_THAT((*gpu.processes)[0].memory_bytes, Optional(456));
  EXPECT_EQ(gpu.mig_mode, std::nullopt);
  EXPECT_EQ(gpu.error, "");
}

TEST_F(MillraceGpuTest, InstancesAndGpmOfAGpuInMigMode) {
  Write(
      "gpu 0 uuid=GPU-a mig_mode=1 total=1000\n"
      "mig 0 uuid=MIG-x name=Fake_MIG_1g gi=1 ci=0 used=5 total=500\n"
      "mig 0 uuid=MIG-y gi=2 ci=0 used=6 total=500\n"
      "process 0 mig=1 pid=9 bytes=10\n"
      "gpm 0 2=81.5 3=30 5=40 10=12 20=1 21=2\n"
      "gpm_mig 0 gi=1 2=50\n");
  const GpuSnapshot sample = Once();
  ASSERT_THAT(sample.gpus, SizeIs(3));
  EXPECT_THAT(sample.gpus[0].mig_mode, Optional(true));
  EXPECT_THAT(sample.gpus[0].sm_active_percent, Optional(81.5));
  EXPECT_THAT(sample.gpus[0].sm_occupancy_percent, Optional(30));
  EXPECT_THAT(sample.gpus[0].tensor_active_percent, Optional(40));
  EXPECT_THAT(sample.gpus[0].dram_active_percent, Optional(12));
  EXPECT_THAT(sample.gpus[0].pcie_tx_bytes_per_second, Optional(1 << 20));
  EXPECT_THAT(sample.gpus[0].pcie_rx_bytes_per_second, Optional(2 << 20));
  EXPECT_EQ(sample.gpus[1].uuid, "MIG-x");
  EXPECT_EQ(sample.gpus[1].parent_uuid, "GPU-a");
  EXPECT_EQ(sample.gpus[1].name, "Fake MIG 1g");
  EXPECT_THAT(sample.gpus[1].gpu_instance, Optional(1));
  EXPECT_THAT(sample.gpus[1].memory_used_bytes, Optional(5));
  EXPECT_THAT(sample.gpus[1].sm_active_percent, Optional(50));
  EXPECT_THAT(sample.gpus[1].processes, Optional(IsEmpty()));
  EXPECT_THAT(sample.gpus[2].processes, Optional(SizeIs(1)));
  EXPECT_EQ(sample.gpus[2].sm_active_percent, std::nullopt);
}

TEST_F(MillraceGpuTest, XidsAreCounted) {
  Write(absl::StrCat(kTwoGpus, "error 1 nvmlDeviceRegisterEvents 3\nxid 0 79\nxid 0 13\n"));
  const GpuSnapshot sample = Once();
  EXPECT_THAT(sample.gpus[0].xid_count, Optional(2));
  EXPECT_THAT(sample.gpus[0].last_xid, Optional(13));
  EXPECT_EQ(sample.gpus[1].xid_count, std::nullopt);
}

TEST_F(MillraceGpuTest, WithoutNvmlTheLastLineSaysWhy) {
  setenv("MILLRACE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
  Start({});
  EXPECT_THAT(NextLine(GpuLine::Kind::kError).text,
              AllOf(HasSubstr("/nonexistent/libnvidia-ml.so.1 cannot be loaded")));
  EXPECT_EQ(WaitForExit(), 3);

  setenv("MILLRACE_NVML_LIBRARY", kFakeNvml, 1);
  Write("error -1 nvmlInit_v2 9\n");
  Start({});
  EXPECT_THAT(NextLine(GpuLine::Kind::kError).text, HasSubstr("Driver Not Loaded"));
  EXPECT_EQ(WaitForExit(), 3);

  setenv("MILLRACE_NVML_LIBRARY", "libc.so.6", 1);
  Start({});
  EXPECT_THAT(NextLine(GpuLine::Kind::kError).text, HasSubstr("is no NVML"));
  EXPECT_EQ(WaitForExit(), 3);
}

TEST_F(MillraceGpuTest, ACallThatHangsIsNamedAndTheGpuCanBeLeftOut) {
  Write(absl::StrCat(kTwoGpus, "hang 0 nvmlDeviceGetTemperature\n"));
  Start({"--stuck-ms=100"});
  NextLine(GpuLine::Kind::kReady);
  const GpuLine stuck = NextLine(GpuLine::Kind::kStuck);
  EXPECT_EQ(stuck.gpu, 0);
  EXPECT_EQ(stuck.text, "nvmlDeviceGetTemperature");
  // Even now it ends with its parent.
  in_.reset();
  EXPECT_EQ(WaitForExit(), 0);

  Start({"--once", "--skip-gpu=0"});
  NextLine(GpuLine::Kind::kReady);
  const GpuSnapshot sample = NextLine(GpuLine::Kind::kSample).snapshot;
  EXPECT_EQ(WaitForExit(), 0);
  ASSERT_THAT(sample.gpus, SizeIs(2));
  EXPECT_THAT(sample.gpus[0].error, HasSubstr("did not return"));
  EXPECT_THAT(sample.gpus[1].memory_total_bytes, Optional(1000));
}

TEST_F(MillraceGpuTest, OnceDoesNotHang) {
  Write(absl::StrCat(kTwoGpus, "hang -1 nvmlInit_v2\n"));
  Start({"--once", "--stuck-ms=100"});
  EXPECT_EQ(NextLine(GpuLine::Kind::kStuck).gpu, -1);
  EXPECT_EQ(WaitForExit(), 4);
}

TEST_F(MillraceGpuTest, SamplesUntilStdinEnds) {
  Write(kTwoGpus);
  Start({"--interval-ms=100"});
  NextLine(GpuLine::Kind::kReady);
  for (int i = 0; i < 3; ++i) NextLine(GpuLine::Kind::kSample);
  in_.reset();
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(MillraceGpuTest, ABadCommandLineIsRefused) {
  for (const char* bad : {"--interval-ms=5", "--interval-ms=x", "--skip-gpu=64", "now"}) {
    Start({bad});
    EXPECT_EQ(Next(), "");
    EXPECT_EQ(WaitForExit(), 2) << bad;
  }
}

}  // namespace
}  // namespace millrace
