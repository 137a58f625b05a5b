#include "testing/child_process.h"

#include <signal.h>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(30);

absl::StatusOr<std::unique_ptr<ChildProcess>> Shell(const std::string& script) {
  return ChildProcess::Start({"/bin/sh", "-c", script});
}

TEST(ChildProcessTest, LinesAndTheExitCodeAreSeen) {
  auto child = Shell("echo first; echo second one; exit 3");
  ASSERT_THAT(child, IsOk());
  EXPECT_THAT((*child)->WaitForLine("second", kDeadline), IsOkAndHolds("second one"));
  EXPECT_THAT((*child)->WaitForLine("third", kDeadline),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("first")));
  EXPECT_THAT((*child)->Wait(kDeadline),
              IsOkAndHolds(ExitStatus{.kind = ExitStatus::Kind::kExited, .code = 3}));
}

TEST(ChildProcessTest, WaitsEndAtTheirDeadlines) {
  auto child = Shell("echo first; exec sleep 1000");
  ASSERT_THAT(child, IsOk());
  EXPECT_THAT((*child)->WaitForLine("second", absl::Milliseconds(200)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("'second'")));
  EXPECT_THAT((*child)->Wait(absl::ZeroDuration()), StatusIs(absl::StatusCode::kDeadlineExceeded));
  (*child)->Kill(SIGKILL);
  EXPECT_THAT((*child)->Wait(kDeadline),
              IsOkAndHolds(ExitStatus{.kind = ExitStatus::Kind::kSignaled, .signal = SIGKILL}));
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsAnError) {
  EXPECT_THAT(ChildProcess::Start({"/nowhere/program"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/program")));
}

}  // namespace
}  // namespace millrace
