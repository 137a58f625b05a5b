// What goes wrong before a cluster runs, or before a node takes its first row.

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/golden_text.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::HasSubstr;

constexpr char kCouldNotStart[] =
    "worker:0 (executor 0, attempt 0, host HOST) could not start its program: ";

class StartFaultsTest : public FaultTest {
 protected:
  // An agent that goes wrong in slot 1 as `how` says (flaky_agent.cc).
  LocalLauncher FlakyLauncher(const std::string& how) {
    ::setenv("FLAKY_AGENT", absl::StrCat(how, ":1").c_str(), 1);
    ::setenv("FLAKY_AGENT_REAL", RunfilePath("core/agent/millrace-agent").c_str(), 1);
    return LocalLauncher({.agent_path = RunfilePath("testing/faults/flaky_agent")});
  }

  std::string WriteProgram(const std::string& name, const std::string& contents, mode_t mode) {
    const std::string path = JoinPath(leaks_.folder(), name);
    EXPECT_THAT(WriteFileAtomic(path, contents, mode), IsOk());
    leaks_.AllowPath(name);
    return path;
  }
};

TEST_F(StartFaultsTest, AClusterWithoutFaultsTrainsAndLeavesNothing) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  ExpectTrainsAndShutsDown(**cluster);
}

// ---- the node -----------------------------------------------------------------------------------

TEST_F(StartFaultsTest, ANodeThatExitsBeforeHelloFailsTheCallThatNeedsIt) {
  auto cluster = Run(2, "exit_before_hello", "worker:1");
  // It ran for a moment, so either call may be the one that sees it.
  const absl::Status status =
      cluster.ok() ? (*cluster)->Train(RowSource(10, 1)).status() : cluster.status();
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kAborted,
                                "worker:1 (executor 1, attempt 0, host HOST, pid PID) exited with "
                                "code 1. Last stderr line: 'no such flag: --learning_rat'"));
}

TEST_F(StartFaultsTest, AnErrorThatRunNodeReturnsReachesTheDriverWithItsCode) {
  auto cluster = Run(2, "error_at_start", "worker:0");
  const absl::Status status =
      cluster.ok() ? (*cluster)->Train(RowSource(10, 1)).status() : cluster.status();
  EXPECT_THAT(status,
              FailsWith(absl::StatusCode::kInvalidArgument,
                        "worker:0 (executor 0, attempt 0, host HOST, pid PID) failed with "
                        "INVALID_ARGUMENT: no data at /nowhere/rows (it exited with code 1). Last "
                        "stderr line: 'millrace: worker:0: INVALID_ARGUMENT: no data at "
                        "/nowhere/rows'"));
}

TEST_F(StartFaultsTest, AWorkingDirThatIsNotThereIsNamed) {
  ClusterOptions options = Options(1);
  options.node.working_dir = "/nowhere/at/all";
  EXPECT_THAT(
      Run(options, Program()),
      FailsWith(absl::StatusCode::kNotFound,
                absl::StrCat(kCouldNotStart,
                             "cannot enter the working directory "
                             "\"/nowhere/at/all\" on host HOST: No such file or directory")));
}

// ---- the node program ---------------------------------------------------------------------------

TEST_F(StartFaultsTest, AShippedProgramThatIsMissingIsNamed) {
  const auto cluster = Run(Options(2), NodeProgram::File("/nowhere/trainer"));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kNotFound,
                                 "cannot read the program to be shipped from this host, "
                                 "/nowhere/trainer: No such file or directory"));
}

TEST_F(StartFaultsTest, AShippedProgramThatIsADirectoryIsNamed) {
  const auto cluster = Run(Options(2), NodeProgram::File("/usr/bin"));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kInvalidArgument,
                                 "program /usr/bin is a folder; name the executable file to be "
                                 "shipped"));
}

TEST_F(StartFaultsTest, AShippedProgramWithoutItsRunBitRuns) {
  const std::string path = WriteProgram("trainer", "#!/bin/sh\nexit 0\n", 0644);
  ClusterOptions options = Options(1);
  options.input_mode = InputMode::kDirect;
  auto cluster = Run(options, NodeProgram::File(path));
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(StartFaultsTest, AProgramOfTheHostWithoutItsRunBitIsNamed) {
  const std::string path = WriteProgram("trainer", "#!/bin/sh\nexit 0\n", 0644);
  const auto cluster = Run(Options(1), NodeProgram::Path(path));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kPermissionDenied,
                                 absl::StrCat(kCouldNotStart,
                                              "cannot run \"TMP/trainer\" on host "
                                              "HOST: it is not executable; run chmod +x "
                                              "TMP/trainer")));
}

TEST_F(StartFaultsTest, AProgramOfTheHostThatIsMissingIsNamed) {
  const auto cluster = Run(Options(1), NodeProgram::Path("/nowhere/trainer"));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kNotFound,
                                 absl::StrCat(kCouldNotStart,
                                              "cannot run \"/nowhere/trainer\" on "
                                              "host HOST: no such file; ship it with the job or "
                                              "install it on every host")));
}

TEST_F(StartFaultsTest, AProgramThatIsNotInPathIsNamed) {
  const auto cluster = Run(Options(1), NodeProgram::Path("millrace-no-such-program"));
  EXPECT_THAT(cluster,
              FailsWith(absl::StatusCode::kNotFound,
                        "worker:0 (executor 0, attempt 0, host HOST) could not start its program: "
                        "cannot run \"millrace-no-such-program\" on host HOST: PATH has no such "
                        "program; name it with its folder (\"./millrace-no-such-program\" for the "
                        "working directory)"));
}

TEST_F(StartFaultsTest, AProgramOfTheHostThatIsADirectoryIsNamed) {
  const auto cluster = Run(Options(1), NodeProgram::Path("/usr/bin"));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kPermissionDenied,
                                 absl::StrCat(kCouldNotStart,
                                              "cannot run \"/usr/bin\" on host "
                                              "HOST: it is a folder; name the program in it")));
}

TEST_F(StartFaultsTest, AProgramOfAnotherFormatIsNamed) {
  const std::string path = WriteProgram("trainer",
                                        "\x7f"
                                        "ELF but not really",
                                        0755);
  const auto cluster = Run(Options(1), NodeProgram::File(path));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kInvalidArgument,
                                 absl::StrCat(kCouldNotStart,
                                              "cannot run \"TMP/trainer\" on host "
                                              "HOST: no executable format; it is for another "
                                              "machine, or a script without \"#!\" line")));
}

TEST_F(StartFaultsTest, AScriptWhoseInterpreterIsMissingIsNamed) {
  const std::string path = WriteProgram("trainer", "#!/nowhere/python9\n", 0755);
  const auto cluster = Run(Options(1), NodeProgram::File(path));
  EXPECT_THAT(cluster,
              FailsWith(absl::StatusCode::kNotFound,
                        absl::StrCat(kCouldNotStart,
                                     "cannot run \"TMP/trainer\" on host "
                                     "HOST: the file exists, but the interpreter it names "
                                     "(its \"#!\" line, or the dynamic loader of a program "
                                     "for another system) does not")));
}

// ---- the agent ----------------------------------------------------------------------------------

TEST_F(StartFaultsTest, AnAgentThatIsMissingIsNamed) {
  LocalLauncher launcher({.agent_path = "/nowhere/millrace-agent"});
  const auto cluster = Cluster::Run(launcher, Program(), Options(2));
  EXPECT_THAT(
      cluster,
      FailsWith(absl::StatusCode::kNotFound,
                "the agent /nowhere/millrace-agent is not there or not executable; build it "
                "with: bazel build //:millrace-agent"));
}

TEST_F(StartFaultsTest, AnAgentThatEndsAtOnceIsNamedWithItsLastWords) {
  LocalLauncher launcher = FlakyLauncher("exit");
  const auto cluster = Cluster::Run(launcher, Program(), Options(2));
  EXPECT_THAT(cluster, FailsWith(absl::StatusCode::kUnavailable,
                                 "worker:1 (executor 1, attempt 0) did not start: its agent exited "
                                 "with code 7. Last stderr line: 'cannot find libcheese.so.4'"));
}

TEST_F(StartFaultsTest, ASlotThatNeverArrivesIsNamedWithItsStepAndTheLikelyCause) {
  LocalLauncher launcher = FlakyLauncher("hang");
  ClusterOptions options = Options(3);
  options.reservation_timeout = absl::Seconds(15);  // the others arrive in less
  const auto cluster = Cluster::Run(launcher, Program(), options);
  EXPECT_THAT(cluster,
              FailsWith(absl::StatusCode::kDeadlineExceeded,
                        "1 of 3 slots did not arrive in T s: worker:1 (executor 1) started "
                        "T s ago, not connected: can its host reach the coordinator's "
                        "address?"));
}

TEST_F(StartFaultsTest, AfterAFailedStartTheSameLauncherRunsTheNextCluster) {
  EXPECT_THAT(Run(Options(2), NodeProgram::Path("/nowhere/trainer")),
              StatusIs(absl::StatusCode::kNotFound));
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  ExpectTrainsAndShutsDown(**cluster);
}

// ---- log_dir ------------------------------------------------------------------------------------

TEST_F(StartFaultsTest, WithoutALogDirNothingStays) {
  auto cluster = Run(1);
  ASSERT_THAT(cluster, IsOk());
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(StartFaultsTest, ALogDirStaysWithTheOutputOfEachNode) {
  ClusterOptions options = Options(2);
  options.log_dir = JoinPath(leaks_.folder(), "logs");
  leaks_.AllowPath("logs");
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  ExpectTrainsAndShutsDown(**cluster);
  for (const char* name : {"worker-0.0.log", "worker-1.0.log"}) {
    EXPECT_THAT(ReadFile(JoinPath(options.log_dir, name)), IsOkAndHolds(HasSubstr("started\n")));
  }
}

TEST_F(StartFaultsTest, ALogDirThatIsAFileIsNamedAndTheClusterRuns) {
  ClusterOptions options = Options(1);
  options.log_dir = JoinPath(WriteProgram("file", "", 0644), "logs");
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  EXPECT_EQ(
      GoldenText(log_.Line("worker:0", "cannot open")),
      "cannot open TMP/file/logs/worker-0.0.log: Not a directory; the node goes on, its output "
      "is kept only as far as it is relayed");
  ExpectTrainsAndShutsDown(**cluster);
}

}  // namespace
}  // namespace millrace::faults
