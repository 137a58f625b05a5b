// File: core/process/descriptor_limit.h
//
// How many file descriptors this process may have open. Millrace's own processes take all that the
// system lets them have (the hard limit); programs that they start get the soft limit back that
// there was before, since some of them use select(2), which cannot count beyond 1,023.
//
// Defines: RaiseDescriptorLimit(), SetOriginalDescriptorLimit(), OriginalDescriptorLimit(),
// RestoreDescriptorLimit(), DescriptorLimit().
//
//   RaiseDescriptorLimit();                    // at start
//   ...
//   if (fork() == 0) {
//     RestoreDescriptorLimit();
//     execve(...);
//   }
//
// Thread safety: thread-safe. Blocking: never.

#ifndef CORE_PROCESS_DESCRIPTOR_LIMIT_H_
#define CORE_PROCESS_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace millrace {

// Raises the soft limit (RLIMIT_NOFILE) to the hard one, a million at most. The first call
// remembers what it was; later ones change nothing. A system that refuses leaves it as it is.
void RaiseDescriptorLimit();

// Sets the limit as it was before the process that started this one raised it for itself. Overrides
// what RaiseDescriptorLimit() remembered; a value that is not positive changes nothing.
void SetOriginalDescriptorLimit(int64_t soft);

// The soft limit to give to programs of others: what it was before the first
// RaiseDescriptorLimit(), or what it is if there was none.
[[nodiscard]] int64_t OriginalDescriptorLimit();

// Sets the soft limit to OriginalDescriptorLimit(). Between fork and exec: it is async-signal-safe.
// Does nothing without a RaiseDescriptorLimit() before.
void RestoreDescriptorLimit();

// The soft limit as it is.
[[nodiscard]] int64_t DescriptorLimit();

}  // namespace millrace

#endif  // CORE_PROCESS_DESCRIPTOR_LIMIT_H_
