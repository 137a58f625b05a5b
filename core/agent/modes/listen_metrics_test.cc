#include "core/agent/modes/listen_metrics.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/agent/link/agent_counts.h"
#include "core/metrics/metrics_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ListenMetricsTest : public testing::Test {
 protected:
  // The lines of these samples, without "millrace_agent_".
  std::vector<std::string> Lines(absl::string_view name) const {
    const std::string begin = absl::StrCat("millrace_agent_", name);
    std::vector<std::string> lines;
    for (const absl::string_view line :
         absl::StrSplit(metrics_.Text(MetricsFormat::kOpenMetrics), '\n')) {
      const absl::string_view rest = absl::StripPrefix(line, begin);
      if (rest.size() != line.size() && (rest[0] == '{' || rest[0] == ' ')) {
        lines.emplace_back(line.substr(sizeof("millrace_agent_") - 1));
      }
    }
    return lines;
  }

  ListenMetrics metrics_{
      {.version = "1.2", .host = "h\"1", .started = absl::FromUnixSeconds(1000)}};
};

TEST_F(ListenMetricsTest, AnAgentThatNobodyHasCalledHasEveryCounter) {
  EXPECT_THAT(Lines("info"), ElementsAre(R"(info{version="1.2",host="h\"1"} 1)"));
  EXPECT_THAT(Lines("started_timestamp_seconds"), ElementsAre("started_timestamp_seconds 1000"));
  EXPECT_THAT(Lines("slots"), ElementsAre(R"(slots{state="free"} 1)", R"(slots{state="held"} 0)",
                                          R"(slots{state="running"} 0)"));
  EXPECT_THAT(Lines("adoptions_total"), ElementsAre("adoptions_total 0"));
  EXPECT_THAT(Lines("refusals_total"), SizeIs(8));
  EXPECT_THAT(Lines("node_starts_total"), ElementsAre("node_starts_total 0"));
  EXPECT_THAT(Lines("node_ends_total"), SizeIs(6));
  EXPECT_THAT(Lines("log_written_bytes_total"), ElementsAre("log_written_bytes_total 0"));
  EXPECT_THAT(Lines("gpus"), IsEmpty());
  EXPECT_THAT(Lines("secret_expiry_timestamp_seconds"), IsEmpty());
  metrics_.SetSecretExpiry(absl::FromUnixSeconds(2000));
  EXPECT_THAT(Lines("secret_expiry_timestamp_seconds"),
              ElementsAre("secret_expiry_timestamp_seconds 2000"));
  EXPECT_TRUE(absl::EndsWith(metrics_.Text(MetricsFormat::kOpenMetrics), "# EOF\n"));
}

TEST_F(ListenMetricsTest, EachRefusalHasItsReason) {
  metrics_.Refused(Refusal::kBusy);
  metrics_.Refused(Refusal::kBusy);
  metrics_.Refused(Refusal::kEnding);
  metrics_.Refused(Refusal::kFenced);
  metrics_.Refused(Refusal::kInvalid);
  metrics_.Refused(Refusal::kReplayed);
  metrics_.Refused(Refusal::kToken);
  metrics_.Refused(Refusal::kVersion);
  EXPECT_THAT(
      Lines("refusals_total"),
      ElementsAre(R"(refusals_total{reason="busy"} 2)", R"(refusals_total{reason="ending"} 1)",
                  R"(refusals_total{reason="fenced"} 1)", R"(refusals_total{reason="invalid"} 1)",
                  R"(refusals_total{reason="replayed"} 1)", R"(refusals_total{reason="token"} 1)",
                  R"(refusals_total{reason="version"} 1)",
                  R"(refusals_total{reason="handshake"} 0)"));
}

TEST_F(ListenMetricsTest, CountersGoOnFromAgentToAgent) {
  metrics_.AgentStarted(getpid());
  metrics_.AgentCounted({.started = 1});
  metrics_.AgentCounted({.started = 2,
                         .restarted = 1,
                         .finished = 1,
                         .failed = 1,
                         .log_written_bytes = 10,
                         .log_lost_bytes = 1,
                         .relayed_lines = 2,
                         .dropped_lines = 3,
                         .gpus = GpuCounts{.own = 1, .others = 2, .free = 5}});
  EXPECT_THAT(Lines("gpus"), ElementsAre(R"(gpus{state="own"} 1)", R"(gpus{state="others"} 2)",
                                         R"(gpus{state="free"} 5)"));
  metrics_.AgentEnded();
  EXPECT_THAT(Lines("gpus"), IsEmpty()) << "nobody looks at them now";
  metrics_.AgentStarted(getpid());
  metrics_.AgentCounted({.started = 1, .stopped = 1, .unstarted = 4, .log_written_bytes = 5});
  EXPECT_THAT(Lines("node_starts_total"), ElementsAre("node_starts_total 3"));
  EXPECT_THAT(Lines("node_restarts_total"), ElementsAre("node_restarts_total 1"));
  EXPECT_THAT(Lines("node_ends_total"), ElementsAre(R"(node_ends_total{outcome="finished"} 1)",
                                                    R"(node_ends_total{outcome="failed"} 1)",
                                                    R"(node_ends_total{outcome="killed"} 0)",
                                                    R"(node_ends_total{outcome="stopped"} 1)",
                                                    R"(node_ends_total{outcome="lost"} 0)",
                                                    R"(node_ends_total{outcome="unstarted"} 4)"));
  EXPECT_THAT(Lines("log_written_bytes_total"), ElementsAre("log_written_bytes_total 15"));
  EXPECT_THAT(Lines("log_lost_bytes_total"), ElementsAre("log_lost_bytes_total 1"));
  EXPECT_THAT(Lines("relayed_lines_total"), ElementsAre("relayed_lines_total 2"));
  EXPECT_THAT(Lines("dropped_lines_total"), ElementsAre("dropped_lines_total 3"));
}

TEST_F(ListenMetricsTest, ANodeWhoseAgentWasKilledIsLost) {
  metrics_.AgentStarted(getpid());
  metrics_.AgentCounted({.started = 3, .finished = 1, .killed = 1});
  EXPECT_THAT(Lines("node_ends_total"), Contains(R"(node_ends_total{outcome="lost"} 0)"));
  metrics_.AgentEnded();
  metrics_.AgentEnded();  // nothing of it is left to be counted
  EXPECT_THAT(Lines("node_ends_total"), Contains(R"(node_ends_total{outcome="lost"} 1)"));
}

TEST_F(ListenMetricsTest, TheAgentThatRunsIsASecondProcess) {
  EXPECT_THAT(Lines("threads"), SizeIs(1));
  metrics_.AgentStarted(getpid());
  EXPECT_THAT(Lines("threads"),
              ElementsAre(HasSubstr(R"({process="listener"})"), HasSubstr(R"({process="agent"})")));
  for (const char* name :
       {"cpu_seconds_total", "resident_memory_bytes", "open_descriptors", "descriptor_limit"}) {
    EXPECT_THAT(Lines(name), SizeIs(2)) << name;
  }
  metrics_.AgentEnded();
  EXPECT_THAT(Lines("threads"), SizeIs(1));
}

TEST_F(ListenMetricsTest, TheSlotIsInOneState) {
  metrics_.SetSlot(SlotUse::kRunning);
  EXPECT_THAT(Lines("slots"), ElementsAre(R"(slots{state="free"} 0)", R"(slots{state="held"} 0)",
                                          R"(slots{state="running"} 1)"));
}

}  // namespace
}  // namespace millrace
