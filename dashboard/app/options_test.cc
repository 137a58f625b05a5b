#include "dashboard/app/options.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "dashboard/source/demo_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

TEST(OptionsTest, SayWhatToShowAndWhatToWrite) {
  const auto options = ParseOptions({"--demo", "8", "--scenario", "slow-source", "--panel", "gpus",
                                     "--zoom", "--size", "800x600", "--after", "1.5s", "--theme",
                                     "light", "--scale", "1.5", "--screenshot", "out.png"});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->demo, 8);
  EXPECT_EQ(options->scenario, "slow-source");
  EXPECT_EQ(options->panel, Panel::kGpus);
  EXPECT_TRUE(options->zoom);
  EXPECT_EQ(options->width, 800);
  EXPECT_EQ(options->height, 600);
  EXPECT_EQ(options->after, absl::Milliseconds(1500));
  EXPECT_EQ(options->theme, ThemeKind::kLight);
  EXPECT_EQ(options->scale, 1.5f);
  EXPECT_EQ(options->screenshot, "out.png");
}

TEST(OptionsTest, ClustersMayBeSeveral) {
  const auto options = ParseOptions({"--cluster", "a", "--cluster=b"});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->clusters, ElementsAre("a", "b"));
}

TEST(OptionsTest, RecordingsMayBeSeveral) {
  const auto options = ParseOptions({"--replay", "a.mrec", "--replay=b.mrec"});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->recordings, ElementsAre("a.mrec", "b.mrec"));
}

TEST(OptionsTest, ARecordingIsComparedWithAnything) {
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{}, {"--replay", "a.mrec"}, {"--cluster", "a"}, {"--demo", "3"}}) {
    std::vector<std::string> args = {"--compare", "before.mrec"};
    args.insert(args.end(), other.begin(), other.end());
    const auto options = ParseOptions(args);
    ASSERT_THAT(options, IsOk());
    EXPECT_EQ(options->compare, "before.mrec");
  }
}

TEST(OptionsTest, WithoutAnyTheNewestClusterIsFollowed) {
  const auto options = ParseOptions({});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->demo, -1);
  EXPECT_FALSE(options->panel.has_value());
}

struct Mistake {
  std::vector<std::string> args;
  std::string what_to_do;
};

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsAnsweredInOneLineThatSaysWhatToDo) {
  const auto options = ParseOptions(GetParam().args);
  ASSERT_THAT(options,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().what_to_do)));
  EXPECT_THAT(std::string(options.status().message()), Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    EachOption, MistakeTest,
    ::testing::Values(
        Mistake{{"--nonsense"}, "--nonsense: there is no such option (millrace-dashboard --help"},
        Mistake{{"3f2a"}, "write --cluster 3f2a"}, Mistake{{"--panel"}, "--panel: give it a value"},
        Mistake{{"--panel", "gpus", "--panel", "feed"}, "--panel: give it only once"},
        Mistake{{"--panel", "gpu"},
                "--panel gpu: choose one of verdict, reservations, nodes, gpus"},
        Mistake{{"--zoom"}, "--zoom needs --panel P: name the panel"},
        Mistake{{"--demo", "many"}, "--demo many: give the number of nodes, 0 to 100000"},
        Mistake{{"--demo", "-1"}, "--demo -1: give the number of nodes"},
        Mistake{{"--demo", "100001"}, "--demo 100001: give the number of nodes"},
        Mistake{{"--scenario", "idle"}, "--scenario needs --demo N: add it"},
        Mistake{{"--demo", "3", "--scenario", "boring"},
                "--scenario boring: choose one of starting"},
        Mistake{{"--demo", "3", "--replay", "f"},
                "give only one of --cluster, --connect, --replay and --demo"},
        Mistake{{"--demo", "3", "--dump-json", "--report", "r.html"},
                "give only one of --screenshot, --dump-json and --report"},
        Mistake{{"--compare"}, "--compare: give it a value"},
        Mistake{{"--compare", "a", "--compare", "b"}, "--compare: give it only once"},
        Mistake{{"--replay", "a", "--compare", "b", "--report", "r.html"},
                "--report is of one cluster: leave --compare out"},
        Mistake{{"--replay", "a", "--compare", "b", "--dump-json"},
                "--dump-json is of one cluster: leave --compare out"},
        Mistake{{"--size", "10x10"}, "--size 10x10: give WIDTHxHEIGHT in pixels, such as 1600x900"},
        Mistake{{"--size", "big"}, "--size big: give WIDTHxHEIGHT"},
        Mistake{{"--after", "soon"}, "--after soon: give a time such as 1.5s"},
        Mistake{{"--after", "2h"}, "up to 1h"},
        Mistake{{"--theme", "pink"}, "--theme pink: choose dark, light or colour-blind"},
        Mistake{{"--scale", "9"}, "--scale 9: give a number from 0.5 to 4"},
        Mistake{{"--scale", "nan"}, "--scale nan: give a number from 0.5 to 4"},
        Mistake{
            {"--connect", "h:1", "--ca", "ca.pem"},
            "--connect also needs --token-file, --identity; on the driver's host use --cluster"},
        Mistake{{"--token-file", "t"}, "--token-file needs --connect HOST:PORT"},
        Mistake{{"--operator-token-file", "t"},
                "--operator-token-file needs --connect HOST:PORT"}));

TEST(OptionsTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(ParseOptions({"--connect", "h:1", "--token-file", "/nowhere/token", "--ca", "/c",
                            "--identity", "/i"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/token")));
}

// The options that the help introduces: the first word of a line below a heading.
std::set<std::string> Introduced(const std::string& help) {
  std::set<std::string> found;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
    absl::ConsumePrefix(&text, "-h, ");
    if (text.size() < line.size() && absl::StartsWith(text, "--")) {
      found.insert(std::string(text.substr(0, text.find(' '))));
    }
  }
  return found;
}

// It is written by hand and must not fall behind.
TEST(HelpTest, IntroducesOptionsThatExist) {
  const std::set<std::string> options = Introduced(HelpText());
  EXPECT_THAT(options, SizeIs(23));
  for (const std::string& option : options) {
    const auto parsed = ParseOptions({option, "x"});
    if (parsed.ok()) continue;
    EXPECT_THAT(std::string(parsed.status().message()), Not(HasSubstr("there is no such option")))
        << option;
  }
}

TEST(HelpTest, NamesEveryPanelAndScenario) {
  const std::string help = HelpText();
  for (const Panel panel : kPanels) EXPECT_THAT(help, HasSubstr(std::string(PanelName(panel))));
  for (const std::string& scenario : DemoScenarios()) EXPECT_THAT(help, HasSubstr(scenario));
}

TEST(HelpTest, FitsATerminal) {
  for (absl::string_view line : absl::StrSplit(HelpText(), '\n')) {
    EXPECT_THAT(line, SizeIs(Le(100u)));
  }
}

}  // namespace
}  // namespace millrace::dashboard
