#include "resolver/tensorflow/tensorflow_hostlist.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(TensorFlowHostlistTest, TakesOneGroupAtTheEnd) {
  EXPECT_THAT(ExpandHostlistAsTensorFlow("n[08-10],m"),
              IsOkAndHolds(ElementsAre("n08", "n09", "n10", "m")));
  EXPECT_THAT(ExpandHostlistAsTensorFlow(""), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(ExpandHostlistAsTensorFlow("n[3-1]"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(ExpandHostlistAsTensorFlow("[5]"), IsOkAndHolds(ElementsAre("5")));
  EXPECT_THAT(ExpandHostlistAsTensorFlow("n[ 1-2]"), IsOkAndHolds(ElementsAre("n01", "n02")));
  const auto fails = [](const std::string& text, const std::string& message) {
    const absl::Status status = ExpandHostlistAsTensorFlow(text).status();
    EXPECT_EQ(status.message(), absl::StrCat("Invalid hostlist format \"", text, "\": ", message));
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(std::string("ValueError")));
  };
  fails("a,,b", "");
  fails(",a", "");
  fails("n[1-2]x", "Invalid part: n[1-2]x");
  fails("rack[1-2]n[1-2]", "Invalid part: rack[1-2]n[1-2]");
  fails("n[]", "Invalid part: n[]");
  fails("n]1", "Invalid part: n]1");
  fails("n[1[2]]", "");
  fails("n[a-b]", "invalid literal for int() with base 10: 'a'");
  fails("n[-3]", "invalid literal for int() with base 10: ''");
  fails("n[1,]", "invalid literal for int() with base 10: ''");
}

TEST(TensorFlowHostlistTest, HostileSizesAreRefusedAtOnce) {
  for (const char* text : {"n[1-999999999]", "n[0-999999999999]"}) {
    EXPECT_THAT(ExpandHostlistAsTensorFlow(text), StatusIs(absl::StatusCode::kResourceExhausted))
        << text;
  }
}

TEST(TensorFlowTasksPerNodeTest, RepeatsCounts) {
  EXPECT_THAT(ExpandTasksPerNodeAsTensorFlow("3(x2),2,1"), IsOkAndHolds(ElementsAre(3, 3, 2, 1)));
  EXPECT_THAT(ExpandTasksPerNodeAsTensorFlow("0"), IsOkAndHolds(ElementsAre(0)));
  EXPECT_THAT(ExpandTasksPerNodeAsTensorFlow("5(x0),1"), IsOkAndHolds(ElementsAre(1)));
}

TEST(TensorFlowTasksPerNodeTest, RefusesWhatIsNoCount) {
  for (const char* text : {"", "x", "2,", "2(x", "2(x)", "2(xa)", "2(3)", "-1", "1(x-1)", "2(x2)3",
                           "(x2)", "2 (y2)"}) {
    const absl::Status status = ExpandTasksPerNodeAsTensorFlow(text).status();
    EXPECT_EQ(status.message(),
              absl::StrCat("Invalid tasks-per-node list format \"", text, "\": "));
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(std::string("ValueError")));
  }
}

TEST(TensorFlowTasksPerNodeTest, HostileSizesAreRefusedAtOnce) {
  for (const char* text :
       {"1(x999999999)", "1(x900000),1(x900000)", "1(x99999999999999999999999)"}) {
    EXPECT_THAT(ExpandTasksPerNodeAsTensorFlow(text),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

}  // namespace
}  // namespace millrace
