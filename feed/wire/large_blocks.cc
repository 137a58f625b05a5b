#include "feed/wire/large_blocks.h"

#include <cstddef>
#include <cstdlib>

namespace millrace {
namespace {

// What glibc adapts to at most, less a page for its header and one for the flags in it, which
// count.
constexpr size_t kLargest = (size_t{32} << 20) - 2 * 4096;

}  // namespace

void KeepLargeBlocks() {
  // glibc raises its thresholds to the size of a block that it gives back (mallopt(3),
  // M_MMAP_THRESHOLD). mallopt() would do as well, but stop that adaptation, and override the user.
  // Never written to: no page of it comes to exist. Volatile: a compiler may leave out the pair.
  void* volatile block = std::malloc(kLargest);
  std::free(block);
}

}  // namespace millrace
