#include "core/cli/output/text_table.h"

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TextTable Nodes() {
  TextTable table({"NODE", "PID", "HOST", "NOTE"});
  table.AddRow({{"worker:0"}, {"4711"}, {""}, {"all is well here"}});
  table.AddRow({{"ps:0"}, {""}, {""}, {"starting"}});
  return table;
}

TEST(TextTableTest, AlignsColumnsAndLeavesEmptyOnesOut) {
  EXPECT_EQ(Nodes().ToString(Styler(false), 80),
            "NODE      PID   NOTE\n"
            "worker:0  4711  all is well here\n"
            "ps:0            starting\n");
}

TEST(TextTableTest, FitsTheWidth) {
  EXPECT_EQ(Nodes().ToString(Styler(false), 24),
            "NODE      PID   NOTE\n"
            "worker:0  4711  all is …\n"
            "ps:0            starting\n");
  EXPECT_EQ(Nodes().ToString(Styler(false), 18),
            "NODE    PID   NOTE\n"
            "worke…  4711  all…\n"
            "ps:0          sta…\n");
}

TEST(TextTableTest, NamesGiveWayLast) {
  TextTable table({"NODE", "ADDRESS", "STATE", "FILES"});
  table.AddRow({{"worker:0"}, {"127.0.0.1:4711"}, {"running"}, {"7"}});
  EXPECT_EQ(table.ToString(Styler(false), 31),
            "NODE      ADDRE…  STATE    FIL…\n"
            "worker:0  127.0…  running  7\n");
}

TEST(TextTableTest, ForeignTextCannotDriveTheTerminal) {
  TextTable table({"A"});
  table.AddRow({{"x\x1b[31m"}});
  EXPECT_EQ(table.ToString(Styler(false), 80), "A\nx\\x1b[31m\n");
}

TEST(TextTableTest, CountsCharactersNotBytes) {
  EXPECT_EQ(DisplayWidth("größe"), 5u);
  EXPECT_EQ(FitText("größere", 5), "größ…");
  EXPECT_EQ(FitText("größe", 5), "größe");
}

TEST(TextTableTest, ColoursOnlyWhatIsWritten) {
  TextTable table({"A", "B"});
  table.AddRow({{"x", Style::kGreen}, {"y"}});
  EXPECT_EQ(table.ToString(Styler(true), 80),
            "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[32mx\x1b[0m  y\n");
}

}  // namespace
}  // namespace millrace::cli
