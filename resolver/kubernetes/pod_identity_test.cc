#include "resolver/kubernetes/pod_identity.h"

#include <cstdlib>
#include <optional>

#include "core/net/socket_address.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

class PodIdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"POD_NAME", "POD_NAMESPACE", "POD_UID"}) unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(PodIdentityTest, IsWhatTheDownwardApiSets) {
  setenv("POD_NAME", "w-1", 1);
  setenv("POD_NAMESPACE", "ml", 1);
  setenv("POD_UID", "4f", 1);
  const PodIdentity expected{.name = "w-1", .namespace_name = "ml", .uid = "4f"};
  EXPECT_EQ(PodIdentityFromEnvironment(false), expected);
  EXPECT_EQ(PodIdentityFromEnvironment(true), expected);
}

TEST_F(PodIdentityTest, FallsBackToTheHostsNameInAPod) {
  EXPECT_EQ(PodIdentityFromEnvironment(false), std::nullopt);
  EXPECT_EQ(PodIdentityFromEnvironment(true), (PodIdentity{.name = LocalHostname()}));
  setenv("POD_NAMESPACE", "ml", 1);
  EXPECT_EQ(PodIdentityFromEnvironment(true),
            (PodIdentity{.name = LocalHostname(), .namespace_name = "ml"}));
}

TEST_F(PodIdentityTest, NeedsNoNameWhereTheUidIsKnown) {
  setenv("POD_UID", "4f", 1);
  EXPECT_EQ(PodIdentityFromEnvironment(true), (PodIdentity{.uid = "4f"}));
}

}  // namespace
}  // namespace millrace
