#include "core/process/descriptor_limit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace millrace {
namespace {

rlimit Limit() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit;
}

// Each in a process of its own: what is remembered lives as long as the process.
template <typename Body>
int InChild(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void SetSoft(rlim_t soft) {
  rlimit limit = Limit();
  limit.rlim_cur = soft;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(DescriptorLimitTest, IsRaisedToTheHardLimitAndGivenBack) {
  if (Limit().rlim_max < 65) GTEST_SKIP() << "the hard limit is below 65";
  EXPECT_EQ(InChild([] {
              SetSoft(64);
              RaiseDescriptorLimit();
              if (DescriptorLimit() <= 64) return 1;
              RaiseDescriptorLimit();  // remembers nothing new
              if (OriginalDescriptorLimit() != 64) return 2;
              RestoreDescriptorLimit();
              return DescriptorLimit() == 64 ? 0 : 3;
            }),
            0);
}

TEST(DescriptorLimitTest, WhatTheParentSaysIsGivenBack) {
  if (Limit().rlim_max < 65) GTEST_SKIP() << "the hard limit is below 65";
  EXPECT_EQ(InChild([] {
              SetSoft(64);
              RaiseDescriptorLimit();
              SetOriginalDescriptorLimit(0);
              if (OriginalDescriptorLimit() != 64) return 1;
              SetOriginalDescriptorLimit(48);
              RestoreDescriptorLimit();
              return DescriptorLimit() == 48 ? 0 : 2;
            }),
            0);
}

TEST(DescriptorLimitTest, WithoutARaiseNothingChanges) {
  EXPECT_EQ(InChild([] {
              const int64_t before = DescriptorLimit();
              RestoreDescriptorLimit();
              return DescriptorLimit() == before && OriginalDescriptorLimit() == before ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace millrace
