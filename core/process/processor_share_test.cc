#include "core/process/processor_share.h"

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ProcessorShareTest, IsWhatAThreadGetsThatWantsToRun) {
  EXPECT_EQ(ParseProcessorShare("0.20 0.18 0.12 1/80 11206\n", 2), 1);
  EXPECT_EQ(ParseProcessorShare("0.20 0.18 0.12 2/80 11206\n", 2), 1);
  EXPECT_EQ(ParseProcessorShare("0.20 0.18 0.12 8/80 11206\n", 2), 0.25);
  EXPECT_EQ(ParseProcessorShare("40.20 0.18 0.12 0/80 11206\n", 2), 1);
}

TEST(ProcessorShareTest, IsOneWhereTheSystemDoesNotSay) {
  for (const char* text : {"", "0.20", "0.20 0.18 0.12 x/80 1", "0.20 0.18 0.12 "}) {
    EXPECT_EQ(ParseProcessorShare(text, 2), 1) << text;
  }
  EXPECT_EQ(ParseProcessorShare("0.20 0.18 0.12 8/80 11206", 0), 1);
}

TEST(ProcessorShareTest, IsKnownOfThisMachine) {
  EXPECT_GT(ProcessorShare(), 0);
  EXPECT_LE(ProcessorShare(), 1);
}

}  // namespace
}  // namespace millrace
