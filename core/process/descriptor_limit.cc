#include "core/process/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <limits>

namespace millrace {
namespace {

// Containers may have a hard limit of a billion, and there are programs that go through them all.
constexpr rlim_t kMostDescriptors = rlim_t{1} << 20;

// 0: nothing was raised.
std::atomic<int64_t> original{0};

int64_t ToInt(rlim_t limit) {
  constexpr auto kMost = static_cast<rlim_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min(limit, kMost));
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  int64_t none = 0;
  if (!original.compare_exchange_strong(none, ToInt(limit.rlim_cur))) return;
  const rlim_t wanted = std::min(limit.rlim_max, kMostDescriptors);
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void SetOriginalDescriptorLimit(int64_t soft) {
  if (soft > 0) original = soft;
}

int64_t OriginalDescriptorLimit() {
  const int64_t before = original;
  return before > 0 ? before : DescriptorLimit();
}

void RestoreDescriptorLimit() {
  const int64_t before = original;
  rlimit limit{};
  if (before <= 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(static_cast<rlim_t>(before), limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t DescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return ToInt(limit.rlim_cur);
}

}  // namespace millrace
