#include "core/agent/gpu/gpu_monitor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/gpu/agent_gpus.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(60);

// One loop and one reaper for the process, since the reaper waits for every child there is.
class GpuMonitorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loop = EventLoop::Create();
    ASSERT_THAT(loop, IsOk());
    loop_ = loop->release();
    auto reaper = ChildReaper::Create(loop_);
    ASSERT_THAT(reaper, IsOk());
    reaper_ = reaper->release();
  }

  static void TearDownTestSuite() {
    delete reaper_;
    delete loop_;
  }

  void SetUp() override {
    auto folder = TempDir::Create("millrace-gpu-test");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    Set("PATH", "/usr/bin:/bin");
    Set("MILLRACE_GPU_HELPER", RunfilePath("core/gpu/millrace-gpu"));
    Set("MILLRACE_NVML_LIBRARY", RunfilePath("testing/fake_nvml/libfake_nvml.so"));
    Set("FAKE_NVML_SCRIPT", folder_->path() + "/gpus");
    options_.nvidia_smi = folder_->path() + "/none";
    options_.interval = absl::Milliseconds(100);
    options_.stuck_after = absl::Milliseconds(300);
    options_.min_backoff = absl::Milliseconds(50);
  }

  void Set(const std::string& name, const std::string& value) {
    std::erase_if(options_.environment,
                  [&](const std::string& entry) { return entry.rfind(name + "=", 0) == 0; });
    options_.environment.push_back(absl::StrCat(name, "=", value));
  }

  std::string Uuid(int index) const { return absl::StrCat("GPU-", index, "-", salt_); }

  void Script(int gpus, const std::string& more = "") {
    std::string text = "driver 550\nnvml 12\n";
    for (int i = 0; i < gpus; ++i) {
      absl::StrAppend(&text, "gpu ", i, " uuid=", Uuid(i), " util=", 10 * i, " total=1000\n");
    }
    ASSERT_THAT(WriteFileAtomic(folder_->path() + "/gpus", text + more), IsOk());
  }

  // A helper of the test's own.
  void Helper(const std::string& script) {
    const std::string path = folder_->path() + "/helper";
    ASSERT_THAT(WriteFileAtomic(path, absl::StrCat("#!/bin/sh\n", script), 0700), IsOk());
    Set("MILLRACE_GPU_HELPER", path);
  }

  void Start() {
    options_.environment.shrink_to_fit();
    monitor_ = std::make_unique<GpuMonitor>(loop_, reaper_, options_,
                                            [this](const GpuSnapshot&) { ++updates_; });
    monitor_->Start();
  }

  bool Until(const std::function<bool(const GpuSnapshot&)>& done) {
    return loop_->RunUntil([&] { return done(monitor_->snapshot()); }, kPatience);
  }

  static EventLoop* loop_;
  static ChildReaper* reaper_;
  const std::string salt_ = RandomHex(8);
  std::optional<TempDir> folder_;
  GpuMonitor::Options options_;
  std::unique_ptr<GpuMonitor> monitor_;
  int updates_ = 0;
};

EventLoop* GpuMonitorTest::loop_ = nullptr;
ChildReaper* GpuMonitorTest::reaper_ = nullptr;

TEST_F(GpuMonitorTest, FollowsTheGpusByNvml) {
  Script(2);
  Start();
  EXPECT_FALSE(monitor_->settled());
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return now.gpus.size() == 2; }));
  EXPECT_TRUE(monitor_->settled());
  EXPECT_EQ(monitor_->snapshot().source, GpuSource::kNvml);
  EXPECT_EQ(monitor_->snapshot().driver_version, "550");
  EXPECT_EQ(monitor_->snapshot().unknown, "");
  EXPECT_THAT(monitor_->snapshot().gpus[1].utilization_percent, Optional(10));
  EXPECT_EQ(monitor_->snapshot().gpus[1].power_watts, std::nullopt);
  const absl::Time first = monitor_->snapshot().time;
  EXPECT_TRUE(Until([&](const GpuSnapshot& now) { return now.time > first; }));
  EXPECT_EQ(monitor_->restarts(), 0);
}

TEST_F(GpuMonitorTest, ADriverThatHangsForOneGpuLosesThatOneOnly) {
  Script(2);
  options_.retry = absl::Seconds(2);
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return now.gpus.size() == 2; }));
  Script(2, "hang 0 nvmlDeviceGetTemperature\n");
  ASSERT_TRUE(Until(
      [](const GpuSnapshot& now) { return now.gpus.size() == 2 && !now.gpus[0].error.empty(); }));
  EXPECT_GE(monitor_->restarts(), 1);
  EXPECT_THAT(monitor_->snapshot().gpus[0].error, HasSubstr("did not return"));
  EXPECT_EQ(monitor_->snapshot().gpus[0].memory_total_bytes, std::nullopt);
  EXPECT_THAT(monitor_->snapshot().gpus[1].memory_total_bytes, Optional(1000));
  // It is tried again, and by then the driver is well.
  Script(2);
  EXPECT_TRUE(Until(
      [](const GpuSnapshot& now) { return now.gpus.size() == 2 && now.gpus[0].error.empty(); }));
}

TEST_F(GpuMonitorTest, ADriverThatHangsAltogetherIsGivenUpAndTriedAgain) {
  Script(1, "hang -1 nvmlEventSetWait_v2\n");
  options_.late_after = absl::Seconds(1);
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_THAT(monitor_->snapshot().unknown, HasSubstr("nvmlEventSetWait_v2"));
  EXPECT_TRUE(monitor_->settled());
  EXPECT_EQ(monitor_->snapshot().source, GpuSource::kUnknown);
  ASSERT_TRUE(Until([this](const GpuSnapshot&) { return monitor_->restarts() >= 2; }));
  Script(1);
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return now.gpus.size() == 1; }));
  EXPECT_EQ(monitor_->snapshot().unknown, "");
}

TEST_F(GpuMonitorTest, TheLastValuesStayWithTheirTimeWhenTheHelperIsLate) {
  Helper(
      "echo '{\"type\":\"ready\",\"driver_version\":\"1\"}'\n"
      "echo "
      "'{\"type\":\"sample\",\"time_ms\":1700000000000,\"gpus\":[{\"index\":0,\"uuid\":\"GPU-a\"}]}"
      "'\n"
      "exec sleep 1000\n");
  options_.late_after = absl::Milliseconds(500);
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_THAT(monitor_->snapshot().unknown, HasSubstr("wrote nothing"));
  EXPECT_EQ(monitor_->snapshot().time, absl::FromUnixMillis(1700000000000));
  EXPECT_THAT(monitor_->snapshot().gpus, SizeIs(1));
}

TEST_F(GpuMonitorTest, GarbageFromTheHelperIsSurvived) {
  Helper(
      "echo hello; echo '{}'; printf '\\377\\000\\n'; echo '[[[['\n"
      "echo '{\"type\":\"sample\",\"gpus\":[7,{\"index\":0,\"uuid\":\"GPU-a\"}]}'\n"
      "exec sleep 1000\n");
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return now.gpus.size() == 1; }));
}

TEST_F(GpuMonitorTest, AnEndlessLineEndsTheHelper) {
  Helper("exec tr '\\000' x < /dev/zero\n");
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_THAT(monitor_->snapshot().unknown, HasSubstr("a line of over"));
}

TEST_F(GpuMonitorTest, AHelperThatDiesIsStartedAgain) {
  Helper("exit 5\n");
  Start();
  ASSERT_TRUE(Until([this](const GpuSnapshot&) { return monitor_->restarts() >= 3; }));
  EXPECT_THAT(monitor_->snapshot().unknown, HasSubstr("millrace-gpu ended with exit code 5"));
}

TEST_F(GpuMonitorTest, WithoutNvmlNvidiaSmiIsAsked) {
  Set("MILLRACE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1");
  options_.nvidia_smi = RunfilePath("testing/fake_nvml/fake_nvidia_smi.sh");
  options_.smi_interval = absl::Milliseconds(50);
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return now.gpus.size() == 2; }));
  EXPECT_EQ(monitor_->snapshot().source, GpuSource::kNvidiaSmi);
  EXPECT_THAT(monitor_->snapshot().gpus[0].power_watts, Optional(123.45));
  EXPECT_EQ(monitor_->snapshot().gpus[1].power_watts, std::nullopt);
  const absl::Time first = monitor_->snapshot().time;
  EXPECT_TRUE(Until([&](const GpuSnapshot& now) { return now.time > first; }));
}

TEST_F(GpuMonitorTest, WithNeitherTheReasonIsSaid) {
  Set("MILLRACE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1");
  options_.nvidia_smi = RunfilePath("testing/fake_nvml/fake_nvidia_smi.sh");
  Set("FAKE_NVIDIA_SMI", "fail");
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_EQ(monitor_->snapshot().source, GpuSource::kUnknown);
  EXPECT_THAT(monitor_->snapshot().unknown,
              AllOf(HasSubstr("libnvidia-ml.so.1 cannot be loaded"), HasSubstr("exit code 9"),
                    HasSubstr("couldn't communicate")));
  monitor_.reset();

  options_.nvidia_smi = "nvidia-smi-that-nobody-has";
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_THAT(monitor_->snapshot().unknown, HasSubstr("no nvidia-smi-that-nobody-has either"));
}

TEST_F(GpuMonitorTest, NvidiaSmiThatHangsIsEnded) {
  Set("MILLRACE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1");
  options_.nvidia_smi = RunfilePath("testing/fake_nvml/fake_nvidia_smi.sh");
  options_.smi_timeout = absl::Milliseconds(300);
  Set("FAKE_NVIDIA_SMI", "hang");
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_THAT(monitor_->snapshot().unknown, HasSubstr("nvidia-smi did not end within"));
}

TEST_F(GpuMonitorTest, AMissingHelperIsNamed) {
  Set("MILLRACE_GPU_HELPER", "/nonexistent/millrace-gpu");
  Start();
  ASSERT_TRUE(Until([](const GpuSnapshot& now) { return !now.unknown.empty(); }));
  EXPECT_THAT(monitor_->snapshot().unknown,
              HasSubstr("no millrace-gpu: looked at /nonexistent/millrace-gpu"));
}

// ---- AgentGpus ----------------------------------------------------------------------------------

class AgentGpusTest : public GpuMonitorTest {
 protected:
  std::unique_ptr<AgentGpus> Make(const std::string& node) {
    AgentGpus::Options options{.owner = {.cluster_id = "c", .node = node}, .monitor = options_};
    options.driver_patience = absl::Seconds(30);
    options.release_patience = absl::Milliseconds(300);
    return std::make_unique<AgentGpus>(loop_, reaper_, &guard_, std::move(options));
  }

  absl::StatusOr<std::vector<std::string>> Claim(AgentGpus* gpus, GpuRequest request) {
    absl::StatusOr<std::vector<std::string>> result = absl::DeadlineExceededError("no answer");
    bool done = false;
    gpus->Claim(std::move(request), [&](const absl::StatusOr<std::vector<std::string>>& ids) {
      result = ids;
      done = true;
    });
    (void)loop_->RunUntil([&] { return done; }, kPatience);
    return result;
  }

  Guard guard_;
};

TEST_F(AgentGpusTest, ClaimsOnceTheDriverHasAnswered) {
  Script(3);
  const auto one = Make("worker:0");
  EXPECT_THAT(Claim(one.get(), {.count = 2}), IsOkAndHolds(ElementsAre(Uuid(0), Uuid(1))));
  const auto two = Make("worker:1");
  EXPECT_THAT(Claim(two.get(), {.count = 2}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker:1 needs 2 GPUs"), HasSubstr("1 is free"),
                             HasSubstr("is held by worker:0 of cluster c"))));
  EXPECT_THAT(Claim(two.get(), {.ids = {"2"}}), IsOkAndHolds(ElementsAre(Uuid(2))));
  EXPECT_THAT(one->Release({Uuid(2)}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(one->Release({Uuid(0)}), IsOk());
  EXPECT_THAT(one->ids(), ElementsAre(Uuid(1)));
  EXPECT_THAT(Claim(two.get(), {.count = 1}), IsOkAndHolds(ElementsAre(Uuid(0))));
  EXPECT_THAT(two->ids(), ElementsAre(Uuid(2), Uuid(0)));
  one->ReleaseAll();
  EXPECT_THAT(one->ids(), IsEmpty());
  EXPECT_THAT(Claim(two.get(), {.count = 1}), IsOk());
}

TEST_F(AgentGpusTest, WaitsAMomentForANodeThatIsJustEnding) {
  Script(1);
  auto one = Make("worker:0");
  ASSERT_THAT(Claim(one.get(), {.count = 1}), IsOk());
  const auto two = Make("worker:1");
  EventLoop::TimerId timer = loop_->After(absl::Milliseconds(100), [&] { one.reset(); });
  EXPECT_THAT(Claim(two.get(), {.count = 1}), IsOk());
  loop_->Cancel(&timer);
}

TEST_F(AgentGpusTest, AHostWithoutGpusSaysWhy) {
  Set("MILLRACE_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1");
  const auto gpus = Make("worker:0");
  EXPECT_THAT(Claim(gpus.get(), {.count = 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker:0 needs a GPU"), HasSubstr("cannot be loaded"))));
}

TEST_F(AgentGpusTest, TheGuardKeepsAClaimUntilItIsDropped) {
  Script(1);
  auto guard = Guard::Start();
  ASSERT_THAT(guard, IsOk());
  reaper_->Register(guard->pid(), [](const ExitStatus&) {});
  guard_ = *std::move(guard);
  auto one = Make("worker:0");
  ASSERT_THAT(Claim(one.get(), {.count = 1}), IsOk());
  // As if the agent was killed: its descriptors close without a word to the guard.
  Guard silent = std::exchange(guard_, Guard());
  one.reset();
  const auto two = Make("worker:1");
  EXPECT_THAT(Claim(two.get(), {.count = 1}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("is held by worker:0")));
  silent.Drop(Uuid(0));
  EXPECT_THAT(Claim(two.get(), {.count = 1}), IsOk());
  silent.Dismiss();
}

}  // namespace
}  // namespace millrace
