// How a cluster ends when its nodes, its caller or its disk do not help.

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/golden_text.h"
#include "testing/faults/rows.h"
#include "testing/process_table.h"

namespace millrace::faults {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kShuttingDown[] = "the cluster is being shut down";

class ShutdownFaultsTest : public FaultTest {};

// ---- the caller ---------------------------------------------------------------------------------

TEST_F(ShutdownFaultsTest, ASecondShutdownReturnsTheSame) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ShutdownFaultsTest, AfterShutdownCallsAreRefused) {
  auto cluster = Run(1);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
  EXPECT_THAT((*cluster)->Train(RowSource(10, 1)),
              FailsWith(absl::StatusCode::kCancelled, kShuttingDown));
  EXPECT_THAT((*cluster)->Inference(std::make_shared<MemorySource>(RowSource(10, 1))),
              FailsWith(absl::StatusCode::kCancelled, kShuttingDown));
  EXPECT_EQ((*cluster)->Status().slots[0].state, SlotState::kFinished);
}

TEST_F(ShutdownFaultsTest, TheDestructorEndsAClusterThatWasNotShutDown) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(RowSource(100, 4)), IsOk());
}

TEST_F(ShutdownFaultsTest, TheDestructorEndsNodesThatIgnoreEverything) {
  auto cluster = Run(Options(2), Program("ignores_sigterm"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(log_.WaitForLine("worker:0", "started"));
}

TEST_F(ShutdownFaultsTest, ShutdownFromAnotherThreadEndsATrainCall) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  absl::Status trained;
  {
    Thread trainer("trainer", [&] { trained = (*cluster)->Train(EndlessSource(4)).status(); });
    EXPECT_TRUE(log_.WaitForLine("", "fed"));
    EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
  }
  EXPECT_THAT(trained, FailsWith(absl::StatusCode::kCancelled, kShuttingDown));
}

TEST_F(ShutdownFaultsTest, TwoClustersLiveSideBySideInOneProcess) {
  LocalLauncher other_launcher;
  auto first = Run(2);
  ASSERT_THAT(first, IsOk());
  auto second = Cluster::Run(other_launcher, Program(), Options(2));
  ASSERT_THAT(second, IsOk());
  EXPECT_NE((*first)->cluster_id(), (*second)->cluster_id());
  EXPECT_THAT((*first)->Train(RowSource(100, 4)), IsOk());
  ExpectTrainsAndShutsDown(**second);
  ExpectTrainsAndShutsDown(**first);
}

// ---- nodes --------------------------------------------------------------------------------------

TEST_F(ShutdownFaultsTest, ANodeThatDoesNotStopIsTerminatedAfterItsGrace) {
  ClusterOptions options = Options(2);
  options.failure.stop_grace = absl::Milliseconds(300);
  auto cluster = Run(options, Program("ignores_stop", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(log_.WaitForLine("worker:1", "started"));
  EXPECT_THAT(
      (*cluster)->Shutdown({.grace = absl::Milliseconds(1), .timeout = kPatience}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("its grace of 1ms was over")));
}

TEST_F(ShutdownFaultsTest, ANodeThatIgnoresSigtermIsKilled) {
  ClusterOptions options = Options(2);
  options.failure.stop_grace = absl::Milliseconds(300);
  auto cluster = Run(options, Program("ignores_sigterm", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(log_.WaitForLine("worker:1", "started"));
  EXPECT_THAT(
      (*cluster)->Shutdown({.grace = absl::Milliseconds(1), .timeout = kPatience}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("its grace of 1ms was over")));
}

TEST_F(ShutdownFaultsTest, ANodeThatOutlastsTheTimeoutIsNamedAndKilled) {
  ClusterOptions options = Options(2);
  options.failure.stop_grace = absl::Minutes(10);
  auto cluster = Run(options, Program("ignores_sigterm", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(log_.WaitForLine("worker:1", "started"));
  EXPECT_THAT(
      (*cluster)->Shutdown({.timeout = absl::Seconds(10)}),
      FailsWith(
          absl::StatusCode::kDeadlineExceeded,
          "Shutdown killed what was left after its timeout of 10s: 1 node has not ended "
          "within 10 s: worker:1 (executor 1, draining, host HOST, pid PID); asked to stop "
          "before, since 1 node has not ended within 10 s: worker:1 (executor 1, running, host "
          "HOST, pid PID); raise ShutdownOptions::timeout, or lower its grace or "
          "FailureOptions::stop_grace"));
}

TEST_F(ShutdownFaultsTest, AStubbornGrandchildIsGoneAfterShutdown) {
  auto cluster = Run(Options(2), Program("grandchild"));
  ASSERT_THAT(cluster, IsOk());
  const std::string line = log_.Line("worker:1", "grandchild ");
  ASSERT_THAT(line, Not(IsEmpty()));
  ExpectTrainsAndShutsDown(**cluster);
  EXPECT_FALSE(ReadProcess(std::stoi(line.substr(line.rfind(' ') + 1))).has_value());
}

// ---- output -------------------------------------------------------------------------------------

// The most that the process has had in memory, in bytes; 0 if that is unknown.
int64_t PeakMemory(int64_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  int64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "VmHWM:")) kib = std::strtoll(line.c_str() + 6, nullptr, 10);
  }
  return kib << 10;
}

// 0 if there is none.
int64_t SizeOf(const std::string& path) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 ? file.st_size : 0;
}

// Lines come as fast as the node can write them, and its agent lives through it: it keeps up its
// heartbeats, writes the file and holds no more than a bounded part of it.
TEST_F(ShutdownFaultsTest, AFloodOnStderrStopsNobody) {
  ClusterOptions options = Options(2);
  options.log_dir = JoinPath(leaks_.folder(), "logs");
  leaks_.AllowPath("logs");
  constexpr int64_t kBytes = 100 << 20;
  auto cluster =
      Run(options, Program("flood", "worker:1", {absl::StrCat("--flood_bytes=", kBytes)}));
  ASSERT_THAT(cluster, IsOk());
  // Of lines that are relayed any may be left out.
  const std::string log = JoinPath(options.log_dir, "worker-1.0.log");
  ASSERT_TRUE(Eventually([&] { return SizeOf(log) >= kBytes; }, 2 * kPatience));
  const int64_t memory = PeakMemory(AgentPid(**cluster, 1));
  ExpectTrainsAndShutsDown(**cluster);
  EXPECT_GT(memory, 0);
  EXPECT_LT(memory, kBytes);
}

TEST_F(ShutdownFaultsTest, AFloodWithoutLineEndsStopsNobody) {
  auto cluster = Run(Options(1), Program("flood_without_lines", "", {"--flood_bytes=20000000"}));
  ASSERT_THAT(cluster, IsOk());
  ExpectTrainsAndShutsDown(**cluster);
}

// ---- the disk of log_dir ------------------------------------------------------------------------

// A file system of a few KiB; empty if this machine lets nobody mount one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    if (::mkdir(path_.c_str(), 0755) != 0) return;
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=16k") == 0;
    error_ = errno;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    ::rmdir(path_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string error() const { return std::strerror(error_); }

 private:
  const std::string path_;
  bool mounted_ = false;
  int error_ = 0;
};

TEST_F(ShutdownFaultsTest, AFullDiskForLogsStopsNobodyAndIsTold) {
  ClusterOptions options = Options(1);
  options.log_dir = JoinPath(leaks_.folder(), "logs");
  const SmallDisk disk(options.log_dir);
  leaks_.AllowPath("logs");
  if (!disk.mounted()) GTEST_SKIP() << "no tmpfs can be mounted here: " << disk.error();
  auto cluster = Run(options, Program("flood", "", {"--flood_bytes=1000000"}));
  ASSERT_THAT(cluster, IsOk());
  EXPECT_EQ(
      GoldenText(log_.Line("worker:0", "cannot write")),
      "cannot write to TMP/logs/worker-0.0.log: No space left on device; the node goes on, its "
      "output is kept only as far as it is relayed");
  ExpectTrainsAndShutsDown(**cluster);
}

}  // namespace
}  // namespace millrace::faults
