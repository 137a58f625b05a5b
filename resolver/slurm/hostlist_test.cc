#include "resolver/slurm/hostlist.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ExpandHostlistTest, ExpandsRangesInOrder) {
  EXPECT_THAT(ExpandHostlist("n1"), IsOkAndHolds(ElementsAre("n1")));
  EXPECT_THAT(ExpandHostlist("n[3,1-2],m5,n1"),
              IsOkAndHolds(ElementsAre("n3", "n1", "n2", "m5", "n1")));
  EXPECT_THAT(ExpandHostlist("n[08-11,1]"),
              IsOkAndHolds(ElementsAre("n08", "n09", "n10", "n11", "n1")));
  EXPECT_THAT(ExpandHostlist(" a , b[1-2]\n"), IsOkAndHolds(ElementsAre("a", "b1", "b2")));
}

TEST(ExpandHostlistTest, ExpandsSeveralGroupsAndSuffixes) {
  EXPECT_THAT(
      ExpandHostlist("rack[1-2]n[1-3]"),
      IsOkAndHolds(ElementsAre("rack1n1", "rack1n2", "rack1n3", "rack2n1", "rack2n2", "rack2n3")));
  EXPECT_THAT(ExpandHostlist("n[1-2]-ib,[7-8]"),
              IsOkAndHolds(ElementsAre("n1-ib", "n2-ib", "7", "8")));
  EXPECT_THAT(ExpandHostlist("[0-1][0-1].x"),
              IsOkAndHolds(ElementsAre("00.x", "01.x", "10.x", "11.x")));
}

TEST(ExpandHostlistTest, NamesThePlaceOfAMistake) {
  const auto fails = [](const std::string& text, int offset, const std::string& what) {
    EXPECT_THAT(ExpandHostlist(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(absl::StrCat("offset ", offset, ":")), HasSubstr(what))))
        << text;
  };
  fails("", 0, "empty");
  fails("  ", 0, "empty");
  fails("a,,b", 2, "a name is missing");
  fails("a,", 2, "a name is missing");
  fails("a, ,b", 2, "a name is missing");
  fails("n[1-2", 1, "not closed");
  fails("n1-2]", 4, "closes nothing");
  fails("n[1[2]]", 3, "inside brackets");
  fails("n[]", 2, "3 or 3-5");
  fails("n[1,]", 4, "3 or 3-5");
  fails("n[1-2-3]", 2, "3 or 3-5");
  fails("n[a-b]", 2, "3 or 3-5");
  fails("n[-1]", 2, "3 or 3-5");
  fails("n[ 1]", 2, "3 or 3-5");
  fails("n[3,5-4]", 4, "backwards");
  fails("n[99999999999999999999]", 2, "too large");
  fails(absl::StrCat(std::string(250, 'n'), "[1-100000]"), 0, "longer than 255");
}

TEST(ExpandHostlistTest, HostileSizesAreRefusedAtOnce) {
  for (const char* text : {"n[1-999999999]", "n[0-999999999999999999]",
                           "[1-1000][1-1000][1-1000][1-1000][1-1000][1-1000]",
                           "a[1-900000],b[1-900000]", "n[1-999999,1-999999]"}) {
    EXPECT_THAT(ExpandHostlist(text), StatusIs(absl::StatusCode::kResourceExhausted)) << text;
  }
  std::string groups;
  for (int i = 0; i < 100000; ++i) groups += "[1]";
  EXPECT_THAT(ExpandHostlist(groups), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ExpandHostlist(std::string(1 << 20, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ExpandHostlist("n[1-3]", 3), IsOkAndHolds(SizeIs(3)));
  EXPECT_THAT(ExpandHostlist("n[1-3],m", 3), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ExpandTasksPerNodeTest, RepeatsCounts) {
  EXPECT_THAT(ExpandTasksPerNode("3(x2),2,1"), IsOkAndHolds(ElementsAre(3, 3, 2, 1)));
  EXPECT_THAT(ExpandTasksPerNode("0"), IsOkAndHolds(ElementsAre(0)));
  EXPECT_THAT(ExpandTasksPerNode("2, 1"), IsOkAndHolds(ElementsAre(2, 1)));
}

TEST(ExpandTasksPerNodeTest, RefusesWhatIsNoCount) {
  for (const char* text : {"", "x", "2,", "2(x", "2(x)", "2(xa)", "2(3)", "-1", "1(x-1)", "2(x2)3",
                           "(x2)", "2 (y2)"}) {
    EXPECT_THAT(ExpandTasksPerNode(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
  EXPECT_THAT(ExpandTasksPerNode("1,2(x0)"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset 2")));
  EXPECT_THAT(ExpandTasksPerNode("99999999999"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ExpandTasksPerNodeTest, HostileSizesAreRefusedAtOnce) {
  for (const char* text : {"1(x999999999)", "1(x900000),1(x900000)"}) {
    EXPECT_THAT(ExpandTasksPerNode(text), StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

}  // namespace
}  // namespace millrace
