#include "core/base/log.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

// Runs `body` with this level and returns what went to stderr.
template <typename Body>
std::string Capture(LogLevel level, Body body) {
  const LogLevel before = GetLogLevel();
  SetLogLevel(level);
  testing::internal::CaptureStderr();
  body();
  std::string captured = testing::internal::GetCapturedStderr();
  SetLogLevel(before);
  return captured;
}

TEST(LogTest, ALineHasTimeLevelThreadPlaceAndMessage) {
  const std::string line = Capture(LogLevel::kInfo, [] {
    Thread thread("my-thread", [] { MILLRACE_LOG(INFO) << "slot " << 3; });
  });
  EXPECT_THAT(line, MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"
                                 " I my-thread core/base/log_test.cc:[0-9]+\\] slot 3\n"));
}

TEST(LogTest, LevelsSelectLinesAndDisabledOperandsAreNotEvaluated) {
  int evaluated = 0;
  const std::string text = Capture(LogLevel::kWarning, [&] {
    MILLRACE_LOG(ERROR) << "e" << ++evaluated;
    MILLRACE_LOG(WARNING) << "w" << ++evaluated;
    MILLRACE_LOG(INFO) << "i" << ++evaluated;
    MILLRACE_LOG(DEBUG) << "d" << ++evaluated;
  });
  EXPECT_EQ(evaluated, 2);
  EXPECT_THAT(text, AllOf(HasSubstr("] e1\n"), HasSubstr("] w2\n"), HasSubstr(" E "),
                          HasSubstr(" W "), Not(HasSubstr(" I ")), Not(HasSubstr(" D "))));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug) && !LogEnabled(LogLevel::kError));
}

TEST(LogTest, APlaceThatLogsAgainAndAgainIsHeldBack) {
  const std::string text = Capture(LogLevel::kInfo, [] {
    for (int i = 0; i < 100'000; ++i) MILLRACE_LOG(WARNING) << "refused somebody";
    MILLRACE_LOG(WARNING) << "something else";
  });
  // A slow machine may begin another window, or a few.
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 1000);
  EXPECT_THAT(text, AllOf(HasSubstr("] (more lines like this are left out for 10 s)\n"),
                          HasSubstr("] something else\n")));
}

TEST(LogTest, APeersTextCannotForgeALineOrDriveATerminal) {
  const std::string text =
      Capture(LogLevel::kError,
              [] {
                MILLRACE_LOG(ERROR)
                    << "peer said: x\n2024-01-01T00:00:00.000Z E main a.cc:1] forged\r\x1b[2J{}%v"
                    << std::string("\0", 1);
              });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text,
              EndsWith("x\\n2024-01-01T00:00:00.000Z E main a.cc:1] forged\\r\\x1b[2J{}%v\\x00\n"));
}

TEST(LogTest, LongMessagesAreCut) {
  const std::string text =
      Capture(LogLevel::kError, [] { MILLRACE_LOG(ERROR) << std::string(1 << 20, 'x'); });
  EXPECT_LT(text.size(), 17u << 10);
  EXPECT_THAT(text, EndsWith("x... (1048576 bytes)\n"));
}

TEST(LogTest, WorksUnderIfWithoutBraces) {
  const std::string text = Capture(LogLevel::kError, [] {
    if (GetLogLevel() == LogLevel::kError)
      MILLRACE_LOG(ERROR) << "then";
    else
      MILLRACE_LOG(ERROR) << "else";
  });
  EXPECT_THAT(text, HasSubstr("then"));
}

TEST(LogTest, LevelNamesAreParsed) {
  EXPECT_EQ(ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("Warning"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("INFO"), LogLevel::kInfo);
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel(""), std::nullopt);
  EXPECT_EQ(ParseLogLevel("verbose"), std::nullopt);
  EXPECT_EQ(ParseLogLevel("info "), std::nullopt);
}

// The environment is read once per process, so each case is a process of its own.
[[noreturn]] void ExitWithLevelOf(const char* value) {
  if (value == nullptr) {
    unsetenv("MILLRACE_LOG");
  } else {
    setenv("MILLRACE_LOG", value, 1);
  }
  std::exit(static_cast<int>(GetLogLevel()));
}

TEST(LogDeathTest, TheLevelComesFromTheEnvironment) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process each
  EXPECT_EXIT(ExitWithLevelOf(nullptr), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(ExitWithLevelOf("debug"), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(ExitWithLevelOf("error"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ExitWithLevelOf("loud"), testing::ExitedWithCode(1), "MILLRACE_LOG must be .*'loud'");
}

TEST(CheckDeathTest, AFailedCheckPrintsAndAborts) {
  EXPECT_EXIT(MILLRACE_CHECK(1 + 1 == 3) << "sum of " << 2, testing::KilledBySignal(SIGABRT),
              "E .*log_test.cc:[0-9]+\\] check failed: 1 \\+ 1 == 3 sum of 2");
}

TEST(CheckTest, APassedCheckDoesNotEvaluateItsMessage) {
  int evaluated = 0;
  MILLRACE_CHECK(true) << ++evaluated;
  MILLRACE_DCHECK(true) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace millrace
