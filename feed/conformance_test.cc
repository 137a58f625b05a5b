// The conformance program, as it is shipped, against the SDK's node and the SDK's feeder: whatever
// rule it breaks, its verdict is that they are right.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "millrace/status_macros.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

using ::testing::Contains;

constexpr absl::Duration kPatience = absl::Minutes(4);
constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr int kAtATime = 4;

std::string Program() { return EnvOr("CONFORMANCE", ""); }

// The rules that the program knows for `role`, and the empty one, which breaks nothing.
std::vector<std::string> RulesOf(absl::string_view role) {
  std::vector<std::string> rules = {""};
  const auto program = ChildProcess::Start({Program(), "rules"});
  EXPECT_THAT(program, IsOk());
  if (!program.ok()) return rules;
  const std::string begin = absl::StrCat(role, " ");
  while (true) {
    const absl::StatusOr<std::string> line = (*program)->WaitForLine(begin, kPatience);
    if (!line.ok()) return rules;  // their end
    const std::vector<std::string> words = absl::StrSplit(*line, ' ', absl::SkipEmpty());
    rules.push_back(words.at(2));
  }
}

// Its arguments for a rule.
std::vector<std::string> Arguments(const std::string& role, const std::string& rule) {
  std::vector<std::string> argv = {Program(), role};
  if (!rule.empty()) argv.insert(argv.end(), {"--break", rule});
  return argv;
}

// Waits until it ends, and for the verdict that the other side was right.
void ExpectRight(ChildProcess& program, const std::string& rule) {
  const absl::StatusOr<std::string> line =
      program.WaitForLine("{\"event\": \"verdict\"", kPatience);
  ASSERT_THAT(line, IsOk()) << rule;
  const absl::StatusOr<ExitStatus> exit = program.Wait(kPatience);
  ASSERT_THAT(exit, IsOk()) << rule;
  EXPECT_EQ(DescribeExit(*exit), "exit code 0") << *line;
  const absl::StatusOr<Json> verdict = ParseJson(*line);
  ASSERT_THAT(verdict, IsOk());
  EXPECT_EQ(verdict->value("rule", "?"), rule);
  EXPECT_TRUE(verdict->value("ok", false)) << *line;
}

void ForEach(const std::vector<std::string>& rules,
             const std::function<void(const std::string& rule)>& check) {
  std::atomic<size_t> next{0};
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < kAtATime; ++i) {
    threads.push_back(std::make_unique<Thread>("rules", [&] {
      for (size_t at = next++; at < rules.size(); at = next++) check(rules[at]);
    }));
  }
  for (const auto& thread : threads) thread->Join();
}

// ----------------------------------------------------------------------------- the SDK's node

void CheckNode(const std::string& rule) {
  const auto node =
      FeedReceiver::Start({.node_name = "worker:0", .nonce = kNonce, .budget_bytes = 1 << 20});
  ASSERT_THAT(node, IsOk());
  Thread program("program", [&] {
    const auto feed = (*node)->GetDataFeed();
    EXPECT_THAT(feed, IsOk());
    while (!(*feed)->ShouldStop()) EXPECT_THAT((*feed)->NextBatch(10), IsOk()) << rule;
  });
  std::vector<std::string> argv = Arguments("feeder", rule);
  argv.insert(argv.end(),
              {"--endpoint", (*node)->endpoints().ipc, "--key", (*node)->endpoints().key, "--nonce",
               kNonce, "--rows", "100", "--batch-rows", "20", "--feed-timeout", "60"});
  const auto feeder = ChildProcess::Start(argv);
  ASSERT_THAT(feeder, IsOk());
  ExpectRight(**feeder, rule);
  (*node)->EndAllFeeds();
  program.Join();
}

TEST(ConformanceTest, TheNodeIsRightWhateverAFeederBreaks) {
  const std::vector<std::string> rules = RulesOf("feeder");
  EXPECT_THAT(rules, Contains("exceed-credit"));
  EXPECT_THAT(rules, Contains("send-before-credit"));
  ForEach(rules, CheckNode);
}

// --------------------------------------------------------------------------- the SDK's feeder

// Two batches, and what comes back.
absl::Status Feed(Feeder& feeder, const FeedTarget& target, FeedMode mode) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::shared_ptr<FeedSession> session,
      feeder.OpenSession(
          target, {.feed_id = "f1", .queue = "input", .mode = mode, .feed_timeout = kPatience}));
  for (const int64_t first : {0, 2}) {
    MILLRACE_ASSIGN_OR_RETURN(
        const RecordBatch rows,
        BatchBuilder().AddColumn("id", std::vector<int64_t>{first, first + 1}).Build());
    MILLRACE_RETURN_IF_ERROR(session->Send(rows));
  }
  MILLRACE_RETURN_IF_ERROR(session->Finish(4));
  while (mode == FeedMode::kInference) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> results, session->NextResult());
    if (!results.has_value()) break;
  }
  return session->WaitDone();
}

void CheckFeeder(const std::string& rule) {
  std::vector<std::string> argv = Arguments("node", rule);
  argv.insert(argv.end(), {"--nonce", kNonce, "--seconds", "60"});
  const auto node = ChildProcess::Start(argv);
  ASSERT_THAT(node, IsOk());
  const absl::StatusOr<std::string> line = (*node)->WaitForLine("{\"event\": \"ready\"", kPatience);
  ASSERT_THAT(line, IsOk()) << rule;
  const absl::StatusOr<Json> ready = ParseJson(*line);
  ASSERT_THAT(ready, IsOk());
  const auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  const absl::Status status = Feed(**feeder,
                                   {.node = "worker:0",
                                    .nonce = kNonce,
                                    .ipc_endpoint = ready->value("ipc", ""),
                                    .tcp_endpoint = ready->value("tcp", ""),
                                    .key = ready->value("key", "")},
                                   rule == "result-gap" ? FeedMode::kInference : FeedMode::kTrain);
  EXPECT_EQ(status.ok(), rule.empty() || rule == "optional-type") << rule << ": " << status;
  ExpectRight(**node, rule);
}

TEST(ConformanceTest, TheFeederIsRightWhateverANodeBreaks) {
  const std::vector<std::string> rules = RulesOf("node");
  EXPECT_THAT(rules, Contains("early-done"));
  ForEach(rules, CheckFeeder);
}

}  // namespace
}  // namespace millrace
