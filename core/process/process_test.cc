#include "core/process/process.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using absl::StatusCode;

TEST(ProcessTest, FollowsAProcessFromItsStartOverZombieToItsEnd) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(hold[1]);
    char unused;
    _exit(read(hold[0], &unused, 1) == 0 ? 0 : 1);
  }
  close(hold[0]);
  const absl::StatusOr<uint64_t> start = ProcessStartTime(child);
  ASSERT_THAT(start, IsOk());
  const absl::StatusOr<uint64_t> own = ProcessStartTime(getpid());
  ASSERT_THAT(own, IsOk());
  EXPECT_GE(*start, *own);
  EXPECT_TRUE(ProcessAlive(child, *start));
  EXPECT_FALSE(ProcessAlive(child, *start + 1)) << "another process that has the pid now";

  close(hold[1]);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(ProcessAlive(child, *start)) << "a zombie does not run";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(ProcessAlive(child, *start));
  EXPECT_THAT(ProcessStartTime(child), StatusIs(StatusCode::kNotFound));
}

TEST(ProcessTest, RefusesPidsThatAreNone) {
  EXPECT_THAT(ProcessStartTime(0), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(ProcessStartTime(-1), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_FALSE(ProcessAlive(0, 1));
  EXPECT_FALSE(ProcessAlive(-1, 1));
}

TEST(ProcessTest, StatIsParsedWhateverTheProgramIsCalled) {
  char state = '?';
  const std::string tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20 21\n";
  EXPECT_THAT(process_internal::ParseStat("12 (sh)" + tail, &state), IsOkAndHolds(424242u));
  EXPECT_EQ(state, 'S');
  EXPECT_THAT(process_internal::ParseStat("12 (a) R 9 (b)" + tail, &state), IsOkAndHolds(424242u));
  EXPECT_EQ(state, 'S');
}

TEST(ProcessTest, TruncatedOrForeignStatIsAnError) {
  const std::string stat = "12 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4";
  char state = '?';
  EXPECT_THAT(process_internal::ParseStat(stat, &state), IsOkAndHolds(4u));
  for (size_t size = 0; size < stat.size(); ++size) {
    EXPECT_THAT(process_internal::ParseStat(stat.substr(0, size), &state),
                StatusIs(StatusCode::kInvalidArgument))
        << size;
  }
  EXPECT_THAT(process_internal::ParseStat(std::string(10000, ')'), &state), testing::Not(IsOk()));
  EXPECT_THAT(process_internal::ParseStat(stat + "x", &state), testing::Not(IsOk()));
}

TEST(ProcessTest, KnowsItsOwnProgram) {
  const absl::StatusOr<std::string> path = SelfExecutablePath();
  ASSERT_THAT(path, IsOk());
  EXPECT_THAT(*path, testing::MatchesRegex("/.*process_test"));
}

TEST(EnvOrTest, FallsBackForUnsetAndEmpty) {
  setenv("MILLRACE_PROCESS_TEST", "x", 1);
  EXPECT_EQ(EnvOr("MILLRACE_PROCESS_TEST", "f"), "x");
  setenv("MILLRACE_PROCESS_TEST", "", 1);
  EXPECT_EQ(EnvOr("MILLRACE_PROCESS_TEST", "f"), "f");
  unsetenv("MILLRACE_PROCESS_TEST");
  EXPECT_EQ(EnvOr("MILLRACE_PROCESS_TEST", "f"), "f");
}

}  // namespace
}  // namespace millrace
