#include "core/process/process_usage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/process/descriptor_limit.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ProcessUsageTest, ReadsThisProcess) {
  const std::optional<ProcessUsage> before = ReadProcessUsage(getpid());
  ASSERT_TRUE(before.has_value());
  EXPECT_GE(before->threads, 1u);
  EXPECT_GT(before->resident_bytes, 1u << 20);
  ASSERT_TRUE(before->open_files.has_value());
  EXPECT_EQ(ReadOpenFilesLimit(getpid()), DescriptorLimit());
  std::vector<UniqueFd> files;
  for (int i = 0; i < 10; ++i) files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ReadProcessUsage(getpid())->open_files, *before->open_files + 10);
}

TEST(ProcessUsageTest, TellsItsOwnTimeFromThatOfItsChildren) {
  absl::StatusOr<TempDir> proc = TempDir::Create();
  ASSERT_THAT(proc, IsOk());
  const std::string folder = absl::StrCat(proc->path(), "/7");
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  // A name that holds what stands between the fields; 40 and 2 ticks, children's 500 and 7.
  ASSERT_THAT(WriteFileAtomic(absl::StrCat(folder, "/stat"),
                              "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 40 2 500 7 20 0 5 0 100 4096 "
                              "3 18446744073709551615 1 1 0 0\n"),
              IsOk());
  std::optional<ProcessUsage> usage = ReadProcessUsage(7, proc->path());
  ASSERT_TRUE(usage.has_value());
  const absl::Duration tick = absl::Seconds(1) / sysconf(_SC_CLK_TCK);
  EXPECT_EQ(usage->cpu, 42 * tick);
  EXPECT_EQ(usage->children_cpu, 507 * tick);
  EXPECT_EQ(usage->threads, 5u);
  EXPECT_EQ(usage->resident_bytes, 3u * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(usage->open_files, std::nullopt);
  EXPECT_EQ(ReadOpenFilesLimit(7, proc->path()), std::nullopt);
  ASSERT_THAT(WriteFileAtomic(absl::StrCat(folder, "/limits"),
                              "Limit         Soft Limit   Hard Limit   Units\n"
                              "Max open files            1024     524288     files     \n"),
              IsOk());
  EXPECT_EQ(ReadOpenFilesLimit(7, proc->path()), 1024u);
  ASSERT_THAT(WriteFileAtomic(absl::StrCat(folder, "/limits"),
                              "Max open files            unlimited     unlimited     files\n"),
              IsOk());
  EXPECT_EQ(ReadOpenFilesLimit(7, proc->path()), std::nullopt);
  ASSERT_THAT(WriteFileAtomic(absl::StrCat(folder, "/stat"), "7 (cut) S 1 7"), IsOk());
  EXPECT_FALSE(ReadProcessUsage(7, proc->path()).has_value());
}

TEST(ProcessUsageTest, KnowsNothingOfAProcessThatIsGone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(ReadProcessUsage(child).has_value());
  EXPECT_FALSE(ReadProcessUsage(0).has_value());
}

}  // namespace
}  // namespace millrace
