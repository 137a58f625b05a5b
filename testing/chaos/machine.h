// File: testing/chaos/machine.h
//
// Faults of the machine that a process may arrange for itself and its own: a disk that is full, a
// date that jumps, descriptors and memory that run out. What a machine does not permit is said
// once.
//
// Defines: PrepareMachine(), SmallDisk, ClockFile, JumpOwnClock(), LimitDescriptors(), MemoryGroup.

#ifndef TESTING_CHAOS_MACHINE_H_
#define TESTING_CHAOS_MACHINE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace millrace::chaos {

// To be called first in main(), before there are threads: this process gets mounts of its own, and
// runs itself again with the library that makes its date jump.
void PrepareMachine(char** argv);

// A file system of a few megabytes at `folder`. Thread safety: not thread-safe.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Leaves no byte free, and gives it back. False if there is no such file system.
  bool Fill();
  void Free();

 private:
  const std::string folder_;
  bool mounted_ = false;
};

// The date of the nodes of a cluster. Thread safety: not thread-safe.
class ClockFile {
 public:
  explicit ClockFile(const std::string& path);
  ~ClockFile();
  ClockFile(const ClockFile&) = delete;
  ClockFile& operator=(const ClockFile&) = delete;

  // For programs whose date is to jump.
  [[nodiscard]] std::map<std::string, std::string> Environment() const;
  // From the true date on. False if there is no clock.
  bool Jump(absl::Duration offset);

 private:
  const std::string path_;
  int64_t* offset_ = nullptr;  // mapped
};

// The date of this process. False if it cannot.
bool JumpOwnClock(absl::Duration offset);

// No descriptor more than the process has. Returns the limit that it had; nullopt if there is no
// such process.
std::optional<uint64_t> LimitDescriptors(pid_t pid);
void RestoreDescriptors(pid_t pid, uint64_t limit);

// A control group with little memory. Thread safety: not thread-safe. Lifetime: the destructor
// moves what is in it back.
class MemoryGroup {
 public:
  MemoryGroup();
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // `pid` and what it starts from now on share two megabytes. False if the machine has no such
  // groups.
  bool Add(pid_t pid);
  // The limit is gone.
  void Release();

 private:
  std::string parent_;
  std::string group_;  // empty: there is none
};

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_MACHINE_H_
