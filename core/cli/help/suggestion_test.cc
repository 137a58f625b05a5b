#include "core/cli/help/suggestion.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TEST(SuggestionTest, TheNearestOrNone) {
  const std::vector<std::string> known = {"run",      "restart",   "resolve",
                                          "--num-ps", "--timeout", "kv"};
  const auto suggest = [&known](const std::string& word) { return Suggestion(word, known); };
  EXPECT_EQ(suggest("rnu"), "; did you mean run?");
  EXPECT_EQ(suggest("restrat"), "; did you mean restart?");
  EXPECT_EQ(suggest("resovle"), "; did you mean resolve?");
  EXPECT_EQ(suggest("--nump-ps"), "; did you mean --num-ps?");
  EXPECT_EQ(suggest("--timeou"), "; did you mean --timeout?");
  EXPECT_EQ(suggest("walk"), "");
  EXPECT_EQ(suggest("vk"), "") << "of two letters nothing is near";
  EXPECT_EQ(suggest(""), "");
  EXPECT_EQ(suggest(std::string(100'000, 'r')), "");
}

}  // namespace
}  // namespace millrace::cli
