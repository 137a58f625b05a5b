#include "core/agent/link/agent_counts.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Json Parse(const std::string& text) { return *ParseJson(text); }

TEST(AgentCountsTest, WhatIsWrittenIsRead) {
  AgentCounts counts = {.started = 1,
                        .restarted = 2,
                        .finished = 3,
                        .failed = 4,
                        .killed = 5,
                        .stopped = 6,
                        .unstarted = 7,
                        .log_written_bytes = 8,
                        .log_lost_bytes = uint64_t{1} << 62,
                        .relayed_lines = 10,
                        .dropped_lines = 11};
  const std::string text = DumpJson(AgentCountsJson(counts));
  EXPECT_EQ(text,
            R"({"started":1,"restarted":2,"ended":{"finished":3,"failed":4,"killed":5,)"
            R"("stopped":6,"unstarted":7},"log_bytes":{"written":8,"lost":4611686018427387904},)"
            R"("lines":{"relayed":10,"dropped":11}})");
  absl::StatusOr<AgentCounts> read = ParseAgentCounts(Parse(text));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, counts);
  counts.gpus = {.own = 1, .others = 2, .free = 3};
  read = ParseAgentCounts(Parse(DumpJson(AgentCountsJson(counts))));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, counts);
}

TEST(AgentCountsTest, WhatIsNotThereIsNone) {
  const absl::StatusOr<AgentCounts> read = ParseAgentCounts(Parse(R"({"event": "counts"})"));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, AgentCounts());
}

TEST(AgentCountsTest, WhatIsNoCountIsAnErrorThatNamesIt) {
  const std::pair<std::string, std::string> mistakes[] = {
      {R"({"started": -1})", "started"}, {R"({"started": 1.5})", "started"},
      {R"({"ended": 3})", "ended"},      {R"({"ended": {"killed": "x"}})", "ended.killed"},
      {R"({"gpus": []})", "gpus"},       {R"({"gpus": {"free": -1}})", "gpus.free"},
  };
  for (const auto& [text, name] : mistakes) {
    const absl::Status status = ParseAgentCounts(Parse(text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name)) << text;
  }
}

}  // namespace
}  // namespace millrace
