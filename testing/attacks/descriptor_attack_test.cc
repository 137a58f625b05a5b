// File descriptors run short: connections that say nothing, and limits that are too low for a
// cluster.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/launch/agent_secret.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/cluster_spec.h"
#include "millrace/node_program.h"
#include "millrace/static_resolver.h"
#include "testing/attacks/attacked_cluster.h"
#include "testing/child_process.h"
#include "testing/listening_agent.h"

namespace millrace::attacks {
namespace {

using ::testing::HasSubstr;

// The beginning of a TLS record of 512 bytes, a ClientHello, whose rest never comes.
const std::string& HalfHello() {
  static const auto* const bytes =
      new std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  return *bytes;
}

class DescriptorAttackTest : public ::testing::Test {
 protected:
  DescriptorAttackTest() : dir_(*TempDir::Create("descriptors")) {
    AttackedCluster::SetEnvironment(dir_.path());
  }

  const TempDir dir_;
};

TEST_F(DescriptorAttackTest, IdleConnectionsKeepNobodyOut) {
  const auto cluster = AttackedCluster::Start("-n 256");
  ASSERT_THAT(cluster, IsOk());
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 400; ++i) idle.push_back(Connect(cluster->file().address, ""));
  EXPECT_THAT(cluster->Look(), IsOk());
  idle.clear();
  EXPECT_THAT(cluster->Look(), IsOk());
}

TEST_F(DescriptorAttackTest, HalfHandshakesKeepNobodyOut) {
  const auto cluster = AttackedCluster::Start("-n 256");
  ASSERT_THAT(cluster, IsOk());
  std::vector<UniqueFd> half;
  for (int i = 0; i < 400; ++i) half.push_back(Connect(cluster->file().address, HalfHello()));
  EXPECT_THAT(cluster->Look(), IsOk());
}

TEST_F(DescriptorAttackTest, AnAgentThatListensIsAdoptedAmongIdleConnections) {
  const std::string secret = JoinPath(dir_.path(), "secret.json");
  ASSERT_THAT(WriteAgentSecretFile(secret, *MakeAgentSecret()), IsOk());
  const auto agent = ListeningAgent::Start("127.0.0.2", secret, /*descriptor_limit=*/64);
  ASSERT_THAT(agent, IsOk());
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(Connect((*agent)->address(), ""));
  const auto resolver =
      StaticResolver::Create({.cluster_spec = *ClusterSpec::Create(
                                  {{"worker", ClusterSpec::TaskList{(*agent)->address()}}})});
  ASSERT_THAT(resolver, IsOk());
  AdoptingLauncherOptions options;
  options.secret.file = secret;
  options.bind_address = "127.0.0.1";
  AdoptingLauncher launcher(**resolver, options);
  auto cluster = Cluster::Run(launcher, NodeProgram::Path("/bin/true"),
                              {.num_executors = 1, .reservation_timeout = kPatience});
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

// 24 nodes, each with four descriptors of the driver's and a connection.
TEST_F(DescriptorAttackTest, ASoftLimitIsRaisedAndNodesGetItBack) {
  std::vector<std::string> command =
      MillraceRun({"-n", "24", "--output", "raw", "--quiet", "--", "/bin/sh", "-c", "ulimit -Sn"});
  auto driver = ChildProcess::Start(Limited("-Sn 100", command));
  ASSERT_THAT(driver, IsOk());
  for (int i = 0; i < 24; ++i) EXPECT_THAT((*driver)->WaitForLine("100", kPatience), IsOk());
  const absl::StatusOr<ExitStatus> end = (*driver)->Wait(kPatience);
  ASSERT_THAT(end, IsOk());
  EXPECT_TRUE(end->ok());
}

TEST_F(DescriptorAttackTest, AHardLimitThatIsTooLowIsNamed) {
  const std::string errors = JoinPath(dir_.path(), "stderr");
  std::vector<std::string> command = MillraceRun(
      {"-n", "24", "--quiet", "--reservation-timeout", "20s", "--", "/bin/sleep", "1000"});
  auto driver = ChildProcess::Start(Limited(absl::StrCat("-n 120 && exec 2>", errors), command));
  ASSERT_THAT(driver, IsOk());
  const absl::StatusOr<ExitStatus> end = (*driver)->Wait(kPatience);
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->ok());
  const absl::StatusOr<std::string> said = ReadFile(errors, 1 << 20);
  ASSERT_THAT(said, IsOk());
  EXPECT_THAT(*said, HasSubstr("file descriptors"));
}

}  // namespace
}  // namespace millrace::attacks
