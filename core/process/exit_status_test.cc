#include "core/process/exit_status.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace millrace {
namespace {

// Ends a real child by `body` and returns its wait status.
template <typename Body>
int WaitStatusOf(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(99);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
  if (WIFSTOPPED(status)) {
    kill(child, SIGKILL);
    int unused;
    EXPECT_EQ(waitpid(child, &unused, 0), child);
  }
  return status;
}

TEST(ExitStatusTest, DescribesRealChildren) {
  EXPECT_EQ(DescribeExit(WaitStatusOf([] { _exit(3); })), "exit code 3");
  EXPECT_EQ(DescribeExit(WaitStatusOf([] { raise(SIGKILL); })), "signal 9 (SIGKILL)");
  EXPECT_EQ(DescribeExit(WaitStatusOf([] { raise(SIGSTOP); })), "stopped by signal 19 (SIGSTOP)");
}

TEST(ExitStatusTest, TellsWhetherTheChildSucceededAndIsGone) {
  const ExitStatus ok = ExitStatusFromWait(WaitStatusOf([] { _exit(0); }));
  EXPECT_TRUE(ok.ok());
  EXPECT_TRUE(ok.ended());
  const ExitStatus failed = ExitStatusFromWait(WaitStatusOf([] { _exit(1); }));
  EXPECT_FALSE(failed.ok());
  EXPECT_TRUE(failed.ended());
  const ExitStatus killed = ExitStatusFromWait(WaitStatusOf([] { raise(SIGTERM); }));
  EXPECT_EQ(killed, (ExitStatus{.kind = ExitStatus::Kind::kSignaled, .signal = SIGTERM}));
  EXPECT_FALSE(killed.ok());
  const ExitStatus stopped = ExitStatusFromWait(WaitStatusOf([] { raise(SIGSTOP); }));
  EXPECT_FALSE(stopped.ended());
}

TEST(ExitStatusTest, WaitIdGivesTheSameWords) {
  EXPECT_EQ(DescribeExit(ExitStatusFromWaitId(CLD_EXITED, 3)), "exit code 3");
  EXPECT_EQ(DescribeExit(ExitStatusFromWaitId(CLD_KILLED, SIGKILL)), "signal 9 (SIGKILL)");
  EXPECT_EQ(DescribeExit(ExitStatusFromWaitId(CLD_DUMPED, SIGSEGV)),
            "signal 11 (SIGSEGV), core dumped");
  EXPECT_EQ(DescribeExit(ExitStatusFromWaitId(CLD_STOPPED, SIGTSTP)),
            "stopped by signal 20 (SIGTSTP)");
  EXPECT_EQ(DescribeExit(ExitStatusFromWaitId(CLD_CONTINUED, SIGCONT)), "continued");
  EXPECT_EQ(DescribeExit(ExitStatusFromWaitId(12345, 1)), "unknown exit");
}

TEST(ExitStatusTest, RawWordsOfTheKernel) {
  EXPECT_EQ(DescribeExit(0x0b | 0x80), "signal 11 (SIGSEGV), core dumped");
  EXPECT_EQ(DescribeExit(0xffff), "continued");
  EXPECT_EQ(DescribeExit(ExitStatus{}), "unknown exit");
}

TEST(SignalNameTest, NamesRealTimeSignalsAndNumbersToo) {
  EXPECT_EQ(SignalName(SIGINT), "SIGINT");
  EXPECT_EQ(SignalName(SIGRTMIN + 2), "SIGRTMIN+2");
  EXPECT_EQ(SignalName(0), "SIG0");
  EXPECT_EQ(SignalName(12345), "SIG12345");
}

}  // namespace
}  // namespace millrace
