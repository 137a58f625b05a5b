#include "core/cli/slurm/srun_line.h"

#include <signal.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using Kind = SrunLine::Kind;

TEST(SrunLineTest, KnowsLinesOfTasksByTheirLabel) {
  for (const char* text : {"1: {\"a\": 1}", " 1: {\"a\": 1}"}) {
    const SrunLine line = ParseSrunLine(text, 12);
    EXPECT_EQ(line.kind, Kind::kTask) << text;
    EXPECT_EQ(line.task, 1);
    EXPECT_EQ(line.text, "{\"a\": 1}");
  }
  EXPECT_EQ(ParseSrunLine("3: ", 4).text, "");
  EXPECT_EQ(ParseSrunLine("0: slurmstepd: error: execve(): /x: No such file", 1).kind, Kind::kTask);
  for (const char* text : {"4: x", "-1: x", "1 x", "1:x", "", " ", ": x", "99999999999: x"}) {
    EXPECT_EQ(ParseSrunLine(text, 4).kind, Kind::kNote) << text;
  }
}

TEST(SrunLineTest, KnowsWhichTasksHaveEndedAndHow) {
  SrunLine line = ParseSrunLine("srun: error: n2: task 3: Exited with exit code 3", 4);
  EXPECT_EQ(line.kind, Kind::kTasksEnded);
  EXPECT_THAT(line.tasks, ElementsAre(3));
  EXPECT_EQ(line.hosts, "n2");
  EXPECT_EQ(line.exit, (ExitStatus{.kind = ExitStatus::Kind::kExited, .code = 3}));

  line = ParseSrunLine("srun: error: n[1-2,7]: tasks 0,2-4: Killed", 5);
  EXPECT_THAT(line.tasks, ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(line.exit, (ExitStatus{.kind = ExitStatus::Kind::kSignaled, .signal = SIGKILL}));

  line = ParseSrunLine("srun: error: n1: task 0: Segmentation fault (core dumped)", 5);
  EXPECT_EQ(
      line.exit,
      (ExitStatus{.kind = ExitStatus::Kind::kSignaled, .signal = SIGSEGV, .core_dumped = true}));

  line = ParseSrunLine("srun: error: n1: task 0: Out Of Memory", 5);
  EXPECT_EQ(line.kind, Kind::kTasksEnded);
  EXPECT_EQ(line.exit, ExitStatus());
  EXPECT_EQ(line.text, "Out Of Memory");

  for (const char* text : {"srun: error: n1: task 5: Killed", "srun: error: n1: tasks 0-5: Killed",
                           "srun: error: n1: tasks 0-99999999999: Killed",
                           "srun: error: n1: task x: Killed", "srun: error: n1: task -1: Killed",
                           "srun: error: n1: tasks : Killed", "srun: error: n1: node 1: Killed"}) {
    EXPECT_EQ(ParseSrunLine(text, 5).kind, Kind::kError) << text;
  }
}

TEST(SrunLineTest, KnowsThatSlurmEndsTheStep) {
  for (const char* text :
       {"0: slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-28T13:01:14 ***",
        "0: slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-28T13:01:14 ***",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-28T13:01:14 ***"}) {
    const SrunLine line = ParseSrunLine(text, 2);
    EXPECT_EQ(line.kind, Kind::kStepEnded) << text;
    EXPECT_EQ(line.text, "STEP 7.0 ON n1 CANCELLED AT 2026-11-28T13:01:14");
  }
  const SrunLine line = ParseSrunLine("srun: error: Node failure on n2", 2);
  EXPECT_EQ(line.kind, Kind::kStepEnded);
  EXPECT_EQ(line.text, "Node failure on n2");
  // What an agent says of something else.
  EXPECT_EQ(ParseSrunLine("0: millrace-agent: *** STEP 7.0 ***", 2).kind, Kind::kTask);
  EXPECT_EQ(ParseSrunLine("0: slurmstepd: error: *** hello ***", 2).kind, Kind::kTask);
}

TEST(SrunLineTest, TellsErrorsOfSrunFromItsNotes) {
  const char* const text =
      "Unable to create step for job 1: More processors requested than permitted";
  SrunLine line = ParseSrunLine(std::string("srun: error: ") + text, 2);
  EXPECT_EQ(line.kind, Kind::kError);
  EXPECT_EQ(line.text, text);
  line = ParseSrunLine("srun: Job step creation temporarily disabled, retrying", 2);
  EXPECT_EQ(line.kind, Kind::kNote);
  EXPECT_EQ(line.text, "Job step creation temporarily disabled, retrying");
}

}  // namespace
}  // namespace millrace::cli
