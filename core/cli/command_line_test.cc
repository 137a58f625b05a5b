#include "core/cli/command_line.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/status_matchers.h"
#include "core/cli/help/help_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(CommandLineTest, RunTakesItsOptionsAndLeavesTheRestToTheProgram) {
  const auto line =
      ParseCommandLine({"run", "-n", "4", "--num-ps=1", "--master-node", "chief", "--env", "A=1",
                        "--env", "B=x=y", "--timeout", "90", "--", "./train", "--num-ps", "7"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->command, "run");
  EXPECT_EQ(line->run.cluster.num_executors, 4);
  EXPECT_EQ(line->run.cluster.num_ps, 1);
  EXPECT_EQ(line->run.cluster.master_node, "chief");
  EXPECT_THAT(line->run.env, ElementsAre(Pair("A", "1"), Pair("B", "x=y")));
  EXPECT_EQ(line->run.timeout, absl::Seconds(90));
  EXPECT_THAT(line->run.program, ElementsAre("./train", "--num-ps", "7"));
}

TEST(CommandLineTest, DashesAreNotNeededBeforeAProgram) {
  const auto line = ParseCommandLine({"run", "-n", "2", "python3", "-c", "pass", "--", "-n", "9"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->run.cluster.num_executors, 2);
  EXPECT_THAT(line->run.program, ElementsAre("python3", "-c", "pass", "--", "-n", "9"));
}

TEST(CommandLineTest, AMistypedOptionIsNoProgram) {
  EXPECT_THAT(ParseCommandLine({"run", "--num-executor", "3", "true"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--num-executor")));
}

TEST(CommandLineTest, WhatWasMeant) {
  for (const auto& [args, meant] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"rnu", "-n", "2"}, "there is no command rnu; did you mean run? ("},
           {{"kv", "lits"}, "did you mean list?"},
           {{"run", "--num-executor", "3", "true"}, "did you mean --num-executors?"},
           {{"run", "--tiemout=3", "true"}, "did you mean --timeout?"},
           {{"status", "--wacth"}, "did you mean --watch?"},
           {{"run", "--nproc-per-node", "3", "true"}, "torchrun's option: write -n NODES"},
           {{"run", "--nproc_per_node=3", "true"}, "torchrun's option: write -n NODES"},
           {{"run", "-np", "3", "true"}, "-np is mpirun's option: write -n NODES"}}) {
    EXPECT_THAT(ParseCommandLine(args),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(meant)));
  }
  EXPECT_THAT(ParseCommandLine({"run", "./train", "--np", "3"}), IsOk()) << "the program's own";
}

TEST(CommandLineTest, ReadersTakeAClusterInThreeWays) {
  const auto line = ParseCommandLine({"logs", "-f", "-n", "5", "--cluster", "3f", "worker:1", "0"});
  ASSERT_THAT(line, IsOk());
  EXPECT_TRUE(line->view.follow);
  EXPECT_EQ(line->view.lines, 5);
  EXPECT_EQ(line->view.choice.cluster, "3f");
  EXPECT_THAT(line->view.nodes, ElementsAre("worker:1", "0"));
  const auto stop = ParseCommandLine(
      {"stop", "--now", "--connect", "h:1", "--ca", "c", "--identity", "i", "--token-file", "t"});
  ASSERT_THAT(stop, IsOk());
  EXPECT_TRUE(stop->control.now);
  EXPECT_EQ(stop->control.choice.connect, "h:1");
  EXPECT_EQ(stop->control.choice.identity_file, "i");
  EXPECT_EQ(stop->control.choice.token_file, "t");
}

TEST(CommandLineTest, NestedCommandsHaveNames) {
  const auto line = ParseCommandLine({"kv", "set", "stage", "two"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->command, "kv set");
  EXPECT_EQ(line->control.key, "stage");
  EXPECT_EQ(line->control.value, "two");
  EXPECT_THAT(ParseCommandLine({"kv"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kv")));
}

TEST(CommandLineTest, AnUnknownCommandIsNamed) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"walk"}, {"help", "walk"}}) {
    EXPECT_THAT(ParseCommandLine(args),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "there is no command walk (millrace --help lists them)"));
  }
  EXPECT_THAT(ParseCommandLine({"kv", "walk"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "there is no command kv walk (millrace kv --help lists them)"));
}

TEST(CommandLineTest, HelpIsOfTheCommandThatWasNamed) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"run", "--help"}, {"help", "run"}, {"run", "-n", "2", "-h"}}) {
    const auto line = ParseCommandLine(args);
    ASSERT_THAT(line, IsOk());
    EXPECT_EQ(line->command, "help");
    EXPECT_EQ(line->topic, "run");
  }
}

// The help is written by hand: it must not fall behind.
class HelpTest : public ::testing::TestWithParam<std::string> {};

TEST_P(HelpTest, NamesEveryOptionThatIsParsedAndNoOther) {
  const absl::string_view text = HelpText(GetParam());
  std::vector<std::string> options;
  if (!GetParam().empty() && GetParam() != "help" && GetParam() != "kv") {
    options = OptionNames(GetParam());
  }
  for (const std::string& option : options) {
    if (option != "--help") {
      EXPECT_THAT(std::string(text), HasSubstr(option));
    }
  }
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_THAT(line, SizeIs(Le(100u))) << line;
    // "  -n, --lines N" and "      --json": a line that introduces an option.
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const size_t at =
        words.size() > 1 && words[0].size() == 3 && absl::EndsWith(words[0], ",") ? 1 : 0;
    if (words.size() <= at || !absl::StartsWith(words[at], "--") || options.empty()) continue;
    // One page serves all of kv.
    if (absl::StartsWith(GetParam(), "kv")) continue;
    EXPECT_THAT(options, ::testing::Contains(std::string(words[at]))) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Topics, HelpTest, ::testing::ValuesIn(HelpTopics()));

}  // namespace
}  // namespace millrace::cli
