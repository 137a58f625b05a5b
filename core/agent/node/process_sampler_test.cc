#include "core/agent/node/process_sampler.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/unique_fd.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(ProcessSamplerTest, ReadsThisProcess) {
  const v1::ProcessSample before = SampleProcess(getpid());
  ASSERT_TRUE(before.has_cpu_us());
  EXPECT_GT(before.rss_bytes(), 1u << 20);
  EXPECT_GE(before.threads(), 1u);
  EXPECT_GE(before.open_files(), 3u);

  std::vector<UniqueFd> files;
  for (int i = 0; i < 10; ++i) files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<char> memory(64 << 20, 'x');
  volatile uint64_t spin = 0;
  v1::ProcessSample after = before;
  while (after.cpu_us() < before.cpu_us() + 50'000) {
    for (int i = 0; i < 1'000'000; ++i) spin = spin + memory[static_cast<size_t>(i)];
    after = SampleProcess(getpid());
  }
  EXPECT_GE(after.open_files(), before.open_files() + 10);
  EXPECT_GE(after.rss_bytes(), before.rss_bytes() + (60u << 20));
}

TEST(ProcessSamplerTest, CountsDescendants) {
  const v1::ProcessSample before = SampleProcess(getpid());
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild != 0) {
      (void)!write(ready[1], "x", 1);
    }
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const v1::ProcessSample with = SampleProcess(getpid());
  const v1::ProcessSample of_child = SampleProcess(child);
  EXPECT_EQ(of_child.threads(), 2u);
  EXPECT_GE(with.threads(), before.threads() + 2);
  // The grandchild is an orphan once its parent is gone: found before that, by its parent.
  pid_t grandchild = 0;
  FILE* children = fopen(
      ("/proc/" + std::to_string(child) + "/task/" + std::to_string(child) + "/children").c_str(),
      "r");
  ASSERT_NE(children, nullptr);
  ASSERT_EQ(fscanf(children, "%d", &grandchild), 1);
  fclose(children);
  kill(grandchild, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(ProcessSamplerTest, KnowsNothingOfAProcessThatIsGone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const v1::ProcessSample sample = SampleProcess(child);
  EXPECT_FALSE(sample.has_cpu_us());
  EXPECT_FALSE(sample.has_rss_bytes());
  EXPECT_FALSE(sample.has_threads());
  EXPECT_FALSE(sample.has_open_files());
  EXPECT_FALSE(SampleProcess(0).has_threads());
}

}  // namespace
}  // namespace millrace
