#include "core/base/version_line.h"

#include "core/base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(VersionLineTest, NamesProgramVersionAndBuild) {
  const std::string line = VersionLine("millrace", "agent protocol 1");
  EXPECT_THAT(line, StartsWith(std::string("millrace ") + kMillraceVersion + " ("));
  EXPECT_THAT(line, EndsWith("; agent protocol 1)"));
#if defined(MILLRACE_SANITIZER)
  EXPECT_THAT(line, HasSubstr("with sanitizers, "));
#elif defined(__OPTIMIZE__)
  EXPECT_THAT(line, HasSubstr("optimised, "));
#else
  EXPECT_THAT(line, HasSubstr("not optimised, "));
#endif
}

TEST(VersionLineTest, IsOneLineAndNamesACommitOnlyByItsDigits) {
  EXPECT_THAT(VersionLine("millrace-dashboard", ""),
              MatchesRegex("millrace-dashboard [0-9]+[.][0-9]+[.][0-9]+ "
                           "[(](commit [0-9a-f]+( with changes)?, )?[a-z ]+, [a-z0-9_]+[)]"));
}

}  // namespace
}  // namespace millrace
