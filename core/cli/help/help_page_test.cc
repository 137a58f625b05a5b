#include "core/cli/help/help_page.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;

constexpr char kHelp[] = R"(usage: millrace walk [OPTIONS]

Walks.

  millrace walk --far '{"a": 1}' --slowly
      --far --slowly

  north WHERE   towards the pole, and
                not beyond
  south         away from it

What
  -n, --steps N                 how many (1),
                                at most 9
      --output prefixed|raw     what is shown
      --map FILE, --scale S,
      --colours
                                of the map
      --far                     further
)";

auto Is(const std::string& name, const std::string& short_name, const std::string& argument,
        const std::string& description) {
  return AllOf(Field(&HelpOption::name, name), Field(&HelpOption::short_name, short_name),
               Field(&HelpOption::argument, argument),
               Field(&HelpOption::description, description));
}

TEST(HelpPageTest, HasEachOptionOnceWithItsArgumentAndItsDescription) {
  EXPECT_THAT(
      OptionsOfHelp(kHelp),
      ElementsAre(Is("--far", "", "", "further"), Is("--slowly", "", "", ""),
                  Is("--steps", "-n", "N", "how many (1), at most 9"),
                  Is("--output", "", "prefixed|raw", "what is shown"),
                  Is("--map", "", "FILE", "of the map"), Is("--scale", "", "S", "of the map"),
                  Is("--colours", "", "", "of the map")));
}

TEST(HelpPageTest, SaysWhatAWordIs) {
  EXPECT_EQ(SummaryInHelp(kHelp, "north"), "towards the pole, and not beyond");
  EXPECT_EQ(SummaryInHelp(kHelp, "south"), "away from it");
  EXPECT_EQ(SummaryInHelp(kHelp, "east"), "");
  EXPECT_EQ(SummaryInHelp(kHelp, "nor"), "");
}

}  // namespace
}  // namespace millrace::cli
