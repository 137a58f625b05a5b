#include "core/cli/host/diagnosis.h"

#include <set>
#include <string>

#include "absl/status/status.h"
#include "core/base/version.h"
#include "core/cli/host/machine_facts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

using Level = Finding::Level;

MachineFacts Healthy() {
  MachineFacts facts;
  facts.processors = 2;
  facts.folder = "/tmp";
  facts.clusters = "/home/a/.millrace/clusters";
  facts.agent = kMillraceVersion;
  facts.gpus = "1 GPU, driver 550";
  return facts;
}

Finding Of(const MachineFacts& facts, const std::string& subject, int num_nodes = 1) {
  for (Finding& finding : DiagnoseMachine(facts, num_nodes)) {
    if (finding.subject == subject) return finding;
  }
  ADD_FAILURE() << "nothing is said of " << subject;
  return {};
}

TEST(DiagnosisTest, AHealthyMachineNeedsNoAdvice) {
  const std::vector<Finding> findings = DiagnoseMachine(Healthy(), 4);
  EXPECT_THAT(findings, Each(Field(&Finding::level, Level::kOk)));
  EXPECT_THAT(findings, Each(Field(&Finding::advice, "")));
  std::set<std::string> subjects;
  for (const Finding& finding : findings) subjects.insert(finding.subject);
  EXPECT_EQ(subjects.size(), findings.size());
}

TEST(DiagnosisTest, WhateverIsNotWellHasAnAdvice) {
  MachineFacts facts = Healthy();
  facts.memory_bytes = 0;
  facts.shared_memory = false;
  facts.folder_status = absl::PermissionDeniedError("/tmp");
  facts.clusters = absl::FailedPreconditionError("HOME is not set");
  facts.clock_synchronized = false;
  facts.agent = absl::NotFoundError("no millrace-agent");
  facts.gpus = absl::UnavailableError("GPU 0: GPU is lost");
  for (const Finding& finding : DiagnoseMachine(facts, 100)) {
    if (finding.subject == "limits") continue;
    EXPECT_NE(finding.level, Level::kOk) << finding.subject;
    EXPECT_NE(finding.advice, "") << finding.subject;
  }
}

TEST(DiagnosisTest, AQuotaCountsIfItIsLessThanTheProcessors) {
  MachineFacts facts = Healthy();
  facts.processor_quota = 0.5;
  EXPECT_EQ(Of(facts, "processors").text, "0.5 (the quota of a control group)");
  EXPECT_EQ(Of(facts, "processors", 4).level, Level::kOk);
  EXPECT_EQ(Of(facts, "processors", 5).level, Level::kWarning);
  facts.processor_quota = 4;
  EXPECT_EQ(Of(facts, "processors").text, "2");
}

TEST(DiagnosisTest, MemoryIsThatOfAllNodes) {
  MachineFacts facts = Healthy();
  facts.memory_bytes = uint64_t{1} << 30;
  facts.memory_group = "/sys/fs/cgroup/job";
  EXPECT_EQ(Of(facts, "memory", 4).level, Level::kOk);
  const Finding finding = Of(facts, "memory", 5);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.text, HasSubstr("/sys/fs/cgroup/job"));
  EXPECT_THAT(finding.advice, HasSubstr("budget_bytes"));
}

TEST(DiagnosisTest, ADriverAloneNeedsNoAgent) {
  MachineFacts facts = Healthy();
  facts.agent = absl::NotFoundError("no millrace-agent");
  EXPECT_EQ(Of(facts, "millrace-agent", 0).level, Level::kWarning);
  EXPECT_EQ(Of(facts, "millrace-agent", 1).level, Level::kProblem);
}

TEST(MachineFactsTest, WhatControlGroupsSay) {
  EXPECT_EQ(ParseMemoryBytes("max\n"), MachineFacts::kUnknown);
  EXPECT_EQ(ParseMemoryBytes("1048576\n"), 1048576u);
  EXPECT_EQ(ParseMemoryBytes(""), MachineFacts::kUnknown);
  EXPECT_EQ(ParseCpuQuota("max 100000\n"), 0);
  EXPECT_EQ(ParseCpuQuota("50000 100000\n"), 0.5);
  EXPECT_EQ(ParseCpuQuota("50000\n"), 0);
  EXPECT_EQ(ParseCpuQuota("1 0\n"), 0);
}

}  // namespace
}  // namespace millrace::cli
