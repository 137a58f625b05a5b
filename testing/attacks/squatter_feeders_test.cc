// A process of another user at a node's loopback port: each implementation of the feeder, as a
// process.

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/attacks/other_user.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kKey[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr absl::Duration kPatience = absl::Seconds(120);

TEST(SquatterFeedersTest, ASquatterAtALoopbackPortGetsNoRowAndNoSecret) {
  const auto other = OtherUser::Create();
  if (absl::IsUnavailable(other.status())) GTEST_SKIP() << other.status().message();
  ASSERT_THAT(other, IsOk());
  const auto squatter = other->Start("testing/attacks/squatter", {"tcp://127.0.0.1:*"});
  ASSERT_THAT(squatter, IsOk());
  const auto ready = (*squatter)->WaitForLine("ready", kPatience);
  ASSERT_THAT(ready, IsOk());
  const std::string endpoint(absl::StripPrefix(*ready, "ready "));

  const auto folder = TempDir::Create();
  ASSERT_THAT(folder, IsOk());
  const std::string lookup = JoinPath(folder->path(), "lookup.json");
  const Json node = {
      {"state", "running"}, {"endpoint", endpoint}, {"key", kKey}, {"nonce", "5b0c9e1f22d3a4b6"}};
  ASSERT_THAT(WriteFileAtomic(lookup, node.dump()), IsOk());
  auto feeder = ChildProcess::Start({EnvOr("FEEDER", ""),
                                     "--lookup-file",
                                     lookup,
                                     "--reply",
                                     "tcp",
                                     "--mode",
                                     "train",
                                     "--partitions",
                                     "1",
                                     "--rows",
                                     "100",
                                     "--batch-rows",
                                     "10",
                                     "--feed-id",
                                     "f1",
                                     "--columns",
                                     "id:int64,name:utf8",
                                     "--check-results",
                                     "none",
                                     "--deadline",
                                     "60",
                                     "--feed-timeout",
                                     "10"});
  ASSERT_THAT(feeder, IsOk());
  std::optional<Json> end;
  while (!end.has_value()) {
    const auto line = (*feeder)->WaitForLine("", kPatience);
    ASSERT_THAT(line, IsOk());
    const auto event = ParseJson(*line);
    if (event.ok() && event->value("event", "") == "end") end = *event;
  }
  EXPECT_EQ(end->at("code"), "UNAUTHENTICATED") << end->dump();
  EXPECT_THAT(end->at("message").get<std::string>(), HasSubstr(endpoint));
  const auto exit = (*feeder)->Wait(kPatience);
  ASSERT_THAT(exit, IsOk());
  EXPECT_NE(exit->code, 0);

  (*squatter)->Kill(SIGTERM);
  std::vector<std::string> loot;
  while (true) {
    const auto line = (*squatter)->WaitForLine("", kPatience);
    if (!line.ok()) break;
    loot.push_back(*line);
  }
  EXPECT_THAT(loot, Not(IsEmpty()));  // it was met
  EXPECT_THAT(loot, Each(AnyOf(StartsWith("login PLAIN feeder/"), StartsWith("open "),
                               StartsWith("abort "))));
  EXPECT_THAT(loot, Each(Not(HasSubstr(kKey))));
}

}  // namespace
}  // namespace millrace
