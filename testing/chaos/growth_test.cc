#include "testing/chaos/growth.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::chaos {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GrowthTest, WhatGrowsSteadilyIsFoundAndWhatGoesUpAndDownIsNot) {
  Growth growth;
  for (int i = 0; i < 100; ++i) {
    growth.Add("leaks", {.memory_bytes = 1 << 20, .descriptors = 10 + i, .threads = 5});
    growth.Add("noisy", {.memory_bytes = (i % 10) << 26, .descriptors = i % 50, .threads = i % 9});
    growth.Add("warms up", {.memory_bytes = i < 25 ? 0 : 1 << 30, .descriptors = 3, .threads = 1});
  }
  EXPECT_THAT(growth.Find(100), ElementsAre("leaks: descriptors grow from 59 to 85"));
  EXPECT_THAT(growth.Find(101), IsEmpty());
}

TEST(GrowthTest, TheUsageOfAProcessIsReadFromTheSystem) {
  const auto before = UsageOf(::getpid());
  ASSERT_TRUE(before.has_value());
  EXPECT_GT(before->memory_bytes, 0);
  EXPECT_GE(before->threads, 1);
  const UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(UsageOf(::getpid())->descriptors, before->descriptors + 1);
  EXPECT_FALSE(UsageOf(1 << 30).has_value());
}

}  // namespace
}  // namespace millrace::chaos
