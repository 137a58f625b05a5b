// Runs the real millrace-gpu on fake NVML.

#include "resolver/local_accelerators.h"

#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
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
using ::testing::Pair;

constexpr char kThreeGpus[] =
    "gpu 0 uuid=GPU-aaaa name=Fake total=1000\n"
    "gpu 1 uuid=GPU-bbbb name=Fake total=1000\n"
    "gpu 2 uuid=GPU-cccc name=Fake total=1000\n";

class LocalAcceleratorsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = TempDir::Create("local-accelerators-test");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    setenv("FAKE_NVML_SCRIPT", Path("gpus").c_str(), 1);
    setenv("MILLRACE_NVML_LIBRARY", RunfilePath("testing/fake_nvml/libfake_nvml.so").c_str(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("MILLRACE_GPU_HELPER");
    Write("gpus", kThreeGpus);
    options_.helper = RunfilePath("core/gpu/millrace-gpu");
    options_.nvidia_smi = Path("nvidia-smi");
    options_.timeout = absl::Seconds(60);
  }

  std::string Path(const std::string& name) const { return folder_->path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_THAT(WriteFileAtomic(Path(name), text), IsOk());
  }
  std::string Script(const std::string& name, const std::string& text) {
    Write(name, absl::StrCat("#!/bin/sh\n", text));
    EXPECT_EQ(chmod(Path(name).c_str(), 0700), 0);
    return Path(name);
  }

  std::optional<TempDir> folder_;
  LocalAcceleratorsOptions options_;
};

TEST_F(LocalAcceleratorsTest, CountsTheGpusOfTheHost) {
  EXPECT_THAT(LocalAccelerators(options_), IsOkAndHolds(ElementsAre(Pair("GPU", 3))));
}

TEST_F(LocalAcceleratorsTest, NoGpuIsNoEntry) {
  Write("gpus", "driver 550.54.15\n");
  EXPECT_THAT(LocalAccelerators(options_), IsOkAndHolds(IsEmpty()));
}

TEST_F(LocalAcceleratorsTest, CountsOnlyWhatCudaWouldShow) {
  const auto count = [&](const char* visible) {
    setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    const auto found = LocalAccelerators(options_);
    EXPECT_THAT(found, IsOk()) << visible;
    return found.ok() && found->contains("GPU") ? found->at("GPU") : 0;
  };
  EXPECT_EQ(count(""), 0);
  EXPECT_EQ(count("-1"), 0);
  EXPECT_EQ(count("NoDevFiles"), 0);
  EXPECT_EQ(count("1"), 1);
  EXPECT_EQ(count("2, 0"), 2);
  EXPECT_EQ(count("1,1"), 1);
  EXPECT_EQ(count("GPU-cccc,GPU-a"), 2);
  EXPECT_EQ(count("0,7,1"), 1);  // what follows a device that is not there does not count
  EXPECT_EQ(count("GPU-"), 0);   // all of them begin so
}

TEST_F(LocalAcceleratorsTest, AGpuInMigModeIsItsInstances) {
  Write("gpus",
        "gpu 0 uuid=GPU-aaaa total=1000 mig_mode=1\n"
        "mig 0 uuid=MIG-1111 gi=1 ci=0 used=1 total=500\n"
        "mig 0 uuid=MIG-2222 gi=2 ci=0 used=1 total=500\n"
        "gpu 1 uuid=GPU-bbbb total=1000\n");
  EXPECT_THAT(LocalAccelerators(options_), IsOkAndHolds(ElementsAre(Pair("GPU", 3))));
  setenv("CUDA_VISIBLE_DEVICES", "MIG-2222", 1);
  EXPECT_THAT(LocalAccelerators(options_), IsOkAndHolds(ElementsAre(Pair("GPU", 1))));
}

TEST_F(LocalAcceleratorsTest, WithoutADriverThereIsNoGpu) {
  setenv("MILLRACE_NVML_LIBRARY", Path("none.so").c_str(), 1);
  EXPECT_THAT(LocalAccelerators(options_), IsOkAndHolds(IsEmpty()));
}

TEST_F(LocalAcceleratorsTest, WhereNvmlCannotBeUsedNvidiaSmiIsAsked) {
  setenv("MILLRACE_NVML_LIBRARY", Path("none.so").c_str(), 1);
  Script("nvidia-smi", "echo '0, GPU-aaaa'\necho '1, GPU-bbbb'\n");
  EXPECT_THAT(LocalAccelerators(options_), IsOkAndHolds(ElementsAre(Pair("GPU", 2))));
  Script("nvidia-smi", "echo 'NVIDIA-SMI has failed: no communication'\nexit 9\n");
  EXPECT_THAT(LocalAccelerators(options_),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("none.so cannot be loaded"), HasSubstr("exit code 9"),
                             HasSubstr("NVIDIA-SMI has failed"))));
}

TEST_F(LocalAcceleratorsTest, AMissingHelperIsSaid) {
  options_.helper = Path("millrace-gpu");
  EXPECT_THAT(LocalAccelerators(options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(options_.helper)));
  setenv("MILLRACE_GPU_HELPER", Path("other").c_str(), 1);
  EXPECT_THAT(LocalAccelerators({}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("other"))));
}

TEST_F(LocalAcceleratorsTest, ADriverThatHangsIsNotWaitedFor) {
  Write("gpus", absl::StrCat(kThreeGpus, "hang 1 nvmlDeviceGetMemoryInfo_v2\n"));
  options_.timeout = absl::Seconds(2);
  const absl::Time began = absl::Now();
  EXPECT_THAT(LocalAccelerators(options_),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("within 2s")));
  EXPECT_LT(absl::Now() - began, absl::Seconds(60));
}

TEST_F(LocalAcceleratorsTest, AHelperThatSaysNothingIsKilledOrReported) {
  options_.helper = Script("helper", "exec sleep 600\n");
  options_.timeout = absl::Milliseconds(300);
  EXPECT_THAT(LocalAccelerators(options_), StatusIs(absl::StatusCode::kDeadlineExceeded));
  options_.timeout = absl::Seconds(60);
  options_.helper = Script("helper", "echo '{\"type\": [}'; echo; exit 5\n");
  EXPECT_THAT(LocalAccelerators(options_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("exit code 5")));
  options_.helper = Script("helper", "exec yes\n");  // more than anybody reads
  EXPECT_THAT(LocalAccelerators(options_), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace millrace
