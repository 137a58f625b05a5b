#include "feed/wire/large_blocks.h"

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/base/config.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr int kBlocks = 100;
constexpr int64_t kPageBytes = 4096;

int64_t PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Page faults of `kBlocks` blocks, each allocated, written and freed.
int64_t FaultsOfBlocks() {
  const int64_t before = PageFaults();
  for (int i = 0; i < kBlocks; ++i) {
    void* volatile block = std::malloc(kBlockBytes);
    std::memset(block, i, kBlockBytes);
    std::free(block);
  }
  return PageFaults() - before;
}

TEST(LargeBlocksTest, ABlockIsUsedAgainWithoutFreshPages) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  GTEST_SKIP() << "a sanitizer's allocator";
#endif
  KeepLargeBlocks();
  KeepLargeBlocks();
  EXPECT_LT(FaultsOfBlocks(), 4 * static_cast<int64_t>(kBlockBytes) / kPageBytes);
}

}  // namespace
}  // namespace millrace
