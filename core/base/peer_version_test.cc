#include "core/base/peer_version.h"

#include <utility>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "core/base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

absl::Status Check(absl::string_view ours, absl::string_view theirs) {
  return CheckVersions({"this agent", ours}, {"the program", theirs});
}

TEST(PeerVersionTest, OneMinorVersionApartWorksTogether) {
  EXPECT_THAT(Check("0.2.0", "0.2.7"), IsOk());
  EXPECT_THAT(Check("0.2.0", "0.3.0"), IsOk());
  EXPECT_THAT(Check("0.3.0", "0.2.0"), IsOk());
  EXPECT_THAT(Check("1.9.3", "1.10.0"), IsOk());
  EXPECT_THAT(Check("1.0.0", "1.1.0-dev"), IsOk());
}

TEST(PeerVersionTest, OthersAreRefusedBothWays) {
  for (const auto& [one, other] :
       {std::pair("0.2.0", "0.4.0"), std::pair("0.2.0", "9.9.9"), std::pair("0.2.0", "1.2.0"),
        std::pair("0.9.0", "1.0.0"), std::pair("1.1.0", "1.3.0"), std::pair("0.2.0", "0.1.0"),
        std::pair("0.1.0", "0.1.0")}) {
    EXPECT_EQ(Check(one, other).code(), absl::StatusCode::kFailedPrecondition) << one << other;
    EXPECT_EQ(Check(other, one).code(), absl::StatusCode::kFailedPrecondition) << one << other;
  }
}

TEST(PeerVersionTest, ARefusalNamesBothAndWhatToDo) {
  EXPECT_EQ(Check("0.2.0", "9.9.9\n").message(),
            "the program is version 9.9.9\\n of Millrace and this agent version 0.2.0: versions "
            "work together if they are at most one minor version apart (from 0.2 on); install the "
            "same version on both");
}

TEST(PeerVersionTest, WhoDoesNotSayIsNotJudged) {
  for (const char* version : {"", "fake", "2", "-1.2", "0x1.2"}) {
    EXPECT_THAT(Check("0.2.0", version), IsOk()) << version;
  }
}

TEST(PeerVersionTest, ThisBuildWorksWithItself) {
  EXPECT_THAT(Check(kMillraceVersion, kMillraceVersion), IsOk());
  EXPECT_FALSE(Check(kMillraceVersion, "999.0.0").ok()) << "this build's version is none";
}

}  // namespace
}  // namespace millrace
