#include "testing/chaos/growth.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
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

TEST(GrowthTest, FilesOfAFolderAreCountedAndMayNotGrow) {
  const absl::StatusOr<TempDir> folder = TempDir::Create("growth");
  ASSERT_THAT(folder, IsOk());
  Growth growth;
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(WriteFileAtomic(JoinPath(folder->path(), std::to_string(i)), "x"), IsOk());
    growth.Add("folder", {.files = FilesBelow(folder->path())});
  }
  EXPECT_THAT(growth.Find(100), ElementsAre("folder: files grow from 50 to 76"));
  EXPECT_THAT(growth.Summaries(100), ElementsAre("folder: 26 files; in the end 100 files"));
  EXPECT_EQ(FilesBelow(JoinPath(folder->path(), "none")), 0);
  const std::string blocks = JoinPath(folder->path(), "blockmgr-1");
  std::filesystem::create_directories(JoinPath(blocks, "3f"));
  ASSERT_THAT(WriteFileAtomic(JoinPath(blocks, "3f/rdd_1_2"), "x"), IsOk());
  EXPECT_EQ(FilesBelow(blocks), 1);
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
